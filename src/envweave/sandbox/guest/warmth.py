"""What an interpreter has ready before the first session: a clean environment, and modules that are shared."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterable

from envweave.sandbox.guest import linux
from envweave.sandbox.guest.plan import ENVIRONMENT

_OURSELVES: list[str] = []


class PreloadError(Exception):
    """A module that was asked for cannot be imported."""


def warm_up(preload: Iterable[str]) -> None:
    """Import modules once, and keep the collector from touching, and so copying, what all sessions share."""
    os.environ.clear()
    os.environ.update(ENVIRONMENT)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the host's business, or comes from code of the agent
    for name in preload:
        try:
            importlib.import_module(name)
        except BaseException as error:  # a module may raise anything
            raise PreloadError(f"{name}: {type(error).__name__}: {error}") from error
    if sys.platform == "linux":
        linux.capabilities()
    _OURSELVES.extend(name for name in sys.modules if name.partition(".")[0] == "envweave")
    gc.collect()
    gc.freeze()


def forget_ourselves() -> None:
    """The code does not meet our modules by accident. Their names were taken down before: to look is to copy memory."""
    for name in _OURSELVES:
        sys.modules.pop(name, None)
