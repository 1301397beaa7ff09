"""The sandbox suite for all boundaries: all of it for namespaces, what depends on the boundary for the others."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from envweave.errors import IsolationError, SandboxError, UsageError
from envweave.sandbox import Sandbox
from envweave.testing.suites.sandbox import BoundarySuite, SandboxSuite
from envweave.testing.suites.sandbox.base import Make
from support.need import need


@pytest.fixture(scope="session")
def open_python() -> Iterator[str]:
    """A Python that every user of the machine can run, which one below somebody's home may not be."""
    if os.getuid() != 0 or _open_to_all(os.path.realpath(sys.executable), sys.prefix, sys.base_prefix):
        yield sys.executable
        return
    system = "/usr/bin/python3"
    asked = [system, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
    if os.path.exists(system) and subprocess.run(asked, check=False).returncode == 0:
        yield system
        return
    folder = Path(tempfile.mkdtemp(prefix="python-for-all-"))
    try:
        ignore = shutil.ignore_patterns("site-packages", "__pycache__", "test", "tests")
        shutil.copytree(sys.base_prefix, folder / "python", symlinks=True, ignore=ignore)
        for path in (folder, *folder.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o055 if path.is_dir() or path.stat().st_mode & 0o100 else 0o044))
        yield str(folder / "python" / "bin" / f"python3.{sys.version_info.minor}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _open_to_all(*paths: str) -> bool:
    def passable(path: Path) -> bool:
        return bool(path.stat().st_mode & stat.S_IXOTH)

    return all(
        passable(Path(path)) and Path(path).stat().st_mode & stat.S_IROTH and all(map(passable, Path(path).parents))
        for path in paths
    )


def available(tier: str, make: Make) -> Make:
    """The same, if this machine has the tier."""
    with make() as sandbox:
        try:
            sandbox.report()
        except IsolationError as error:
            need(tier, str(error))
    return make


class Reported(BoundarySuite):
    """The boundary says what it is."""

    isolation = ""
    on: frozenset[str] = frozenset()

    def test_the_report_names_the_isolation_and_its_layers(self, sandbox: Sandbox) -> None:
        report = sandbox.report()
        assert report.isolation == self.isolation
        assert report.why
        assert all(layer.name and layer.why for layer in report.layers)
        on = {layer.name for layer in report.layers if layer.on}
        assert on & {"network namespace", "seccomp"} == self.on


class TestNamespace(Reported, SandboxSuite):
    isolation = "namespace"
    on = frozenset({"network namespace", "seccomp"})
    forks = True

    @pytest.fixture
    def make_sandbox(self) -> Make:
        return available("namespace", partial(Sandbox, isolation="namespace"))

    def test_a_repr_that_ends_the_process_undoes_the_run_where_that_is_the_policy(self, make: Make) -> None:
        with make(after_kill="rollback").start() as session:
            session.run("x = 1")
            bad = "class Bad:\n    def __repr__(self):\n        import os\n        os._exit(1)\nx = Bad()\n5"
            result, found = session.run_and_inspect(bad)
            assert (result.return_value, result.state, found) == (5, "rolled_back", None)
            assert session.run("x").return_value == 1


class TestLandlock(Reported):
    isolation = "landlock"
    on = frozenset({"seccomp"})

    @pytest.fixture
    def make_sandbox(self, open_python: str) -> Make:
        return available("landlock", partial(Sandbox, isolation="landlock", python=open_python))


class TestProcess(Reported):
    isolation = "process"

    @pytest.fixture
    def make_sandbox(self, open_python: str) -> Make:
        return available("process", partial(Sandbox, isolation="process", python=open_python))


class TestLocal(Reported):
    isolation = "unsafe"
    confined = False

    @pytest.fixture
    def make_sandbox(self) -> Make:
        return partial(Sandbox, "local")


class TestDocker(Reported):
    isolation = "container"
    on = frozenset({"network namespace", "seccomp"})
    at_once = 4

    @pytest.fixture
    def make_sandbox(self, python_image: str) -> Make:
        return partial(Sandbox, "docker", image=python_image)


# What was asked for.


@pytest.fixture(scope="module")
def namespaces() -> None:
    available("namespace", partial(Sandbox, isolation="namespace"))


def test_auto_takes_the_strongest(namespaces: None) -> None:
    with Sandbox() as sandbox:
        assert sandbox.report().isolation == "namespace"


@pytest.mark.parametrize("isolation", ["landlock", "process", "unsafe"])
def test_less_than_the_least_isolation_is_refused(isolation: Any) -> None:
    with pytest.raises(IsolationError) as caught:
        Sandbox(isolation=isolation, min_isolation="namespace")
    assert "'namespace'" in caught.value.message
    assert caught.value.hint


def test_a_backend_without_walls_does_not_pass_for_isolation() -> None:
    with pytest.raises((IsolationError, UsageError)), Sandbox("local", min_isolation="namespace") as sandbox:
        sandbox.start()


def test_the_least_isolation_lets_more_pass(namespaces: None) -> None:
    with Sandbox(min_isolation="process") as sandbox, sandbox.start() as session:
        assert session.run("1").return_value == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"backend": "dokcer"},
        {"isolation": "strong"},
        {"min_isolation": "strong"},
        {"after_kill": "cry"},
        {"pool": -1},
        {"preload": "numpy"},
        {"readable": "/usr"},
        {"files": {"a.txt": 5}},
    ],
    ids=str,
)
def test_a_wrong_argument_is_the_callers_mistake_and_has_a_hint(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        Sandbox(**wrong)
    assert caught.value.hint


@pytest.mark.parametrize("tools", [{"a b": len}, {"for": len}, {"": len}, {"x": 3}, {"1": len}], ids=str)
def test_a_tool_has_a_name_and_can_be_called(tools: Any) -> None:
    with pytest.raises(UsageError):
        Sandbox(tools=tools)


def test_a_python_that_is_none_is_named() -> None:
    with Sandbox(python="/nowhere/python") as sandbox, pytest.raises(SandboxError, match="/nowhere/python"):
        sandbox.start()


def test_a_module_that_fails_is_no_reason_to_do_with_less_isolation(namespaces: None) -> None:
    with Sandbox(preload=["no_such_module_here"]) as sandbox, pytest.raises(SandboxError) as caught:
        sandbox.start()
    assert "no_such_module_here" in caught.value.message
    assert not isinstance(caught.value, IsolationError)
