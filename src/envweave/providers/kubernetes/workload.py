"""What can be chosen for a server on a cluster, checked before anybody is asked to start one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

from envweave.errors import UsageError
from envweave.providers.base import READY_TIMEOUT
from envweave.providers.options import Options

Reach = Literal["auto", "port-forward", "service", "pod"]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]


@dataclass(frozen=True, kw_only=True)
class WorkloadOptions(Options):
    """One pod with a server in it, or several that share nothing. What is left out is as the cluster has it."""

    what: ClassVar[str] = "a workload"
    mappings: ClassVar[tuple[str, ...]] = (
        "env_vars",
        "requests",
        "limits",
        "tmpfs",
        "node_selector",
        "labels",
        "annotations",
        "extra",
    )

    image: str = ""
    command: Sequence[str] | None = None
    """In place of the image's own, as in `docker run`: an entry point stays."""
    env_vars: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Whoever may read pods may read them: for what must stay secret use `envFrom` in `extra`."""
    port: int = 8000
    """Where the server listens inside."""
    memory: str | int | None = None
    """Bytes, or `512m`, `2g` as Docker writes them; a server that takes more is killed."""
    cpus: float | None = None
    requests: Mapping[str, str] = field(default_factory=dict)
    """What the scheduler sets aside, as Kubernetes writes it: `{"cpu": "500m", "memory": "1Gi"}`."""
    limits: Mapping[str, str] = field(default_factory=dict)
    """The same for what may not be exceeded; `memory` and `cpus` win."""
    user: str | int | None = None
    """A number, or `1000:1000` with that of a group. None is the image's own, which must be a number and not root."""
    read_only: bool = False
    """Nothing but `tmpfs` can be written."""
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    """From a path inside to the options of a file system in memory, e.g. `{"/tmp": "size=64m"}`."""
    hardened: bool = True
    """Not as root, without capabilities, behind the runtime's system call filter. False is as the cluster has it."""
    replicas: int = 1
    """One is a bare pod, whose end is seen as its end; more are a deployment that replaces what ends."""
    namespace: str = ""
    """Empty is that of the kubeconfig or of the pod that we are in."""
    image_pull_policy: PullPolicy | None = None
    image_pull_secrets: Sequence[str] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    service_account: str = ""
    """Empty is the namespace's own. Its token is not mounted either way; `extra` can change that."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    kubeconfig: str | None = None
    context: str | None = None
    reach: Reach = "auto"
    """How clients get there: `port-forward` through the API server, `service` by the name of the service, `pod` by
    the pod's own address. `auto` is `service` in a pod of the cluster and `port-forward` elsewhere."""
    lifetime: float | None = None
    """Seconds after which the cluster itself ends a pod, whatever we do; for one replica only."""
    lease: float = 300.0
    """Seconds without a sign of life from us after which `envweave gc` anywhere may remove it."""
    stop_timeout: float = 2.0
    """Seconds that the server has to end by itself; nobody waits for it."""
    unschedulable_after: float = 10.0
    """Seconds that the scheduler has to find a node: one may be on its way."""
    ready_timeout: float = READY_TIMEOUT
    """Seconds that clients give it to be ready: pulling a large image takes its time."""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Laid over the specification of the pod, items of lists by their name: the container's name is `server`."""

    def check(self) -> None:
        """Raise `UsageError` for what could not work."""
        if not self.image or not isinstance(self.image, str):
            raise UsageError("no image is named", "e.g. 'registry.example/echo-env:1'")
        if isinstance(self.command, str):
            raise UsageError("the command is one string", "use a list: ['envweave', 'serve', 'echo']")
        for name, choices in (("reach", get_args(Reach)), ("image_pull_policy", (None, *get_args(PullPolicy)))):
            if getattr(self, name) not in choices:
                listed = ", ".join(repr(choice) for choice in choices if choice)
                raise UsageError(f"{name} is {getattr(self, name)!r}", f"use one of {listed}")
        for name in ("replicas", "port"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"{name} is {value!r}", "use a positive whole number")
        for name in ("cpus", "lifetime", "lease"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and value > 0):
                raise UsageError(f"{name} is {value!r}", "use a positive number")
        for name in ("stop_timeout", "unschedulable_after"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and value >= 0):
                raise UsageError(f"{name} is {value!r}", "use zero or a positive number of seconds")
        for name in self.mappings:
            if not isinstance(getattr(self, name), Mapping):
                raise UsageError(f"{name} is a {type(getattr(self, name)).__name__}", "use a dict")
        if self.lifetime is not None and self.replicas > 1:
            raise UsageError("a lifetime holds for one replica only", "Kubernetes replaces those of a deployment")
        size_of(self.memory)
        identity(self.user)
        for options in self.tmpfs.values():
            tmpfs_size(options)


_UNITS = {"": "", "b": "", "k": "Ki", "m": "Mi", "g": "Gi", "t": "Ti"}


def size_of(given: str | int | None) -> str:
    """A size as Kubernetes writes it, to whom `512m` would be half a byte. Raises `UsageError`."""
    if given is None:
        return ""
    if isinstance(given, int) and given > 0:
        return str(given)
    read = re.fullmatch(r"([0-9]+)([kmgt]?)(i?b?)", str(given).strip().lower())
    if read is None or int(read[1]) == 0:
        raise UsageError(f"{given!r} is no size of memory", "use bytes, or e.g. '512m' or '2g'")
    return read[1] + _UNITS[read[2]]


def identity(given: str | int | None) -> tuple[int | None, int | None]:
    """The numbers of the user and the group; None where it is left to the image. Raises `UsageError`."""
    if given is None:
        return None, None
    user, colon, group = str(given).partition(":")
    if not user.isdecimal() or (colon and not group.isdecimal()):
        raise UsageError(f"the user is {given!r}", "Kubernetes knows users by their number: '1000' or '1000:1000'")
    return int(user), int(group) if colon else None


def tmpfs_size(options: str) -> str:
    """The size among the options of a file system in memory; empty if they name none. Raises `UsageError`."""
    size = ""
    for option in filter(None, options.split(",")):
        name, _, value = option.partition("=")
        if name not in ("size", "mode", "rw"):
            raise UsageError(f"a file system in memory has no option {option!r} here", "e.g. 'size=64m'")
        if name == "size":
            size = size_of(value)
    return size
