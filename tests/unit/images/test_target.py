"""What an image is asked for."""

import pytest

from envweave.core.ids import image_name
from envweave.errors import EnvNotFoundError, UsageError
from envweave.images.target import target_of

PROJECT = """
[project]
name = "Two_Games"
version = "1"
[project.entry-points."envweave.envs"]
chess = "games:Chess"
"go fish" = "games:GoFish"
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    return tmp_path


def test_a_name_is_served_as_it_was_given():
    assert target_of("echo").env_id == "echo"
    assert target_of("lineworld?size=7").env_id == "lineworld?size=7"
    assert target_of("pkg://envweave.envs.nim:NimEnv").env_id == "pkg://envweave.envs.nim:NimEnv"


def test_what_comes_with_envweave_needs_nothing_more():
    target = target_of("echo")
    assert target.project is None
    assert target.distribution is None


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("envweave-echo", "envweave-echo:latest"),
        ("My_Env", "my-env:latest"),
        ("envweave-a.b:C", "envweave-a-b-c:latest"),
        ("--", "env:latest"),
    ],
)
def test_a_tag_is_one_that_docker_takes(name, tag):
    assert image_name(name) == tag


def test_the_tag_of_a_name_does_not_hold_its_parameters():
    assert target_of("lineworld?size=7").tag == "envweave-lineworld:latest"


def test_a_project_is_tagged_by_its_own_name(project):
    target = target_of(str(project), "chess")
    assert target.tag == "two-games:latest"
    assert target.env_id == "chess"
    assert target.project == project


def test_a_project_with_several_environments_wants_a_choice(project):
    with pytest.raises(UsageError, match="has 2 environments") as caught:
        target_of(str(project))
    assert caught.value.hint == "choose with --env: chess, go fish"
    with pytest.raises(UsageError, match="has no environment 'ches'") as caught:
        target_of(str(project), "ches")
    assert caught.value.hint == "did you mean 'chess'?"


def test_a_project_without_environments_says_how_to_list_them(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    with pytest.raises(UsageError, match="offers no environment") as caught:
        target_of(str(tmp_path))
    assert "envweave.envs" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "has no pyproject.toml"),
        ("[project\n", "cannot be read"),
        ("", "has no project.name"),
        ("project = 3\n", "has no project.name"),
        ("[project]\nname = 3\n", "has no project.name"),
        ("\x00", "cannot be read"),
    ],
)
def test_a_folder_that_is_no_project_is_refused(tmp_path, text, message):
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        target_of(str(tmp_path))


def test_a_bare_name_is_an_id_first_and_a_folder_then(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("echo", "chess"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text(PROJECT)
    assert target_of("echo").project is None
    assert target_of("./echo", "chess").project == tmp_path / "echo"
    assert target_of("chess", "chess").project == tmp_path / "chess"
    with pytest.raises(EnvNotFoundError):
        target_of("ches")
