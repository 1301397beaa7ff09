"""The global random generators: set them as a check likes, and set them back."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def chance(seed: int | None = None) -> Iterator[None]:
    """Whatever happens inside, the generators of `random` and, if it is loaded, numpy are afterwards as before.

    With a seed they start from it.
    """
    state = random.getstate()
    numpy = _numpy_random()
    numpy_state = numpy.get_state() if numpy is not None else None
    try:
        if seed is not None:
            random.seed(seed)
            if numpy is not None:
                numpy.seed(seed)
        yield
    finally:
        random.setstate(state)
        if numpy is not None:
            numpy.set_state(numpy_state)


def _numpy_random() -> Any:
    """`numpy.random` if somebody has loaded it; an environment that has not cannot use it."""
    return getattr(sys.modules.get("numpy"), "random", None)
