"""A server in a container of this machine's Docker daemon, or of Podman's Docker-compatible socket."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from envweave.errors import ProviderError, ProviderUnreachableError, UsageError
from envweave.providers import door, removal
from envweave.providers.base import LAST_LINES, Provider, labels, shown
from envweave.providers.container import ContainerOptions
from envweave.providers.daemon import FAILURES, ImageNotFound, connected, reason
from envweave.providers.door import LABEL, Door
from envweave.providers.ending import advice, ending, settled, why_not_started
from envweave.providers.engine import address, is_far, machine
from envweave.providers.started import Started

PORT_LABEL = "envweave.port"
"""The port inside on which the server of a container listens."""


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
            removal.make_up(client, chosen.docker_host)
            _fetch(client, chosen)
            _see_port_free(chosen)
            self._name, self._door = name, _door(chosen)
            folder = "" if self._door is None else self._door.folder
            self._finalizer = weakref.finalize(self, removal.remove, name, folder, chosen, os.getpid())
            try:
                options = chosen.for_docker({**labels(), PORT_LABEL: str(chosen.port)}, self._door)
                created = _to_the_end(partial(client.containers.create, name=name, **options))
                created.start()
                created.reload()
                self._since = created.attrs["State"]["StartedAt"]
                self.url = self._address(chosen, created)
            except (*FAILURES, TypeError, ValueError) as error:  # the last two are for arguments in `extra`
                self.stop()
                raise ProviderError(*why_not_started(chosen, error)) from error
            except BaseException:
                self.stop()
                raise
        return self.url

    def _address(self, chosen: ContainerOptions, container: Any) -> str:
        if chosen.network == "host":
            return f"http://{machine(chosen.docker_host)}:{chosen.port}"
        bound = (container.attrs["NetworkSettings"].get("Ports") or {}).get(f"{chosen.port}/tcp")
        if not bound:
            self.check()  # it has ended at once: then it has no ports either
            raise ProviderError(f"port {chosen.port} of {self._name} was not published")
        return f"http://{machine(chosen.docker_host)}:{bound[0]['HostPort']}"

    def shortcut(self, url: str) -> str:
        return self._door.way_in() if self._door is not None and url == self.url else ""

    @property
    def ready_timeout(self) -> float:  # type: ignore[override]
        return self.options.ready_timeout

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
                state = settled(container)
                if state["Running"] and not state.get("Dead") and not state.get("Paused"):
                    if state["StartedAt"] == (self._since or state["StartedAt"]):
                        return
                    raise ProviderError(f"somebody restarted the container of {self.options.image}")
                log = container.logs(tail=LAST_LINES).decode(errors="replace")
        except FAILURES as error:
            if getattr(error, "status_code", 0) in (404, 409):  # the latter: it is being removed
                raise ProviderError(f"the container of {self.options.image} is gone: somebody removed it") from None
            raise ProviderUnreachableError(f"the Docker daemon fails: {reason(error)}") from error
        raise ProviderError(f"the container of {self.options.image} {ending(state)}{shown(log)}", advice(state))

    def logs(self, tail: int | None = None) -> str:
        with suppress(ProviderError, *FAILURES):
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


def found(host: str | None = None) -> list[Started]:
    """All containers that envweave has started on the daemon, sandboxes included. Raises `ProviderError`."""
    with connected(host) as client:
        listed = client.containers.list(all=True, filters={"label": "envweave.owner"}, ignore_removed=True)
        return [_started(each, host) for each in listed]


def _started(container: Any, host: str | None) -> Started:
    config = container.attrs["Config"]
    return Started.labelled(
        config.get("Labels") or {},
        where="docker",
        name=container.name,
        what=config.get("Image") or "",
        url=_url(container, (config.get("Labels") or {}).get(PORT_LABEL, ""), host),
        state=container.status,
        since=container.attrs["Created"],
        remove=_remover(container.name, (config.get("Labels") or {}).get(LABEL, ""), host),
    )


def _url(container: Any, port: str, host: str | None) -> str:
    """Where the server of a running container is; empty if it has none, or nobody can tell."""
    if container.attrs.get("HostConfig", {}).get("NetworkMode") == "host":
        return f"http://{machine(host)}:{port}" if port and container.status == "running" else ""
    bound = container.ports.get(f"{port}/tcp") or next((each for each in container.ports.values() if each), None)
    return f"http://{machine(host)}:{bound[0]['HostPort']}" if bound else ""


def _remover(name: str, folder: str, host: str | None) -> Callable[[], None]:
    def remove() -> None:
        with connected(host) as client:
            removal.force_out(client, name)
        door.remove(folder)

    return remove


def _to_the_end(call: Callable[[], Any]) -> Any:
    """A daemon does what it was asked for even if nobody waits any more, so Ctrl-C has to: else who would remove it?"""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def _see_port_free(chosen: ContainerOptions) -> None:
    """With the host's network, who listens there already would be taken for the server."""
    if chosen.network != "host" or is_far(chosen.docker_host):
        return
    with suppress(OSError), socket.create_connection(("127.0.0.1", chosen.port), timeout=1.0):
        raise ProviderError(
            f"port {chosen.port} of this machine is taken", "port=… and the server's own option choose another"
        )


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
    except FAILURES as error:
        raise _no_image(chosen.image, f", and it cannot be pulled: {reason(error)}") from error


def _no_image(image: str, why: str) -> ProviderError:
    hint = f"docker images shows what there is; envweave build <id or path> -t {image} makes one"
    return ProviderError(f"no image {image!r} here{why}", hint)


def _door(chosen: ContainerOptions) -> Door | None:
    """A short way in, where the daemon sees our folders; none into a container that is to write nowhere."""
    if (
        chosen.read_only
        or not chosen.direct
        or sys.platform != "linux"
        or not address(chosen.docker_host).startswith("unix://")
    ):
        return None
    with suppress(OSError):  # a full disk is no reason to do without the container
        return Door()
    return None
