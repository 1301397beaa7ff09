"""What envweave has started and is still there, wherever it runs: for `envweave ps` and `envweave gc`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from envweave.core import process_identity
from envweave.providers.base import is_stray


@dataclass(frozen=True, kw_only=True)
class Started:
    """One container, process or workload of a cluster. `remove` ends it, whoever owns it."""

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
    """When it was started, in ISO's form; empty if nobody knows."""
    owner: str
    """The number of the process that started it, `elsewhere` if that is on another machine."""
    stray: bool
    """Its owner is gone."""
    remove: Callable[[], None] = field(repr=False, compare=False)

    @classmethod
    def labelled(cls, labels: Mapping[str, str], *, stray: bool | None = None, **known: Any) -> Self:
        """With what its labels say; `stray` is for those who know better."""
        here = labels.get("envweave.world") == process_identity.machine_id()
        return cls(
            kind=labels.get("envweave.kind", "server"),
            owner=labels.get("envweave.owner", "").partition(".")[0] if here else "elsewhere",
            stray=is_stray(labels) if stray is None else stray,
            **known,
        )

    def to_data(self) -> dict[str, Any]:
        names = ("where", "kind", "name", "what", "url", "state", "since", "owner", "stray")
        return {name: getattr(self, name) for name in names}
