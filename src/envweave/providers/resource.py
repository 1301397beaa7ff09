"""Containers, processes and workloads that envweave started, for `envweave ps` and `envweave gc`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from envweave.core import process_identity
from envweave.providers.base import is_stray


@dataclass(frozen=True, kw_only=True)
class Resource:
    """One of them. `remove` ends it, whichever process owns it."""

    where: str
    """`docker`, `process` or `kubernetes`."""
    kind: str
    """`server` or `sandbox`."""
    name: str
    what: str
    """The image or the environment."""
    url: str
    state: str
    since: str
    """When it was started, in ISO 8601; empty if unknown."""
    owner: str
    """PID of the process that started it; `elsewhere` for another machine."""
    stray: bool
    """Its owner no longer runs."""
    remove: Callable[[], None] = field(repr=False, compare=False)

    @classmethod
    def from_labels(cls, labels: Mapping[str, str], *, stray: bool | None = None, **known: Any) -> Self:
        """Read kind, owner and, unless it is given, `stray` from labels."""
        here = labels.get("envweave.world") == process_identity.machine_id()
        return cls(
            kind=labels.get("envweave.kind", "server"),
            owner=labels.get("envweave.owner", "").partition(".")[0] if here else "elsewhere",
            stray=is_stray(labels) if stray is None else stray,
            **known,
        )

    def to_data(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "remove"}
