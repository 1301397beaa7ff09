"""Counters that cost nanoseconds to count, and Prometheus's text of them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Seconds."""


class Metrics(Collector):
    """What one server has done. prometheus-client's own counters take a lock for each step; these need none."""

    def __init__(self) -> None:
        self.opened = 0
        self.ended: Counter[str] = Counter()
        """Sessions that are gone, by why."""
        self.refused = 0
        self.episodes: Counter[str] = Counter()
        """Episodes that have ended, by reason."""
        self.calls: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.lag = 0.0
        """Seconds by which the event loop was late when it was last looked at."""
        self.gauges: dict[str, Callable[[], float]] = {}
        self._steps = [0] * (len(BOUNDS) + 1)
        self._step_seconds = 0.0
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def called(self, call: str, seconds: float, code: str) -> None:
        self.calls[call] += 1
        if code:
            self.errors[code] += 1
        if call == "step":
            self._steps[bisect_left(BOUNDS, seconds)] += 1
            self._step_seconds += seconds

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        for name, look in self.gauges.items():
            yield GaugeMetricFamily(f"envweave_{name}", f"{name} now", look())
        yield GaugeMetricFamily("envweave_loop_lag_seconds", "how late the event loop was", self.lag)
        yield CounterMetricFamily("envweave_sessions_opened", "sessions opened", self.opened)
        yield CounterMetricFamily("envweave_sessions_refused", "sessions refused for lack of room", self.refused)
        yield _by("envweave_sessions_ended", "sessions ended", "why", self.ended)
        yield _by("envweave_episodes", "episodes ended", "reason", self.episodes)
        yield _by("envweave_calls", "calls on environments", "call", self.calls)
        yield _by("envweave_errors", "calls answered with an error", "code", self.errors)
        count, buckets = 0, []
        for bound, number in zip((*map(str, BOUNDS), "+Inf"), self._steps, strict=True):
            count += number
            buckets.append((bound, float(count)))
        yield HistogramMetricFamily(
            "envweave_step_seconds", "time of a step, waiting included", buckets=buckets, sum_value=self._step_seconds
        )


def _by(name: str, text: str, label: str, counts: Counter[str]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=[label])
    for key, count in counts.items():
        family.add_metric([key], count)
    return family
