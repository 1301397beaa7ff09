"""A sandbox to break out of, and the tools of somebody who tries."""

import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envweave.errors import IsolationError
from envweave.sandbox import Sandbox
from envweave.sandbox.guest import syscalls
from support.need import need

CANARY = "canary-" + secrets.token_hex(16)
"""A secret of the host: in its environment while the sandbox is made, and in whatever file a test puts it."""

PRELUDE = '''
import ctypes, errno, gc, json, mmap, os, resource, signal, socket, stat, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def call(name, *arguments):
    """What the kernel says to a call: a number, or the name of the error."""
    passed = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = libc.syscall(ctypes.c_long(nr[name]), *passed)
    return result if result != -1 else errno.errorcode[ctypes.get_errno()]

def attempt(do, *arguments, **keywords):
    """`allowed`, or the name of the error."""
    try:
        do(*arguments, **keywords)
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    return "allowed"

def worker():
    """The object that runs this code, found through the frames below it."""
    here = sys._getframe()
    while not hasattr(here.f_locals.get("self"), "mail"):
        here = here.f_back
    return here.f_locals["self"]

def frame(message, blob=b""):
    text = (message if isinstance(message, str) else json.dumps(message)).encode()
    return struct.pack("<II", len(text), len(blob)) + text + blob

def forge(**answer):
    """Say to the host that this run is over, and what came of it."""
    os.write(100, frame({"op": "result", "id": worker().mail._step, **answer}))

def holds(secret):
    """How often the text, given backwards, is in this process: looked for in a copy that never had it in full."""
    copy = os.fork()
    if not copy:
        signal.pause()
    wanted, hits = bytes(reversed(secret.encode())), 0
    memory = os.open(f"/proc/{copy}/mem", os.O_RDONLY)
    with open(f"/proc/{copy}/maps") as lines:
        for line in lines:
            start, end = (int(each, 16) for each in line.split()[0].split("-"))
            try:
                hits += os.pread(memory, end - start, start).count(wanted) if line.split()[1][0] == "r" else 0
            except (OSError, OverflowError):  # [vvar] and its like
                pass
    os.close(memory)
    os.kill(copy, signal.SIGKILL)
    os.waitpid(copy, 0)
    return hits

def strangers():
    """Processes that are not this one, nor the first."""
    return [int(each) for each in os.listdir("/proc") if each.isdigit() and int(each) not in (1, os.getpid())]
'''


@pytest.fixture(scope="session")
def canary() -> str:
    return CANARY


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """The default one, made while the host holds a secret in its environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENVWEAVE_CANARY", CANARY)
        try:
            made = Sandbox(min_isolation="namespace")
            made.report()
        except IsolationError as error:
            need("namespace", f"there are no user namespaces here: {error.message}")
    with made:
        yield made


@pytest.fixture
def make(sandbox: Sandbox) -> Iterator[Callable[..., Any]]:
    """Armed sessions of sandboxes with other options."""
    made: list[Sandbox] = []

    def start(**options: Any) -> Any:
        made.append(Sandbox(min_isolation="namespace", **options))
        return arm(made[-1].start())

    yield start
    for each in made:
        each.close()


@pytest.fixture
def session(sandbox: Sandbox) -> Iterator[Any]:
    """A session of the default sandbox, armed."""
    with sandbox.start() as started:
        yield arm(started)


@pytest.fixture
def other(sandbox: Sandbox) -> Iterator[Any]:
    """A second one."""
    with sandbox.start() as started:
        yield arm(started)


def arm(session: Any) -> Any:
    session.set("nr", syscalls.table(syscalls.machine()))
    armed = session.run(PRELUDE)
    assert armed.success, armed.exception
    return session


@pytest.fixture(name="arm")
def _arm() -> Callable[[Any], Any]:
    return arm


@pytest.fixture
def value() -> Callable[..., Any]:
    """Run code that must succeed, for the value of its last expression."""

    def run(session: Any, code: str, **options: Any) -> Any:
        result = session.run(code, **options)
        assert result.success, (result.exception and result.exception.traceback) or result.exception
        return result.return_value

    return run


@pytest.fixture
def marker() -> str:
    """A word that nothing else on this machine has in its command line."""
    return "envweave-marker-" + secrets.token_hex(8)


@pytest.fixture(scope="session")
def marked() -> Callable[[str], list[int]]:
    """The processes of the whole machine that carry a marker, as the host numbers them."""
    return _marked


def _marked(marker: str) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                words = (folder / "cmdline").read_bytes()
                alive = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
            except OSError:
                continue
            if alive and marker.encode() in words:
                found.append(int(folder.name))
    return found


@pytest.fixture(scope="session")
def eventually() -> Callable[..., bool]:
    """Whether something becomes true, within a generous time."""

    def wait(condition: Callable[[], Any], seconds: float = 30.0) -> bool:
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                return False
            time.sleep(0.01)
        return True

    return wait
