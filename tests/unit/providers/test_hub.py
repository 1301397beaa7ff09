"""Spaces of the Hub, by their names."""

import pytest

from envweave.errors import UsageError
from envweave.providers.hub import TRUST, Space


@pytest.mark.parametrize(
    "name",
    [
        *("", "space", "a/b/c", "/b", "a/", "../b", "a/..", "a/b..c", "a b/c", "a/b c", "a/b\n", "ä/b", "a\\b/c"),
        *("https://huggingface.co/spaces/a/b", "a/b?c", "a/b#c", "a/b@c", "a/$(id)", "-/-;ls", None, 5, b"a/b"),
    ],
)
def test_what_is_no_name_of_a_space_is_refused(name):
    with pytest.raises(UsageError, match="is not a Space of the Hub"):
        Space(name)


@pytest.mark.parametrize(
    ("name", "slug"),
    [("openenv/echo_env", "openenv-echo-env"), ("A.b/C--d", "a-b-c-d"), ("x/y.", "x-y"), ("-x/y", "x-y")],
)
def test_the_image_of_a_space_has_the_hub_s_name_for_it(monkeypatch, name, slug):
    monkeypatch.delenv("HF_SPACES_REGISTRY", raising=False)
    assert Space(name).image() == f"registry.hf.space/{slug}:latest"
    monkeypatch.setenv("HF_SPACES_REGISTRY", "mirror:5000")
    assert Space(name).image() == f"mirror:5000/{slug}:latest"


@pytest.mark.parametrize("trust", [None, False])
def test_code_from_outside_wants_consent(monkeypatch, trust):
    monkeypatch.delenv(TRUST, raising=False)
    with pytest.raises(UsageError, match=r"(?s)code from outside.*trust_remote_code=True"):
        Space("a/b").package(trust)


def test_a_no_is_a_no_whatever_the_variable_says(monkeypatch):
    monkeypatch.setenv(TRUST, "1")
    with pytest.raises(UsageError):
        Space("a/b").package(False)
    monkeypatch.setenv(TRUST, "0")
    with pytest.raises(UsageError):
        Space("a/b").package()


def test_the_package_of_a_space_is_its_repository(monkeypatch):
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert Space("a/b").package(True) == "git+https://huggingface.co/spaces/a/b"
    monkeypatch.setenv("HF_ENDPOINT", "file:///mirror/")
    monkeypatch.setenv(TRUST, "1")
    assert Space("a/b").package() == "git+file:///mirror/spaces/a/b"
