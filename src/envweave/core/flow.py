"""Code that is written once for sync and async callers.

A flow is a generator. It yields what has to be done, receives what came of it (an exception is raised at the `yield`)
and returns its result. `run` does each thing by calling, `run_async` by awaiting.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Y = TypeVar("Y")

Flow: TypeAlias = Generator[Callable[[], Any], Any, T]
"""A flow that yields functions without arguments."""


def run(flow: Generator[Y, Any, T], perform: Callable[[Y], Any]) -> T:
    """Run a flow; `perform` does what it yields."""
    try:
        step = next(flow)
        while True:
            try:
                value = perform(step)
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


async def run_async(flow: Generator[Y, Any, T], perform: Callable[[Y], Any]) -> T:
    """Run a flow; what `perform` returns is awaited if it can be."""
    try:
        step = next(flow)
        while True:
            try:
                value = perform(step)
                if inspect.isawaitable(value):
                    value = await value
            except BaseException as error:
                step = flow.throw(error)
            else:
                step = flow.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def call_it(function: Callable[[], Any]) -> Any:
    """The `perform` of a `Flow`."""
    return function()
