"""Durations, collected in turns: whatever else the machine does meets all contenders."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TypeVar

from rich.console import Console

from envweave.bench.figure import Figure

T = TypeVar("T")

CONSOLE = Console(stderr=True)

PAUSE = 0.06
"""Seconds of rest before a start and before a fork. In a tight loop they are cheaper than in life: locks of the kernel
that nobody has just held take it a grace period of some 10 ms to get."""


@dataclass
class Timed:
    """The durations of one contender in seconds, round by round."""

    rounds: list[list[float]] = field(default_factory=list)

    @property
    def every(self) -> list[float]:
        return [seconds for each in self.rounds for seconds in each]

    @property
    def median(self) -> float:
        return median(self.every)

    @property
    def quietest(self) -> float:
        """The median of the round that was disturbed least."""
        return min(median(each) for each in self.rounds)

    def figure(self, what: str, *, unit: str, at_most: float, note: str = "") -> Figure:
        """The median of the quietest round, in ms or µs: a shared machine only ever makes a round slower."""
        scale = {"ms": 1e3, "µs": 1e6}[unit]
        seen = f"median of all rounds {_short(self.median * scale)}, worst {_short(max(self.every) * scale)}"
        measured = {"unit": "s", "median": self.median, "rounds": self.rounds}
        note = f"{seen}; {note}" if note else seen
        return Figure(what=what, value=self.quietest * scale, unit=unit, at_most=at_most, note=note, measured=measured)

    def times_faster(self, than: Timed, what: str, *, at_least: float, note: str) -> Figure:
        """How many times as long the other one took, in the median round."""
        ratios = [median(theirs) / median(ours) for ours, theirs in zip(self.rounds, than.rounds, strict=True)]
        measured: dict[str, Any] = {"ratios": ratios, "ours": self.rounds, "theirs": than.rounds}
        note = f"{note}; {than.quietest / self.quietest:.3g} by the quietest rounds"
        return Figure(what=what, value=median(ratios), at_least=at_least, note=note, measured=measured)


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


Contender = Callable[[], list[float]]
"""One turn, and how long each thing took that it did in it."""


def in_turns(rounds: int, contenders: Sequence[Contender]) -> list[Timed]:
    """Each goes first in every other round; one round before does not count."""
    for contender in contenders:
        contender()
    found = [Timed() for _ in contenders]
    for number in range(rounds):
        turns = list(zip(contenders, found, strict=True))
        for contender, timed in turns if number % 2 else reversed(turns):
            timed.rounds.append(contender())
    return found


def timed(call: Callable[[], T], *, rested: float = 0.0) -> tuple[float, T]:
    """Seconds, and what it gave."""
    time.sleep(rested)
    began = time.perf_counter()
    result = call()
    return time.perf_counter() - began, result


def left_out(what: str, why: object) -> None:
    """A figure that this machine cannot give."""
    CONSOLE.print(f"[yellow]left out[/]: {what} ({str(why).splitlines()[0]})", highlight=False)
