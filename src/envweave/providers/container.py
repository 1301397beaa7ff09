"""Options of a container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from envweave.core.schema import PositiveInt
from envweave.errors import UsageError
from envweave.providers.direct_socket import DirectSocket
from envweave.providers.image import ImageOptions


@dataclass(frozen=True, kw_only=True)
class ContainerOptions(ImageOptions):
    """One container with a server in it. Defaults are those of Docker and the image.

    `extra` has further arguments of the Docker SDK's `containers.create`; they override the other options. There is no
    swap on top of `memory`. `read_only` also turns off `direct`.
    """

    subject: ClassVar[str] = "a container"

    volumes: Mapping[Any, str] = field(default_factory=dict)
    """From a folder on this machine or the name of a volume to a path inside; the suffix `:ro` makes it read-only."""
    pids: PositiveInt | None = None
    network: str | None = None
    """The name of a network, `bridge` or `host`."""
    host_port: PositiveInt | None = None
    """Port that the server is published on. None lets Docker choose a free one."""
    direct: bool = True
    """Use a Unix socket to the server where possible: Docker's proxy halves the steps per second."""
    pull: Literal["missing", "always", "never"] = "missing"
    stop_timeout: int = 5
    """Seconds between SIGTERM and SIGKILL."""
    docker_host: str | None = None

    def check(self) -> None:
        super().check()
        if self.network == "none":
            raise UsageError("a container without a network cannot be reached", "leave out network='none'")

    def for_docker(self, labels: Mapping[str, str], direct: DirectSocket | None = None) -> dict[str, Any]:
        """Return the arguments of the SDK's `containers.create`."""
        from envweave.docker_client import is_remote  # the Docker SDK, which other providers do not need

        published = self.host_port if is_remote(self.docker_host) else ("127.0.0.1", self.host_port)
        extra = dict(self.extra)
        options: dict[str, Any] = {
            "image": self.image,
            "command": None if self.command is None else list(self.command),
            "mem_limit": self.memory,
            "memswap_limit": self.memory,
            "nano_cpus": None if self.cpus is None else int(self.cpus * 1e9),
            "pids_limit": self.pids,
            "network": None if self.network in ("host", "bridge") else self.network,
            "network_mode": self.network if self.network in ("host", "bridge") else None,
            "user": None if self.user is None else str(self.user),
            "read_only": self.read_only,
            "tmpfs": dict(self.tmpfs),
            "ports": {} if self.network == "host" else {f"{self.port}/tcp": published},
            "environment": _texts(self.env_vars) | _texts(extra.pop("environment", None)),
            "volumes": {source: _bind(target) for source, target in self.volumes.items()},
            "labels": {**extra.pop("labels", {}), **labels},
        }
        if direct is not None:
            for name, added in (("environment", direct.variables), ("volumes", direct.volume)):
                options[name] = added | options[name]
            options["labels"] |= direct.labels
        return {name: value for name, value in options.items() if value is not None} | extra


def _texts(given: Any) -> dict[str, str]:
    """Environment variables in either form that the SDK takes."""
    pairs = given.items() if isinstance(given, Mapping) else (str(each).partition("=")[::2] for each in given or ())
    return {str(name): str(value) for name, value in pairs}


def _bind(target: str) -> dict[str, str]:
    path, colon, mode = target.rpartition(":")
    return {"bind": path, "mode": mode} if colon and mode in ("ro", "rw") else {"bind": target, "mode": "rw"}
