"""What an interpreter has ready before the first session: a clean environment, and modules that are shared."""

from __future__ import annotations

import gc
import importlib
import os
import signal
from collections.abc import Iterable

_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""All that a session finds in its environment, but for HOME and TMPDIR."""


def warm_up(preload: Iterable[str]) -> None:
    """Import modules once, and keep the collector from touching, and so copying, what all sessions share."""
    os.environ.clear()
    os.environ.update(_ENVIRONMENT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's business, or comes from code of the agent
    for name in preload:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
