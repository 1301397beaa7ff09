"""Episode IDs: UUIDs of version 7, unique across processes and ordered by time."""

from __future__ import annotations

import os
from random import Random
from time import time_ns

_RANDOM = Random(os.urandom(16))  # IDs are unique, not secret
if hasattr(os, "register_at_fork"):  # a forked process must not repeat the numbers of its parent
    os.register_at_fork(after_in_child=lambda: _RANDOM.seed(os.urandom(16)))


def new_episode_id() -> str:
    """Return a new UUIDv7 in its usual text form."""
    random = _RANDOM.getrandbits(80)
    milliseconds = (time_ns() // 1_000_000) & 0xFFFFFFFFFFFF
    value = milliseconds << 80 | 0x7 << 76 | (random >> 68) << 64 | 0b10 << 62 | random & 0x3FFFFFFFFFFFFFFF
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
