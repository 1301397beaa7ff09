"""How much code may use. A limit that is None is not kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any

from envweave.errors import UsageError

MIB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Durations are seconds, sizes are bytes. Those of time, output and calls hold for each run, the others always."""

    wall: float | None = 30.0
    """Time that passes while the code runs; time it waits for tools does not count."""
    cpu: float | None = None
    """Processor time of all its processes. Looked at ten times a second."""
    grace: float = 0.06
    """From the interrupt at the end of `wall` or `cpu` to the kill."""
    memory_bytes: int | None = 512 * MIB
    processes: int | None = 64
    """Processes and threads together."""
    open_files: int | None = 256
    file_bytes: int | None = 64 * MIB
    """The largest single file."""
    disk_bytes: int | None = 64 * MIB
    """The work folder and the temporary ones together."""
    files: int | None = 4096
    output_bytes: int = 64 * 1024
    """Of stdout, and again of stderr. Head and tail are kept."""
    return_bytes: int = 64 * 1024
    """The value of a last expression, and each value that is asked for."""
    tool_calls: int | None = 1000
    tool_wall: float | None = 60.0
    """One call of a tool."""
    forks: int = 64
    """Living forks and snapshots of one session, those of its forks included."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None and "None" in str(each.type):
                continue
            whole = "int" in str(each.type)
            if isinstance(value, int) and value >= 1 << 63:
                raise UsageError(f"the limit {each.name} is too large", "None means no limit")
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not isfinite(value):
                raise UsageError(f"the limit {each.name} is {value!r}", f"it takes {each.type}")
            if value < 0 or (value == 0 and each.name not in ("grace", "tool_calls", "forks")):
                raise UsageError(f"the limit {each.name} is {value!r}", "it must be more than 0; None means no limit")
        if self.open_files is not None and self.open_files < 128:
            raise UsageError(f"the limit open_files is {self.open_files}", "Python itself needs 128")

    def to_data(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A limit that fired."""

    name: str
    """As in `Limits`."""
    value: float
    """What it was set to."""

    def __str__(self) -> str:
        return f"{self.name}={self.value}"
