"""What the tests of MCP share. They run in `.venv-mcp`: the package is of another version than openenv's."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from envweave.errors import UnavailableError
from envweave.tools.mcp.requirement import require_mcp
from support.need import need

HERE = Path(__file__).parent

try:
    require_mcp()
    collect_ignore_glob = []
except UnavailableError:
    collect_ignore_glob = ["test_[!h]*.py"]  # `test_here` says so


def loaded(name):
    """A module of this folder, which is no package: its name is that of the one that it tests."""
    spec = importlib.util.spec_from_file_location(f"mcp_tests_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def peers():
    """The module that knows where servers and clients from npm are."""
    found = loaded("peers")
    if not found.are_here():
        need("node", f"packages from npm are not here: {sys.executable} {HERE / 'peers.py'}")
    return found


@pytest.fixture(scope="session")
def python():
    """How to start one of the servers in this folder over stdio."""

    def configured(name, *arguments, **options):
        return {"command": sys.executable, "args": [str(HERE / "servers" / f"{name}.py"), *arguments], **options}

    return configured


@pytest.fixture
def http_server(python) -> Iterator[tuple[str, subprocess.Popen]]:
    """The URL of the useful server, and its process."""
    how = python("useful", "http")
    process = subprocess.Popen([how["command"], *how["args"]], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
