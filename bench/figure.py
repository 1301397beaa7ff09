"""One line of the table: what was measured, its spread, and the bound it should keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, Self

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A measured value. A figure without a bound is for information only and counts as kept."""

    what: str
    value: float
    spread: tuple[float, float] | None = None
    """The 10th and the 90th percentile of the values whose median is `value`. None for a single measurement."""
    unit: str = "x"
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""
    """The values behind it, in a few words."""
    measured: dict[str, Any] = field(default_factory=dict)
    """The same in full, for bench.json."""

    @classmethod
    def of(cls, values: Sequence[float], **fields: Any) -> Self:
        """The median of repeated measurements, with their spread."""
        return cls(value=median(values), spread=spread(values), **fields)

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
        return {
            "what": self.what,
            "value": round(self.value, 4),
            "spread": self.spread and [round(end, 4) for end in self.spread],
            "unit": self.unit,
            "wanted": self.wanted,
            "kept": self.kept,
            "note": self.note,
            "measured": self.measured,
        }


def spread(values: Sequence[float]) -> tuple[float, float] | None:
    """The 10th and the 90th percentile. None for fewer than two values."""
    if len(values) < 2:
        return None
    tenths = quantiles(values, n=10, method="inclusive")
    return tenths[0], tenths[-1]


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def show(figures: Sequence[Figure]) -> None:
    """Print the table."""
    table = Table("figure", "median", "10 to 90 %", "wanted", "", "", box=None, pad_edge=False)
    for figure in figures:
        mark = "" if not figure.wanted else "✓" if figure.kept else "✗ missed"
        ends = " to ".join(number(end) for end in figure.spread) if figure.spread else ""
        value = f"{number(figure.value)} {figure.unit}"
        table.add_row(figure.what, value, ends, figure.wanted, mark, f"[dim]{figure.note}")
    Console(width=180).print(table)
