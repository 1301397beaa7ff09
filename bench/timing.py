"""Durations of single calls. Calls that are compared take turns in short rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

from rich.console import Console

from bench.figure import Figure, number

T = TypeVar("T")

CONSOLE = Console(stderr=True)

PAUSE = 0.06
"""Seconds of rest before a start and before a fork. Without it they would be faster than in real use: a lock of the
kernel that nobody held recently takes a grace period of about 10 ms to acquire."""

SCALES = {"s": 1.0, "ms": 1e3, "µs": 1e6}


@dataclass
class Durations:
    """The durations of one kind of call in seconds, round by round."""

    rounds: list[list[float]] = field(default_factory=list)

    @property
    def all(self) -> list[float]:
        return [seconds for each in self.rounds for seconds in each]

    @property
    def medians(self) -> list[float]:
        """One for each round."""
        return [median(each) for each in self.rounds]

    @property
    def median(self) -> float:
        return median(self.medians)

    def figure(self, what: str, *, unit: str, at_most: float | None = None, note: str = "") -> Figure:
        """The median and the spread of the rounds' medians."""
        scale = SCALES[unit]
        ends = f"best round {number(min(self.medians) * scale)}, slowest call {number(max(self.all) * scale)}"
        measured = {"unit": "s", "rounds": self.rounds}
        note = f"{ends}; {note}" if note else ends
        values = [seconds * scale for seconds in self.medians]
        return Figure.of(values, what=what, unit=unit, at_most=at_most, note=note, measured=measured)

    def ratios(self, base: Durations) -> list[float]:
        """How many times as long as `base`, round by round."""
        return [own / other for own, other in zip(self.medians, base.medians, strict=True)]

    def times_faster(self, than: Durations, what: str, *, at_least: float, note: str) -> Figure:
        """How many times as long the other one took."""
        ratios = than.ratios(self)
        measured: dict[str, Any] = {"ratios": ratios, "ours": self.rounds, "theirs": than.rounds}
        return Figure.of(ratios, what=what, at_least=at_least, note=note, measured=measured)


Round = Callable[[], list[float]]
"""Makes a few calls and returns how long each took."""


def alternate(rounds: int, calls: Sequence[Round]) -> list[Durations]:
    """The durations of each. Every other round has the reverse order; a first round does not count."""
    for call in calls:
        call()
    found = [Durations() for _ in calls]
    for round_number in range(rounds):
        turns = list(zip(calls, found, strict=True))
        for call, durations in reversed(turns) if round_number % 2 else turns:
            durations.rounds.append(call())
    return found


def timed(call: Callable[[], T], *, pause: float = 0.0) -> tuple[float, T]:
    """Seconds, and what it returned."""
    time.sleep(pause)
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def skip(what: str, why: object) -> None:
    """Report figures that cannot be measured on this machine."""
    CONSOLE.print(f"[yellow]skipped[/]: {what} ({str(why).splitlines()[0]})", highlight=False)
