"""What `pip install 'envweave[…]'` offers."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def needs(extra):
    """The packages of an extra, those of the extras that it includes too."""
    found = set()
    for requirement in EXTRAS[extra]:
        name, inner = re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", requirement).groups()
        found |= set().union(*map(needs, inner.split(","))) if name == "envweave" else {name}
    return found


@pytest.mark.parametrize("extra", EXTRAS)
def test_no_extra_is_empty(extra):
    assert needs(extra)


@pytest.mark.parametrize("extra", ["docker", "kubernetes", "server"])
def test_an_extra_that_starts_servers_includes_the_client(extra):
    assert needs("client") <= needs(extra)


def test_every_extra_that_is_named_somewhere_exists():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("src/**/*.py"), *ROOT.glob("src/**/*.txt")]
    text = "".join(page.read_text() for page in [*pages, ROOT / "Makefile", ROOT / "pyproject.toml"])
    named = {extra for group in re.findall(r"envweave\[([a-z,-]+)\]", text) for extra in group.split(",")}
    assert named <= set(EXTRAS)
