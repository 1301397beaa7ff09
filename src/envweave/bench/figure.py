"""One line of the table: what was measured, and the bound it is meant to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured value. Without a bound it is there to be read, and always kept."""

    what: str
    value: float
    unit: str = "x"
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""
    """What the value was made of, in a few words."""
    measured: dict[str, Any] = field(default_factory=dict)
    """The same in full, for bench.json."""

    @property
    def wanted(self) -> str:
        bounds = (("≥", self.at_least), ("≤", self.at_most))
        return ", ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)

    @property
    def kept(self) -> bool:
        too_small = self.at_least is not None and self.value < self.at_least
        too_large = self.at_most is not None and self.value > self.at_most
        return not (too_small or too_large)

    def to_data(self) -> dict[str, Any]:
        data = {"what": self.what, "value": round(self.value, 3), "unit": self.unit}
        return {**data, "wanted": self.wanted, "kept": self.kept, "note": self.note, "measured": self.measured}


def show(figures: Sequence[Figure]) -> None:
    """Print the table."""
    table = Table("figure", "measured", "wanted", "", "", box=None, pad_edge=False)
    for figure in figures:
        mark = "" if not figure.wanted else "✓" if figure.kept else "✗ missed"
        value = f"{figure.value:.3g}" if figure.value < 1000 else f"{figure.value:.0f}"
        table.add_row(figure.what, f"{value} {figure.unit}", figure.wanted, mark, f"[dim]{figure.note}")
    Console(width=150).print(table)
