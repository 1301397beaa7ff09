"""What can be chosen for a container, checked before anybody is asked to start one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from envweave.errors import UsageError
from envweave.providers.base import READY_TIMEOUT
from envweave.providers.door import Door
from envweave.providers.engine import is_far
from envweave.providers.options import Options

Pull = Literal["missing", "always", "never"]


@dataclass(frozen=True, kw_only=True)
class ContainerOptions(Options):
    """One container with a server in it. What is left out is as Docker and the image have it."""

    what: ClassVar[str] = "a container"
    mappings: ClassVar[tuple[str, ...]] = ("env_vars", "volumes", "tmpfs", "extra")

    image: str = ""
    command: Sequence[str] | None = None
    """In place of the image's own."""
    env_vars: Mapping[str, str] = field(default_factory=dict, repr=False)
    volumes: Mapping[str, str] = field(default_factory=dict)
    """From a folder here or the name of a volume to a path inside; `:ro` at its end makes it read-only."""
    memory: str | int | None = None
    """Bytes, or `512m`, `2g`; a container that takes more is killed. Swap is not added to it."""
    cpus: float | None = None
    pids: int | None = None
    network: str | None = None
    """The name of a network, `bridge` or `host`."""
    user: str | int | None = None
    read_only: bool = False
    """Nothing but `tmpfs` and volumes can be written; so there is no socket for `direct` either."""
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    """From a path inside to the options of a file system in memory, e.g. `{"/tmp": "size=64m"}`."""
    port: int = 8000
    """Where the server listens inside."""
    host_port: int | None = None
    """Where it is published on this machine. None lets Docker choose, which never clashes."""
    direct: bool = True
    """Talk to a server of ours through a Unix socket where that can be: Docker's proxy halves the steps a second."""
    pull: Pull = "missing"
    ready_timeout: float = READY_TIMEOUT
    """Seconds that clients give it to be ready."""
    stop_timeout: int = 5
    """Seconds that the server has to end by itself."""
    docker_host: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Further arguments of the Docker SDK's `containers.create`, which win over what is said here."""

    def check(self) -> None:
        """Raise `UsageError` for what could not work."""
        if not self.image or not isinstance(self.image, str):
            raise UsageError("no image is named", "e.g. 'echo-env:latest'")
        if self.network == "none":
            raise UsageError("a container without a network cannot be reached", "leave out network='none'")
        if self.pull not in ("missing", "always", "never"):
            raise UsageError(f"pull is {self.pull!r}", "use 'missing', 'always' or 'never'")
        for name in ("cpus", "pids", "port", "host_port"):
            value = getattr(self, name)
            kinds = (int, float) if name == "cpus" else int
            if value is not None and not (isinstance(value, kinds) and 0 < value < _MOST):
                raise UsageError(f"{name} is {value!r}", "use a positive number")
        if isinstance(self.command, str):
            raise UsageError(f"command is {self.command!r}", "use a list with a string for each word")
        for name in self.mappings:
            if not isinstance(getattr(self, name), Mapping):
                raise UsageError(f"{name} is a {type(getattr(self, name)).__name__}", "use a dict")
        for variable in self.env_vars:
            if not variable or not isinstance(variable, str) or "=" in variable:
                raise UsageError(f"{variable!r} is no name of a variable")
        for name in ("volumes", "tmpfs"):
            for key, value in getattr(self, name).items():
                if not isinstance(value, str):
                    raise UsageError(f"{name} has {value!r} for {key!r}", "use a string")

    def for_docker(self, labels: Mapping[str, str], door: Door | None = None) -> dict[str, Any]:
        """As the SDK's `containers.create` takes it."""
        variables, volumes, marks = ({}, {}, {}) if door is None else (door.variables, door.volume, door.labels)
        published = {} if self.network == "host" else {f"{self.port}/tcp": self._host_side()}
        options: dict[str, Any] = {
            "image": self.image,
            "command": None if self.command is None else list(self.command),
            "environment": {**variables, **{name: str(value) for name, value in self.env_vars.items()}},
            "volumes": {**volumes, **{source: _bind(target) for source, target in self.volumes.items()}},
            "mem_limit": self.memory,
            "memswap_limit": self.memory,
            "nano_cpus": None if self.cpus is None else int(self.cpus * 1e9),
            "pids_limit": self.pids,
            "network": self.network if self.network not in (None, "host", "bridge") else None,
            "network_mode": self.network if self.network in ("host", "bridge") else None,
            "user": None if self.user is None else str(self.user),
            "read_only": self.read_only,
            "tmpfs": dict(self.tmpfs),
            "ports": published,
        }
        own = {name: value for name, value in self.extra.items() if name not in ("environment", "labels")}
        options["environment"] |= _variables(self.extra.get("environment"))
        marked = {**self.extra.get("labels", {}), **labels, **marks}
        return {**{name: value for name, value in options.items() if value is not None}, **own, "labels": marked}

    def _host_side(self) -> Any:
        """Published for this machine only; for others if the daemon is on another, where we could not reach it else."""
        return self.host_port if is_far(self.docker_host) else ("127.0.0.1", self.host_port)


_MOST = 1e9


def _variables(given: Any) -> dict[str, str]:
    """In the SDK's two forms."""
    pairs = given.items() if isinstance(given, Mapping) else (str(each).partition("=")[::2] for each in given or ())
    return {str(name): str(value) for name, value in pairs}


def _bind(target: str) -> dict[str, str]:
    path, colon, mode = target.rpartition(":")
    return {"bind": path, "mode": mode} if colon and mode in ("ro", "rw") else {"bind": target, "mode": "rw"}
