"""A server in a container of a Docker daemon, or of Podman's Docker-compatible socket."""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from envweave.docker_client import (
    FAILURES,
    ImageNotFound,
    connected,
    daemon_url,
    describe_end,
    is_gone,
    is_remote,
    published_host,
    reason,
    remove_container,
    settled_state,
)
from envweave.errors import ProviderError, ProviderUnreachableError
from envweave.providers import direct_socket
from envweave.providers.base import LOG_TAIL, format_log, labels
from envweave.providers.container import ContainerOptions
from envweave.providers.direct_socket import DirectSocket
from envweave.providers.image import ImageProvider
from envweave.providers.resource import Resource

PORT_LABEL = "envweave.port"
"""The port inside that the server of a container listens on."""
_UNREMOVED: set[tuple[str, str | None]] = set()
"""Names and daemons of containers whose daemon did not answer when they were to be removed."""


class LocalDockerProvider(ImageProvider):
    """One container. Docker chooses its port on this machine's loopback.

        with running(LocalDockerProvider("echo-env:latest", memory="512m")) as url: ...

    Options are those of `ContainerOptions`. `docker_host` or `DOCKER_HOST` names the daemon.
    """

    kind: ClassVar[str] = "docker"
    options_type = ContainerOptions
    options: ContainerOptions
    name = ""
    _started_at = ""
    _direct: DirectSocket | None = None

    def _start(self) -> str:
        chosen = self.options
        name = f"envweave-{os.getpid()}-{secrets.token_hex(6)}"
        with connected(chosen.docker_host) as client:
            _remove_unremoved(client, chosen.docker_host)
            _ensure_image(client, chosen)
            _check_port(chosen)
            self.name, self._direct = name, _direct_socket(chosen)
            folder = "" if self._direct is None else self._direct.folder
            self._finalizer = weakref.finalize(self, _stop_and_remove, name, folder, chosen, os.getpid())
            try:
                arguments = chosen.for_docker({**labels(), PORT_LABEL: str(chosen.port)}, self._direct)
                container = _uninterrupted(partial(client.containers.create, name=name, **arguments))
                container.start()
                container.reload()
            except (*FAILURES, TypeError, ValueError) as error:  # the last two are for arguments in `extra`
                raise ProviderError(*_start_failure(chosen, error)) from error
            self._started_at = container.attrs["State"]["StartedAt"]
            if url := _url(container, chosen.port, chosen.docker_host):
                return url
        self.check()  # a container that has ended has no ports
        raise ProviderError(f"port {chosen.port} of {name} was not published")

    def shortcut(self, url: str) -> str:
        return self._direct.address() if self._direct is not None and url == self.url else ""

    def check(self) -> None:
        if not self.name:
            raise ProviderError("there is no container", "call start() first")
        subject = f"the container of {self.options.image}"
        try:
            with connected(self.options.docker_host) as client:
                container = client.containers.get(self.name)
                state = settled_state(container)
                if state["Running"] and not state.get("Dead") and not state.get("Paused"):
                    if self._started_at in ("", state["StartedAt"]):
                        return
                    raise ProviderError(f"{subject} was restarted by someone else")
                log = container.logs(tail=LOG_TAIL).decode(errors="replace")
        except FAILURES as error:
            if is_gone(error):
                raise ProviderError(f"{subject} is gone: someone else removed it") from None
            raise ProviderUnreachableError(f"the Docker daemon fails: {reason(error)}") from error
        end, hint = describe_end(state)
        raise ProviderError(f"{subject} {end}{format_log(log)}", hint)

    def logs(self, tail: int | None = None) -> str:
        with suppress(ProviderError, *FAILURES):
            if self.name:
                with connected(self.options.docker_host) as client:
                    text = client.containers.get(self.name).logs(tail="all" if tail is None else tail)
                    return str(text.decode(errors="replace"))
        return ""

    def stop(self) -> None:
        finalizer, self._finalizer = self._finalizer, None
        self.name = self._started_at = self.url = ""
        self._direct = None
        if finalizer is not None:
            finalizer()


def list_containers(host: str | None = None) -> list[Resource]:
    """Return all containers that envweave started on a daemon, including sandboxes. Raises `ProviderError`."""
    with connected(host) as client:
        listed = client.containers.list(all=True, filters={"label": "envweave.owner"}, ignore_removed=True)
        return [_resource(each, host) for each in listed]


def _resource(container: Any, host: str | None) -> Resource:
    config = container.attrs["Config"]
    marks = config.get("Labels") or {}
    name = container.name

    def remove() -> None:
        with connected(host) as client:
            remove_container(client, name)
        direct_socket.remove_folder(marks.get(direct_socket.LABEL, ""))

    return Resource.from_labels(
        marks,
        where="docker",
        name=name,
        what=config.get("Image") or "",
        url=_url(container, marks.get(PORT_LABEL, ""), host),
        state=container.status,
        since=container.attrs["Created"],
        remove=remove,
    )


def _url(container: Any, port: int | str, host: str | None) -> str:
    """Return the URL of the server that listens on a port of a running container; empty if there is none."""
    if container.attrs.get("HostConfig", {}).get("NetworkMode") == "host":
        return f"http://{published_host(host)}:{port}" if port and container.status == "running" else ""
    bound = container.ports.get(f"{port}/tcp")
    return f"http://{published_host(host)}:{bound[0]['HostPort']}" if bound else ""


def _stop_and_remove(name: str, folder: str, chosen: ContainerOptions, owner_pid: int) -> None:
    """Stop a container, then remove it by force; later, if the daemon does not answer now."""
    if os.getpid() != owner_pid:  # a forked copy does not own the container
        return
    try:
        with connected(chosen.docker_host) as client:
            with suppress(*FAILURES):
                client.api.stop(name, timeout=chosen.stop_timeout)
            remove_container(client, name)
    except ProviderError:
        _UNREMOVED.add((name, chosen.docker_host))
    direct_socket.remove_folder(folder)


def _remove_unremoved(client: Any, host: str | None) -> None:
    """Remove containers that could not be removed earlier."""
    for pending in [each for each in _UNREMOVED if each[1] == host]:
        with suppress(ProviderError):
            remove_container(client, pending[0])
            _UNREMOVED.discard(pending)


@atexit.register
def _remove_all_unremoved() -> None:
    for host in {host for _, host in _UNREMOVED}:
        with suppress(ProviderError), connected(host) as client:
            _remove_unremoved(client, host)


def _uninterrupted(call: Callable[[], Any]) -> Any:
    """Finish a call before Ctrl-C takes effect: the daemon would finish it anyway, and the result must be removed."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def _check_port(chosen: ContainerOptions) -> None:
    """On the host's network, another server on the port would be mistaken for ours."""
    if chosen.network == "host" and not is_remote(chosen.docker_host):
        with suppress(OSError), socket.create_connection(("127.0.0.1", chosen.port), timeout=1.0):
            hint = "choose another with port=… and the server's own option"
            raise ProviderError(f"port {chosen.port} of this machine is taken", hint)


def _ensure_image(client: Any, chosen: ContainerOptions) -> None:
    """Pull the image if needed. Raises `ProviderError`."""
    why = ""
    try:
        if chosen.pull != "always":
            with suppress(ImageNotFound):
                client.images.get(chosen.image)
                return
        if chosen.pull != "never":
            client.images.pull(chosen.image)
            return
    except FAILURES as error:
        why = "" if isinstance(error, ImageNotFound) else f", and it cannot be pulled: {reason(error)}"
    hint = f"docker images lists those that exist; envweave build <id or path> -t {chosen.image} builds one"
    raise ProviderError(f"no image {chosen.image!r} here{why}", hint)


def _start_failure(chosen: ContainerOptions, error: Exception) -> tuple[str, str]:
    cause = reason(error)
    if "port is already allocated" in cause or "address already in use" in cause:
        return f"port {chosen.host_port} of this machine is taken: {cause}", "leave out host_port: Docker finds one"
    if "executable file not found" in cause or "no command specified" in cause.lower():
        return f"the image {chosen.image!r} cannot be run: {cause}", "does it have a command that serves?"
    return f"no container of {chosen.image!r}: {cause}", ""


def _direct_socket(chosen: ContainerOptions) -> DirectSocket | None:
    """Return a socket if the daemon sees our folders and the container may write to them."""
    local = sys.platform == "linux" and daemon_url(chosen.docker_host).startswith("unix://")
    if local and chosen.direct and not chosen.read_only:
        with suppress(OSError):  # e.g. a full disk; the published port works without it
            return DirectSocket()
    return None
