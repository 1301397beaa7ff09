"""Runners that take turns in short slices. A figure is made of the ratios within each round."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.figure import Figure

SLICE = 0.1
"""Seconds of one slice."""


@dataclass(frozen=True)
class Slice:
    """What one runner did in one turn."""

    steps: int
    seconds: float
    server_cpu_seconds: float = 0.0
    """0 if there is no server."""
    client_cpu_seconds: float = 0.0
    """0 if this process is the client."""

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds

    @property
    def cpu_rate(self) -> float:
        """Steps per second of the client's CPU time."""
        return self.steps / self.client_cpu_seconds


Runner = Callable[[float], Awaitable[Slice]]
"""Runs steps for so many seconds. Nothing is under way when it returns."""


async def take_turns(*runners: Runner, rounds: int, seconds: float = SLICE) -> list[list[Slice]]:
    """The slices of each runner. Every other round has the reverse order; a first round does not count."""
    for run in runners:
        await run(seconds)
    slices: list[list[Slice]] = [[] for _ in runners]
    for number in range(rounds):
        turns = list(zip(runners, slices, strict=True))
        for run, own in reversed(turns) if number % 2 else turns:
            own.append(await run(seconds))
    return slices


async def compare(ours: Runner, theirs: Runner, *, rounds: int) -> Comparison:
    """Let two take turns."""
    return Comparison(*await take_turns(ours, theirs, rounds=rounds))


@dataclass(frozen=True)
class Comparison:
    """The slices of two runners, round by round."""

    ours: Sequence[Slice]
    theirs: Sequence[Slice]

    def figure(self, what: str, *, at_least: float | None = None) -> Figure:
        """How many times as many steps per second the first made."""
        ratios = [ours.rate / theirs.rate for ours, theirs in self._pairs()]
        rates = [median(each.rate for each in slices) for slices in (self.ours, self.theirs)]
        server, client = self._cpu("server_cpu_seconds"), self._cpu("client_cpu_seconds")
        best = max(each.rate for each in self.ours) / max(each.rate for each in self.theirs)
        note = f"{rates[0]:.0f} / {rates[1]:.0f} per second, best slices {best:.2f}"
        if all(server):
            note += f"; CPU per step: server {server[0]:.0f} / {server[1]:.0f} µs"
        if all(client):
            note += f", client {client[0]:.0f} / {client[1]:.0f} µs, ratio {_sum_ratio(server, client):.2f}"
        measured: dict[str, Any] = {
            "ratios": ratios,
            "rates": rates,
            "best": best,
            "server_cpu_microseconds": server,
            "client_cpu_microseconds": client,
            **self._slices(),
        }
        return Figure.of(ratios, what=what, at_least=at_least, note=note, measured=measured)

    def cpu_figure(self, what: str, *, at_least: float | None = None) -> Figure:
        """How many times as many steps per second of CPU time the first made."""
        ratios = [ours.cpu_rate / theirs.cpu_rate for ours, theirs in self._pairs()]
        costs = [median(1e6 / each.cpu_rate for each in slices) for slices in (self.ours, self.theirs)]
        best = max(each.cpu_rate for each in self.ours) / max(each.cpu_rate for each in self.theirs)
        note = f"CPU per step: {costs[0]:.2f} / {costs[1]:.2f} µs, best slices {best:.2f}"
        measured = {"ratios": ratios, "best": best, "cpu_microseconds": costs, **self._slices()}
        return Figure.of(ratios, what=what, at_least=at_least, note=note, measured=measured)

    def overhead_figure(self, what: str, *, at_most: float) -> Figure:
        """How many microseconds of CPU time more a step of the first took."""
        more = [1e6 / ours.cpu_rate - 1e6 / theirs.cpu_rate for ours, theirs in self._pairs()]
        costs = [median(1e6 / each.cpu_rate for each in slices) for slices in (self.ours, self.theirs)]
        note = f"{costs[0]:.2f} - {costs[1]:.2f} µs"
        measured = {"differences": more, "cpu_microseconds": costs, **self._slices()}
        return Figure.of(more, what=what, unit="µs", at_most=at_most, note=note, measured=measured)

    def _pairs(self) -> list[tuple[Slice, Slice]]:
        return list(zip(self.ours, self.theirs, strict=True))

    def _cpu(self, of: str) -> list[float]:
        """Microseconds of CPU time per step, over all slices."""
        both = (self.ours, self.theirs)
        return [sum(getattr(each, of) for each in slices) / sum(each.steps for each in slices) * 1e6 for slices in both]

    def _slices(self) -> dict[str, Any]:
        return {"ours": [asdict(each) for each in self.ours], "theirs": [asdict(each) for each in self.theirs]}


def _sum_ratio(server: Sequence[float], client: Sequence[float]) -> float:
    """How many times the CPU time of the first pair the second took, server and client together."""
    return (server[1] + client[1]) / (server[0] + client[0])
