"""Options of a server on a cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from envweave.core.schema import NonNegativeNumber, PositiveInt, PositiveNumber
from envweave.errors import UsageError
from envweave.providers.image import ImageOptions


@dataclass(frozen=True, kw_only=True)
class WorkloadOptions(ImageOptions):
    """One pod with a server in it, or several that share nothing. Defaults are those of the cluster and the image.

    Everyone who may read pods can read `env_vars`; for secrets use `envFrom` in `extra`, which is merged into the pod
    specification, list items by name; the name of the container is `server`. `user` is a UID or `UID:GID`; None means
    the image's user, which must be a number and not root. `ready_timeout` includes the time to pull the image.
    """

    subject: ClassVar[str] = "a workload"

    requests: Mapping[str, Any] = field(default_factory=dict)
    """Resources that the scheduler reserves, in the syntax of Kubernetes: `{"cpu": "500m", "memory": "1Gi"}`."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """The same for upper limits; `memory` and `cpus` override them."""
    hardened: bool = True
    """Run as non-root, without capabilities, with the runtime's seccomp profile. False uses the cluster's defaults."""
    replicas: PositiveInt = 1
    """One is a bare pod, which is not restarted; more are a deployment, which replaces pods that end."""
    namespace: str = ""
    """Empty means that of the kubeconfig or of the pod that this process runs in."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    image_pull_secrets: Sequence[str] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    service_account: str = ""
    """Empty means the namespace's default. Its token is not mounted; `extra` can change that."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    kubeconfig: str | None = None
    context: str | None = None
    reach: Literal["auto", "port-forward", "service", "pod"] = "auto"
    """How clients connect: `port-forward` through the API server, `service` by the name of the service, `pod` by the
    address of the pod. `auto` is `service` in a pod of the cluster and `port-forward` elsewhere."""
    lifetime: PositiveNumber | None = None
    """Seconds after which the cluster ends the pod; for one replica only."""
    lease: PositiveNumber = 300.0
    """Seconds without a renewal by this process after which `envweave gc` on any machine may remove the workload."""
    stop_timeout: NonNegativeNumber = 2.0
    """Seconds between SIGTERM and SIGKILL; `stop` does not wait for them."""
    unschedulable_after: NonNegativeNumber = 10.0
    """Seconds that the scheduler has to find a node; raise it if the cluster adds nodes on demand."""

    def check(self) -> None:
        super().check()
        if self.lifetime is not None and self.replicas > 1:
            raise UsageError("a lifetime is for one replica only", "a deployment replaces pods that end")
        size_of(self.memory)
        user_and_group(self.user)
        for options in self.tmpfs.values():
            tmpfs_size(options)


_UNITS = {"": "", "b": "", "k": "Ki", "m": "Mi", "g": "Gi", "t": "Ti"}


def size_of(given: str | int | None) -> str:
    """Convert a size to the syntax of Kubernetes, where `512m` means half a byte. Raises `UsageError`."""
    if given is None:
        return ""
    if isinstance(given, int) and given > 0:
        return str(given)
    read = re.fullmatch(r"([0-9]+)([kmgt]?)(i?b?)", str(given).strip().lower())
    if read is None or int(read[1]) == 0:
        raise UsageError(f"{given!r} is not a size of memory", "use bytes, or e.g. '512m' or '2g'")
    return read[1] + _UNITS[read[2]]


def user_and_group(given: str | int | None) -> tuple[int | None, int | None]:
    """Return UID and GID; None if the image decides. Raises `UsageError`."""
    if given is None:
        return None, None
    user, colon, group = str(given).partition(":")
    if not user.isdecimal() or (colon and not group.isdecimal()):
        raise UsageError(f"the user is {given!r}", "Kubernetes needs a number: '1000' or '1000:1000'")
    return int(user), int(group) if colon else None


def tmpfs_size(options: str) -> str:
    """Return the size in the options of a file system in memory; empty if there is none. Raises `UsageError`."""
    size = ""
    for option in filter(None, options.split(",")):
        name, _, value = option.partition("=")
        if name not in ("size", "mode", "rw"):
            raise UsageError(f"tmpfs has no option {option!r} on Kubernetes", "e.g. 'size=64m'")
        if name == "size":
            size = size_of(value)
    return size
