import ast
import json
import os
import socket
import struct
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from envweave.sandbox import boot, guest
from envweave.sandbox.guest.frames import Channel
from envweave.sandbox.guest.plan import Plan

MODULES = sorted(Path(os.path.dirname(guest.__file__)).glob("*.py"))
NOBODY = 65534


def sent() -> dict[str, tuple[str, str]]:
    data = boot.modules()
    (length,) = struct.unpack("<I", data[:4])
    assert len(data) == 4 + length
    found: dict[str, tuple[str, str]] = json.loads(data[4:])
    return found


def start(where: str, *descriptors: int, **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *boot.ARGUMENTS, where],
        pass_fds=descriptors,
        env={**boot.ENVIRONMENT, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def plan(*preload: str) -> Plan:
    return Plan("unsafe", NOBODY, NOBODY, (), preload, True, os.getpid())


def test_all_modules_of_the_guest_are_sent_and_nothing_else() -> None:
    expected = {f"envweave.sandbox.guest.{path.stem}" for path in MODULES if path.stem != "__init__"}
    assert set(sent()) == {"envweave", "envweave.sandbox", "envweave.sandbox.guest", *expected}


def test_packages_are_sent_empty() -> None:
    assert all(sent()[name][1] == "" for name in ("envweave", "envweave.sandbox", "envweave.sandbox.guest"))


def test_no_path_of_the_host_is_sent() -> None:
    assert all(path == "" or path.startswith("<envweave ") for path, _ in sent().values())


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_guest_needs_only_the_standard_library(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            assert name.startswith("envweave.sandbox.guest") or name.partition(".")[0] in sys.stdlib_module_names


def test_an_interpreter_that_is_sent_its_modules_answers() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = start(str(theirs.fileno()), theirs.fileno())
        ours.settimeout(60)
        ours.sendall(boot.modules())
        channel = Channel(ours, limit=1 << 20)
        channel.send({"op": "forkserver", "plan": asdict(plan())})
        hello, _ = channel.receive()
    said = process.communicate(timeout=60)
    assert hello["op"] != "failed"
    assert said == (b"", b"")
    assert process.returncode == 0


def test_an_interpreter_can_be_reached_by_a_path(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        listener.settimeout(60)
        process = start(str(tmp_path / "s"))
        ours, _ = listener.accept()
        with ours:
            ours.settimeout(60)
            ours.sendall(boot.modules())
            channel = Channel(ours, limit=1 << 20)
            channel.send({"op": "forkserver", "plan": asdict(plan())})
            hello, _ = channel.receive()
        process.communicate(timeout=60)
    assert hello["op"] != "failed"


def test_an_interpreter_that_is_sent_nothing_ends() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        process = start(str(theirs.fileno()), theirs.fileno())
    ours.close()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"nobody has sent anything" in said


def test_a_module_that_cannot_be_preloaded_is_named() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = start(str(theirs.fileno()), theirs.fileno())
        ours.settimeout(60)
        ours.sendall(boot.modules())
        channel = Channel(ours, limit=1 << 20)
        channel.send({"op": "forkserver", "plan": asdict(plan("no_such_module_here"))})
        hello, _ = channel.receive()
    process.communicate(timeout=60)
    assert hello["op"] == "failed"
    assert "no_such_module_here" in hello["reason"]


def test_neither_the_folder_nor_the_users_packages_are_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "socket.py").write_text("raise SystemExit('this is not the socket you are looking for')")
    arguments = [
        sys.executable,
        *boot.ARGUMENTS[:-1],
        "import socket, sys; print(sys.flags.no_user_site, sys.path[:1])",
    ]
    done = subprocess.run(arguments, cwd=tmp_path, env=boot.ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("1 ")
    assert str(tmp_path) not in done.stdout


def test_the_environment_has_nothing_of_ours() -> None:
    assert "HOME" not in boot.ENVIRONMENT
    assert not set(boot.ENVIRONMENT) & {name for name in os.environ if name.startswith(("ENVWEAVE", "AWS", "DOCKER"))}
