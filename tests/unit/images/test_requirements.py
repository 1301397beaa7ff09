"""Dependencies that the base image installs."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent.parent
SCRIPT = ROOT / "docker" / "base" / "requirements.py"


def required(text, *extras):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *extras], input=text, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_an_extra_may_include_another_extra():
    text = """
[project]
name = "a"
dependencies = ["b>=1"]
[project.optional-dependencies]
one = ["a[two]", "c"]
two = ["d; python_version > '3'", "a-b[x]"]
"""
    assert required(text) == ["b>=1"]
    assert required(text, "one") == ["b>=1", "d; python_version > '3'", "a-b[x]", "c"]


def test_the_base_image_installs_the_server_extra_of_envweave():
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"]
    assert set(required(text, "server")) == {
        *project["dependencies"],
        *extras["client"],
        *(line for line in extras["server"] if not line.startswith("envweave")),
    }
