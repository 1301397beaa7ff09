"""What all suites share: their mark, and objects that live as long as the test class."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NoReturn, TypeVar

import pytest

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds to wait for what takes a moment on an idle machine."""


class Suite:
    """The base of all suites. pytest collects subclasses whose names begin with `Test`."""

    pytestmark: ClassVar[Any] = pytest.mark.conformance


def missing(request: pytest.FixtureRequest, example: str) -> NoReturn:
    """Fail because a subclass does not define a fixture that its suite needs."""
    pytest.fail(f"{request.cls.__name__} does not define the fixture {request.fixturename!r}\nhint: {example}", False)


def shared(request: pytest.FixtureRequest, key: Hashable, make: Callable[[], AbstractContextManager[T]]) -> T:
    """Enter the context manager that `make` returns once per test class; it is left after the last test of the class.

    A fixture of the scope `class` could not use the fixtures that subclasses define for each test.
    """
    node = request.node.getparent(pytest.Class)
    entered: dict[Hashable, Any] = node.__dict__.setdefault("_envweave_shared", {})
    if key not in entered:
        manager = make()
        entered[key] = manager.__enter__()
        node.addfinalizer(lambda: _leave(entered, key, manager))
    found: T = entered[key]
    return found


def _leave(entered: dict[Hashable, Any], key: Hashable, manager: AbstractContextManager[Any]) -> None:
    entered.pop(key, None)
    manager.__exit__(None, None, None)


def until(happens: Callable[[], T], seconds: float = PATIENCE) -> T:
    """What `happens` returns, once that is true."""
    end = time.monotonic() + seconds
    while not (found := happens()):
        assert time.monotonic() < end, f"it does not happen within {seconds:g} s"
        time.sleep(0.05)
    return found


def import_path(*folders: str) -> str:
    """A PYTHONPATH with which another process can import what this one can, and what lies in `folders`."""
    return os.pathsep.join(dict.fromkeys(each for each in (*folders, *sys.path) if each))
