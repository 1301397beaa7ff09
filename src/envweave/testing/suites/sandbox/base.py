"""The fixtures of the sandbox suite, and programs that several of its parts run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, ClassVar, TypeAlias

import pytest

from envweave.sandbox import Sandbox, Session
from envweave.testing.suites.base import Suite, missing, shared

Make: TypeAlias = Callable[..., Sandbox]
"""Makes a sandbox with the options of `Sandbox` that it is given, such as `limits` and `tools`."""

MIB = 1 << 20
ENDLESS = "while True:\n    pass"
DEAF = """
import time
while True:
    try:
        while True:
            time.sleep(0.01)
    except BaseException:
        pass
"""
"""Code that swallows every interrupt."""


class SandboxTests(Suite):
    """What a subclass says about its sandboxes, and the sandboxes and sessions that the tests use."""

    forks: ClassVar[bool] = False
    """Sessions can be forked; otherwise `fork` and `snapshot` raise `UnsupportedError`."""
    confined: ClassVar[bool] = True
    """Memory, files and processes are limited; time and output always are."""
    at_once: ClassVar[int] = 20
    """How many sessions run at the same time in the test of that."""

    @pytest.fixture
    def make_sandbox(self, request: pytest.FixtureRequest) -> Make:
        """To be defined: a function that makes a sandbox, with options in addition to your own."""
        missing(request, "return functools.partial(Sandbox, …) from it")

    @pytest.fixture
    def sandbox(self, request: pytest.FixtureRequest, make_sandbox: Make) -> Sandbox:
        """One sandbox without further options for all tests of the class."""
        return shared(request, "sandbox", make_sandbox)

    @pytest.fixture
    def make(self, sandbox: Sandbox, make_sandbox: Make) -> Iterator[Make]:
        """Make sandboxes with options, which are closed after the test."""
        with ExitStack() as stack:
            yield lambda **options: stack.enter_context(make_sandbox(**options))

    @pytest.fixture
    def session(self, sandbox: Sandbox) -> Iterator[Session]:
        with sandbox.start() as started:
            yield started


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    """Begin the work in a thread of its own."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return future
