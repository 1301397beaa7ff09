"""The same worker in a container, one for each session: the packages of an image, behind a wall that everybody knows.

Covered, and shown by tests/integration/test_sandbox_docker.py:

    network             none, not even the host's loopback
    files               the image, read-only; nothing of the host's
    rights              user 1000 without capabilities, and no way to gain any
    system calls        our filter within Docker's
    memory, processes   control groups of the container
    disk                file systems in memory, of bounded size: the work folder, and small ones at /tmp and /dev/shm
    other sessions      namespaces of their own
    what is left        nothing, and after a host that was killed, nothing once another has begun

Not covered: faults of the kernel, which is the host's, and of the daemon and runc, which are root; timing. User 1000 of
the container is user 1000 of the host, unless the daemon maps its users. The daemon is on this very machine, as workers
are handed descriptors. Sessions cannot be forked, as a container has no right to mount a second work folder.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

from envweave.core import process_identity
from envweave.docker_client import FAILURES, ImageNotFound, connect, daemon_url, reason, remove_container
from envweave.errors import ProviderError, ProviderUnreachableError, SandboxError, UnavailableError
from envweave.sandbox import boot, confinement, door
from envweave.sandbox.base import Boundary, Place
from envweave.sandbox.cgroup import memory_of
from envweave.sandbox.forkserver import bounds_of
from envweave.sandbox.guest.frames import Hangup, Message
from envweave.sandbox.guest.plan import AGENT, Plan
from envweave.sandbox.limits import Limits
from envweave.sandbox.line import Line
from envweave.sandbox.report import Report
from envweave.sandbox.supervision import Supervision
from envweave.sandbox.waiting import BLOCKING, LOOPING, Wait, drive

T = TypeVar("T")

IMAGE = "python:3.11-slim"
_PATIENCE = 60.0
_PYTHON = "the image needs a python3 of version 3.11 or later that user 1000 can run, and the modules of `preload`"
_HERE = "sandboxes need a daemon on this machine that sees its temporary folder"
_FAILURES = (*FAILURES, ProviderError)


class DockerBoundary(Boundary):
    """Containers of one image. `cpus` is how many processors each may keep busy."""

    def __init__(self, *, image: str | None = None, preload: Iterable[str] = (), cpus: float | None = 1.0) -> None:
        self.image = image or IMAGE
        self._plan = Plan("container", AGENT, AGENT, (), tuple(preload), False, os.getpid())
        self._containers: set[Container] = set()
        self._hello: Message | None = None
        """What the last supervisor said of its walls."""
        self._client = _connect()
        self._finalizer = weakref.finalize(self, _end, self._client, self._containers, os.getpid())
        try:
            self._info = self._client.info()
            self.cpus = cpus if self._info.get("CpuCfsQuota") else None
            self._base = self._client.images.get(self.image).attrs
            _sweep(self._client)
        except ImageNotFound:
            self.close()
            raise UnavailableError(f"Docker has no image {self.image!r}", f"docker pull {self.image}") from None
        except _FAILURES as error:
            self.close()
            raise SandboxError(f"the Docker daemon fails: {reason(error)}") from error

    async def open(self, wait: Wait, limits: Limits) -> Place:
        if not self.alive:
            raise SandboxError("the sandbox is closed")
        container = Container(self._client)
        self._containers.add(container)
        try:
            with door.Door() as entrance:
                options = confinement.options(limits, self.cpus, self._base, entrance.folder)
                await _aside(wait, lambda: container.start(options))
                sock = await entrance.let_in(wait, container.pid, _PATIENCE)
            container.supervision = Supervision(Line(sock, limit=1 << 30))
            await self._begin(wait, container.supervision.line, limits)
        except Hangup:
            said = await _aside(wait, container.last_words)
            await self._drop(wait, container)
            raise SandboxError(f"the container ended at once: {said or 'it said nothing'}", _PYTHON) from None
        except _FAILURES as error:
            await self._drop(wait, container)
            hint = _HERE if "bind source" in str(error) else _PYTHON
            raise SandboxError(f"no container: {reason(error)}", hint) from error
        except BaseException:
            await self._drop(wait, container)
            raise
        no_fork = "a container has no right to mount a second work folder; the backend 'process' can"
        watch = confinement.unkept(self._info)
        return Place(container.supervision, container.pid, watch, no_fork, container.out_of_memory)

    async def _begin(self, wait: Wait, line: Line, limits: Limits) -> None:
        line.sock.settimeout(_PATIENCE)
        try:
            await _aside(wait, lambda: line.sock.sendall(boot.modules()))
            line.sock.setblocking(False)
            await line.send(wait, {"op": "supervisor", "plan": asdict(self._plan), "bounds": bounds_of(limits)})
            self._hello, _ = await line.first(wait, _PATIENCE)
        except OSError:
            raise Hangup from None

    async def end(self, wait: Wait, place: Place) -> None:
        for container in [each for each in self._containers if each.supervision is place.supervision]:
            await self._drop(wait, container)

    async def _drop(self, wait: Wait, container: Container) -> None:
        with suppress(*_FAILURES):  # without a daemon: hung up on, it has ended, and `close` tries again to remove it
            await _aside(wait, container.remove)
            self._containers.discard(container)

    def report(self) -> Report:
        if self._hello is None:  # what works is known by doing it
            drive(self.end(BLOCKING, drive(self.open(BLOCKING, Limits()))))
        layers = tuple(confinement.layers(self._info, self._hello or {}, self.cpus))
        return Report("container", f"as asked for, of the image {self.image!r}", layers)

    @property
    def alive(self) -> bool:
        return self._finalizer.alive

    def close(self) -> None:
        self._finalizer()


class Container:
    """One container, from before it is made until it is gone. What two threads ask of it happens in turn."""

    def __init__(self, client: Any) -> None:
        self.pid = 0
        """Of its supervisor, as the host numbers it."""
        self.supervision: Supervision | None = None
        self._client = client
        self._name = f"envweave-{os.getpid()}-{secrets.token_hex(6)}"
        self._made: Any = None
        self._gone = False
        self._lock = threading.Lock()

    def start(self, options: dict[str, Any]) -> None:
        with self._lock:
            if self._gone:
                raise SandboxError("the sandbox was closed meanwhile")
            labels = {**_labels(), "envweave.owner": str(os.getpid())}
            self._made = self._client.containers.create(name=self._name, labels=labels, **options)
            self._made.start()
            self._made.reload()
            self.pid = self._made.attrs["State"]["Pid"]
            self._group = memory_of(self.pid)

    def last_words(self) -> str:
        """The end of its log, once it has ended: of an exception, the last line says which."""
        with self._lock, suppress(*_FAILURES):
            self._made.wait(timeout=10)
            return str(self._made.logs(tail=1).decode(errors="replace").strip())
        return ""

    def out_of_memory(self) -> bool:
        """Has the kernel killed a process of it because memory ran out? If that was the supervisor, Docker knows."""
        if self._group.killed():
            return True
        with suppress(*_FAILURES):
            self._made.reload()
            state = self._made.attrs["State"]
            return bool(state["OOMKilled"] and not state["Running"])
        return False

    def remove(self) -> None:
        """Kill it and all that is in it. Safe to call twice."""
        if self.supervision is not None:
            self.supervision.line.close()
        with self._lock:
            if not self._gone:
                remove_container(self._client, self._name)
                self._gone = True


def _connect() -> Any:
    url = daemon_url()
    if sys.platform != "linux" or not url.startswith("unix://"):
        raise UnavailableError(f"no sandbox with the Docker daemon at {url} from {sys.platform}", _HERE)
    try:
        return connect(timeout=_PATIENCE)
    except ProviderUnreachableError as error:
        raise UnavailableError(error.message, error.hint) from error


def _labels() -> dict[str, str]:
    return {"envweave.kind": "sandbox", "envweave.world": process_identity.machine_id()}


def _sweep(client: Any) -> None:
    """What hosts have left that were killed."""
    door.sweep()
    labels = [f"{name}={value}" for name, value in _labels().items()]
    for each in client.containers.list(all=True, filters={"label": labels}, ignore_removed=True):
        if process_identity.is_dead(each.labels["envweave.owner"]):
            with suppress(ProviderError):  # another process may be removing it
                remove_container(client, each.name)


def _end(client: Any, containers: set[Container], owner: int) -> None:
    """In a forked copy of the host there is nothing to end."""
    if os.getpid() == owner:
        for container in list(containers):
            with suppress(*_FAILURES):
                container.remove()
        client.close()


async def _aside(wait: Wait, call: Callable[[], T]) -> T:
    """The SDK blocks: on a loop, it does so in a thread."""
    return await asyncio.to_thread(call) if wait is LOOPING else call()
