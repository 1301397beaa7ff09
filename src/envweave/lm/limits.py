"""How much, how long and how often: the numbers of a model."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from envweave.errors import UsageError

WHOLE, OR_NONE = "use a whole number, 1 or more", ", or None"


def check_limits(**limits: Any) -> None:
    """Raises `UsageError` with the first that is not a number, or that no call fits."""
    for name, value in limits.items():
        if name == "timeout":
            good, hint = _is_number(value) and 0 < value < float("inf"), "use a positive number of seconds"
        elif name in ("temperature", "top_p"):
            good, hint = value is None or _is_number(value), "use a number, or None"
        elif name == "max_retries":
            good, hint = _is_whole(value, 0), "use a whole number, 0 or more"
        elif name in ("max_concurrency", "n"):
            good, hint = _is_whole(value, 1), WHOLE
        elif name in ("max_tokens", "requests_per_minute", "tokens_per_minute"):
            good, hint = value is None or _is_whole(value, 1), WHOLE + OR_NONE
        else:
            continue
        if not good:
            raise UsageError(f"{name} is {value!r:.80}", hint)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@dataclass(slots=True)
class Share:
    """What one call has taken of a limit."""

    when: float
    amount: int


class RateLimit:
    """At most `per_minute` in any 60 seconds; None is no limit. Those who wait are served in order, on one event loop.

    A share that is larger than the limit is granted when nothing else was in the last minute.
    """

    def __init__(
        self,
        per_minute: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
    ) -> None:
        self._per_minute, self._clock, self._sleep = per_minute, clock, sleep
        self._shares: deque[Share] = deque()
        self._order = asyncio.Lock()

    async def take(self, amount: int) -> Share:
        """Wait until it fits. The amount of the share may be corrected when it is known better."""
        if self._per_minute is None:
            return Share(0.0, amount)
        async with self._order:
            while (pause := self._pause(amount, self._per_minute)) > 0:
                await self._sleep(pause)
            self._shares.append(Share(self._clock(), amount))
            return self._shares[-1]

    def _pause(self, amount: int, per_minute: int) -> float:
        """Seconds until so many old shares have passed that the amount fits."""
        now = self._clock()
        while self._shares and self._shares[0].when + 60.0 <= now:
            self._shares.popleft()
        excess, end = sum(share.amount for share in self._shares) + amount - per_minute, now
        for share in self._shares:
            if excess <= 0:
                break
            excess, end = excess - share.amount, share.when + 60.0
        return end - now
