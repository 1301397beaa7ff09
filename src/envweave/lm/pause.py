"""How long to wait before the same call is made again."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds: twice as long each time, by chance up to half of it shorter, so that a batch does not come back as one."""


def pause_before(attempt: int, headers: Mapping[str, str], *, chance: Callable[[], float] = random.random) -> float:
    """Seconds before attempt 1, 2, …: what `Retry-After` asks for, but never more than `LONGEST_PAUSE`."""
    own = min(FIRST_PAUSE * 2.0 ** min(attempt - 1, 16), LONGEST_PAUSE) * (1.0 - 0.5 * chance())
    return min(max(own, _asked(headers.get("retry-after", ""))), LONGEST_PAUSE)


def _asked(text: str) -> float:
    """Seconds that a `Retry-After` names, as a number or as a date; 0 if it cannot be read."""
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text.strip(), re.ASCII):
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError, OSError):
        return 0.0
