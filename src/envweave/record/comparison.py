"""Where two values of a record differ first."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import Any

MISSING = "(missing)"


@dataclass(frozen=True)
class Difference:
    """The first field of an episode that is not as recorded."""

    n: int
    """The step; 0 is the reset."""
    path: str
    """For example `obs.board[3]`."""
    recorded: Any
    found: Any

    def __str__(self) -> str:
        where = "reset" if self.n == 0 else f"step {self.n}"
        return f"{where}: {self.path}: recorded {_short(self.recorded)}, found {_short(self.found)}"

    def diff(self, lines: int = 12) -> str:
        """A unified diff of the two values, of at most so many lines."""
        one, other = (json.dumps(v, indent=1, ensure_ascii=False).splitlines() for v in (self.recorded, self.found))
        found = list(difflib.unified_diff(one, other, "recorded", "found", lineterm="", n=1))
        more = [f"… {len(found) - lines} more lines"] if len(found) > lines else []
        return "\n".join([*found[:lines], *more])


def first_difference(recorded: Any, found: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """The path of the first field that differs, and its two values; None if the values are equal."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key in [*recorded, *(key for key in found if key not in recorded)]:
            inner = f"{path}.{key}" if path else str(key)
            if key not in recorded or key not in found:
                return inner, recorded.get(key, MISSING), found.get(key, MISSING)
            difference = first_difference(recorded[key], found[key], inner)
            if difference is not None:
                return difference
        return None
    if isinstance(recorded, list) and isinstance(found, list):
        for number, (one, other) in enumerate(zip(recorded, found, strict=False)):
            difference = first_difference(one, other, f"{path}[{number}]")
            if difference is not None:
                return difference
        if len(recorded) != len(found):
            return f"{path}[{min(len(recorded), len(found))}]", recorded, found
        return None
    same = recorded == found and isinstance(recorded, bool) == isinstance(found, bool)
    return None if same else (path, recorded, found)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:79] + "…"
