"""A server in a container of this machine's Docker daemon, or of Podman's Docker-compatible socket.

With `sandbox.docker` and `images.build`, the door to the Docker SDK.
"""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ClassVar
from urllib.parse import urlsplit

from envweave.errors import ProviderError, UnavailableError, UsageError
from envweave.providers.base import LAST_LINES, Provider, in_owner, labels, shown
from envweave.providers.container import ContainerOptions
from envweave.providers.door import LABEL, Door
from envweave.providers.door import remove as remove_folder
from envweave.providers.started import Started

try:
    import docker
    from docker.errors import APIError, DockerException, ImageNotFound, NotFound
except ModuleNotFoundError:
    raise UnavailableError("'docker' is not installed", "pip install 'envweave[docker]'") from None

DEFAULT_HOST = "unix:///var/run/docker.sock"
_PATIENCE = 120
"""Seconds for one answer of the daemon: a busy one takes its time."""
_KILLED = 137
_LOOKS, _LOOK_PAUSE = 10, 0.05
_OWED: set[tuple[str, str | None]] = set()
"""Containers by name and daemon that were to be removed when it did not answer."""
_FAILURES = (DockerException, OSError)
"""The SDK's own, and those of the connection to the daemon."""


class LocalDockerProvider(Provider):
    """One container. Docker chooses its port on this machine's loopback.

        with running(LocalDockerProvider("echo-env:latest", memory="512m")) as url: ...

    Options are those of `ContainerOptions`. The daemon is the one that `docker_host` or `DOCKER_HOST` names.
    """

    kind: ClassVar[str] = "docker"

    def __init__(self, image: str = "", **options: Any) -> None:
        self.options = ContainerOptions.chosen({"image": image, **options})
        self._name = self._since = ""
        self._door: Door | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None

    def start(self, image: str = "", **options: Any) -> str:
        if self._name:
            raise UsageError(f"{self._name} has started already", "stop() it first, or use another provider")
        given = {"image": image, **options} if image else options
        chosen = self.options = ContainerOptions.chosen(given, self.options)
        chosen.check()
        name = f"envweave-{os.getpid()}-{secrets.token_hex(6)}"
        with connected(chosen.docker_host) as client:
            _make_up(client, chosen.docker_host)
            _fetch(client, chosen)
            self._name, self._door = name, _door(chosen)
            folder = "" if self._door is None else self._door.folder
            self._finalizer = weakref.finalize(self, _remove, name, folder, chosen, os.getpid())
            try:
                options = chosen.for_docker(labels(), self._door)
                created = _to_the_end(partial(client.containers.create, name=name, **options))
                created.start()
                created.reload()
                self._since = created.attrs["State"]["StartedAt"]
                self.url = self._address(chosen, created)
            except (*_FAILURES, TypeError, ValueError) as error:  # the last two are for arguments in `extra`
                self.stop()
                raise ProviderError(*_why_not_started(chosen, error)) from error
            except BaseException:
                self.stop()
                raise
        return self.url

    def _address(self, chosen: ContainerOptions, container: Any) -> str:
        if chosen.network == "host":
            return f"http://{_daemon_machine(chosen.docker_host)}:{chosen.port}"
        bound = (container.attrs["NetworkSettings"].get("Ports") or {}).get(f"{chosen.port}/tcp")
        if not bound:
            self.check()  # it has ended at once: then it has no ports either
            raise ProviderError(f"port {chosen.port} of {self._name} was not published")
        return f"http://{_daemon_machine(chosen.docker_host)}:{bound[0]['HostPort']}"

    def shortcut(self, url: str) -> str:
        door = self._door
        return door.path if door is not None and url == self.url and door.is_open() else ""

    @property
    def env_vars(self) -> Mapping[str, str]:
        return self.options.env_vars

    @property
    def name(self) -> str:
        """The name of the container; empty where there is none."""
        return self._name

    def check(self) -> None:
        if not self._name:
            raise ProviderError("there is no container", "call start() first")
        try:
            with connected(self.options.docker_host) as client:
                container = client.containers.get(self._name)
                state = _settled(container)
                if state["Running"] and not state.get("Dead") and not state.get("Paused"):
                    if state["StartedAt"] == (self._since or state["StartedAt"]):
                        return
                    raise ProviderError(f"somebody restarted the container of {self.options.image}")
                log = container.logs(tail=LAST_LINES).decode(errors="replace")
        except _FAILURES as error:
            if getattr(error, "status_code", 0) in (404, 409):  # the latter: it is being removed
                raise ProviderError(f"the container of {self.options.image} is gone: somebody removed it") from None
            raise ProviderError(f"the Docker daemon fails: {_reason(error)}") from error
        raise ProviderError(f"the container of {self.options.image} {_end(state)}{shown(log)}", _advice(state))

    def logs(self, tail: int | None = None) -> str:
        with suppress(ProviderError, *_FAILURES):
            if self._name:
                with connected(self.options.docker_host) as client:
                    text = client.containers.get(self._name).logs(tail="all" if tail is None else tail)
                    return str(text.decode(errors="replace"))
        return ""

    def stop(self) -> None:
        finalizer, self._finalizer = self._finalizer, None
        self._name = self._since = self.url = ""
        self._door = None
        if finalizer is not None:
            finalizer()


@contextmanager
def connected(host: str | None = None) -> Iterator[Any]:
    """A client of the daemon, which has answered. Raises `ProviderError` if none does."""
    url = _daemon(host)
    try:
        if url.startswith("unix://"):  # the SDK would leave a socket open where nobody listens
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(url.removeprefix("unix://"))
        environment = {**os.environ, "DOCKER_HOST": url}
        client = docker.from_env(environment=environment, version="auto", timeout=_PATIENCE)
    except _FAILURES as error:
        hint = "is Docker installed and started, and may you use it? DOCKER_HOST names another daemon"
        raise ProviderError(f"no Docker daemon at {url}: {_reason(error)}", hint) from error
    try:
        yield client
    finally:
        client.close()


def found(host: str | None = None) -> list[Started]:
    """All containers that envweave has started on the daemon, sandboxes included. Raises `ProviderError`."""
    with connected(host) as client:
        listed = client.containers.list(all=True, filters={"label": "envweave.owner"}, ignore_removed=True)
        return [_started(each, host) for each in listed]


def _started(container: Any, host: str | None) -> Started:
    ports = [bound[0]["HostPort"] for bound in container.ports.values() if bound]
    config = container.attrs["Config"]
    return Started.labelled(
        config.get("Labels") or {},
        where="docker",
        name=container.name,
        what=config.get("Image") or "",
        url=f"http://{_daemon_machine(host)}:{ports[0]}" if ports else "",
        state=container.status,
        since=container.attrs["Created"],
        remove=_remover(container.name, (config.get("Labels") or {}).get(LABEL, ""), host),
    )


def _remover(name: str, folder: str, host: str | None) -> Callable[[], None]:
    def remove() -> None:
        with connected(host) as client:
            _force_out(client, name)
        remove_folder(folder)

    return remove


def _to_the_end(call: Callable[[], Any]) -> Any:
    """A daemon does what it was asked for even if nobody waits any more, so Ctrl-C has to: else who would remove it?"""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def _fetch(client: Any, chosen: ContainerOptions) -> None:
    """See that the image is there. Raises `ProviderError` if it is not and cannot be had."""
    try:
        if chosen.pull != "always":
            try:
                client.images.get(chosen.image)
                return
            except ImageNotFound:
                if chosen.pull == "never":
                    raise
        client.images.pull(chosen.image)
    except ImageNotFound as error:
        raise _no_image(chosen.image, "") from error
    except _FAILURES as error:
        raise _no_image(chosen.image, f", and it cannot be pulled: {_reason(error)}") from error


def _no_image(image: str, why: str) -> ProviderError:
    hint = f"docker images shows what there is; envweave build <id or path> -t {image} makes one"
    return ProviderError(f"no image {image!r} here{why}", hint)


def _why_not_started(chosen: ContainerOptions, error: Exception) -> tuple[str, str]:
    reason = _reason(error)
    if "port is already allocated" in reason or "address already in use" in reason:
        return f"port {chosen.host_port} of this machine is taken: {reason}", "leave out host_port: Docker finds one"
    if "executable file not found" in reason or "no command specified" in reason.lower():
        return f"the image {chosen.image!r} cannot be run: {reason}", "does it have a command that serves?"
    return f"no container of {chosen.image!r}: {reason}", ""


def _settled(container: Any) -> dict[str, Any]:
    """Its state. That memory was the reason of a death is known a moment after it."""
    for _ in range(_LOOKS):
        state: dict[str, Any] = container.attrs["State"]
        limited = container.attrs["HostConfig"].get("Memory")
        if not limited or state.get("Running") or state.get("OOMKilled") or state.get("ExitCode") != _KILLED:
            break
        time.sleep(_LOOK_PAUSE)
        container.reload()
    return state


def _end(state: dict[str, Any]) -> str:
    code = state.get("ExitCode")
    if state.get("Paused"):
        return "is paused"
    if state.get("OOMKilled"):
        return f"ran out of memory and was killed (exit code {code})"
    if state.get("Status") == "created":
        return f"did not start: {state.get('Error') or 'no reason given'}"
    if code == _KILLED:
        return f"was killed (exit code {code})"
    return f"has ended with exit code {code}" + (f" ({state['Error']})" if state.get("Error") else "")


def _advice(state: dict[str, Any]) -> str:
    if state.get("Paused"):
        return "docker unpause lets it go on"
    return "memory=… gives it more" if state.get("OOMKilled") else ""


def _door(chosen: ContainerOptions) -> Door | None:
    """A short way in, where the daemon sees our folders."""
    if not chosen.direct or sys.platform != "linux" or not _daemon(chosen.docker_host).startswith("unix://"):
        return None
    with suppress(OSError):  # a full disk is no reason to do without the container
        return Door()
    return None


def _remove(name: str, folder: str, chosen: ContainerOptions, owner: int) -> None:
    """End a container, friendly first. Where the daemon does not answer, it is done with our next start, or at exit."""
    if not in_owner(owner):
        return
    try:
        with connected(chosen.docker_host) as client:
            with suppress(*_FAILURES):
                client.api.stop(name, timeout=chosen.stop_timeout)
            _force_out(client, name)
    except ProviderError:
        _OWED.add((name, chosen.docker_host))
    remove_folder(folder)


def _make_up(client: Any, host: str | None) -> None:
    """Remove what should be gone already, now that the daemon answers again."""
    for owed in [each for each in _OWED if each[1] == host]:
        with suppress(ProviderError):
            _force_out(client, owed[0])
            _OWED.discard(owed)


@atexit.register
def _make_up_for_all() -> None:
    for host in {host for _, host in _OWED}:
        with suppress(ProviderError), connected(host) as client:
            _make_up(client, host)


def _force_out(client: Any, name: str) -> None:
    try:
        client.api.remove_container(name, v=True, force=True)
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != 409:  # somebody else is at it
            raise ProviderError(f"the container {name} cannot be removed: {_reason(error)}") from error
    except _FAILURES as error:
        raise ProviderError(f"the container {name} cannot be removed: {_reason(error)}") from error


def _daemon(host: str | None) -> str:
    return host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST


def _daemon_machine(host: str | None) -> str:
    """The name of the machine that ports are published on, as seen from here."""
    parts = urlsplit(_daemon(host))
    return (parts.hostname or "127.0.0.1") if parts.scheme in ("tcp", "http", "https", "ssh") else "127.0.0.1"


def _reason(error: Exception) -> str:
    return " ".join(str(getattr(error, "explanation", None) or error).split())
