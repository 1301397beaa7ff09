"""Middleware: generators that see every call of a handle, for recording, limits and retries.

    def retry_reset(kind, data):
        while True:
            try:
                return (yield kind, data)      # make the call; what it raises is raised here
            except EnvError:
                if kind != "reset":
                    raise

    env = ew.make("lineworld").with_middleware(retry_reset)

Middleware receives the kind and the data of a call (see `backend.py`), yields the calls to make, none, one or several,
and returns the reply. It is written once: the same generator serves sync and awaited calls, here and on a server.
A call that is cancelled raises `CancelledError` at the `yield`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from envweave.core.backend import Backend
from envweave.core.flow import run, run_async
from envweave.core.wrapped import WrappedBackend
from envweave.errors import UsageError

if TYPE_CHECKING:
    from envweave.core.handle import EnvHandle

Call: TypeAlias = tuple[str, Any]
"""The kind and the data of a call."""

Middleware: TypeAlias = Callable[[str, Any], Generator[Call, Any, Any]]
"""A generator function of a kind and its data."""


class MiddlewareBackend(WrappedBackend):
    """The backend of another handle, whose calls pass through middleware, the first of it outermost."""

    def __init__(self, handle: EnvHandle[Any, Any, Any, Any], middleware: tuple[Middleware, ...]) -> None:
        super().__init__(handle)
        self._middleware = middleware

    def call(self, kind: str, data: Any = None) -> Any:
        return self._wrapped(run(self._through(0, kind, data), self._perform))

    async def acall(self, kind: str, data: Any = None) -> Any:
        return self._wrapped(await run_async(self._through(0, kind, data), self._perform_async))

    def _perform(self, call: Call) -> Any:
        return self.perform(*call)

    async def _perform_async(self, call: Call) -> Any:
        return await self.perform_async(*call)

    def _through(self, level: int, kind: str, data: Any) -> Generator[Call, Any, Any]:
        """The calls that the middleware from `level` on makes for one call."""
        if level == len(self._middleware):
            return (yield kind, data)
        middleware = self._middleware[level]
        wrapped = middleware(kind, data)
        if not isinstance(wrapped, Generator):
            raise UsageError(f"the middleware {_name(middleware)} is not a generator function", "let it yield the call")
        try:
            call = next(wrapped)
            while True:
                try:
                    reply = yield from self._through(level + 1, *_checked(call, middleware))
                except BaseException as error:  # including CancelledError, which middleware may have to react to
                    call = wrapped.throw(error)
                else:
                    call = wrapped.send(reply)
        except StopIteration as stop:
            return stop.value

    def _wrapped(self, reply: Any) -> Any:
        """A fork passes through the same middleware; nothing else is a backend."""
        return MiddlewareBackend(self.twin(reply), self._middleware) if isinstance(reply, Backend) else reply


def _checked(call: Any, middleware: Middleware) -> Call:
    if not (isinstance(call, tuple) and len(call) == 2 and isinstance(call[0], str)):
        raise UsageError(f"the middleware {_name(middleware)} yielded {call!r:.80}", "yield the kind and the data")
    return call


def _name(middleware: Middleware) -> str:
    return repr(getattr(middleware, "__name__", middleware))
