"""`vector.aio`: the same vector for `await`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from envweave.core.handle import ActT, AsyncEnvHandle, EnvHandle, ObsT
from envweave.core.threads import THREADS, thread_future
from envweave.errors import BusyError, ClosedError
from envweave.results import FlagT, RewardT
from envweave.vector.batch import ResetBatch, StepBatch
from envweave.vector.dispatcher import Dispatcher

if TYPE_CHECKING:
    from envweave.vector.base import VectorEnv


class AsyncVectorEnv(Generic[ActT, ObsT, RewardT, FlagT]):
    """Same names and meaning as `VectorEnv`; `vector.aio` is always the same object.

    One call at a time. A call that is cancelled loses no row: the next `recv` returns them.
    """

    def __init__(self, vector: VectorEnv[ActT, ObsT, RewardT, FlagT], dispatcher: Dispatcher) -> None:
        self._vector = vector
        self._dispatcher = dispatcher
        self._running: CancellableCall | None = None
        self._turn = threading.Lock()
        """Held by the thread that makes a call. One that was cancelled may take a moment to return."""

    def __repr__(self) -> str:
        return f"{self._vector!r}.aio"

    @property
    def num_envs(self) -> int:
        return self._vector.num_envs

    @property
    def ids(self) -> list[str]:
        return self._vector.ids

    @property
    def in_flight(self) -> list[int]:
        return self._vector.in_flight

    async def reset(self, **arguments: Any) -> ResetBatch[ObsT, RewardT, FlagT]:
        return await self._run(self._vector.reset, **arguments)  # type: ignore[no-any-return]

    async def step(
        self,
        actions: Sequence[ActT | Mapping[str, Any]] | dict[int, Any],
        ids: Sequence[int] | None = None,
        *,
        timeout: float | None = None,
    ) -> StepBatch[ObsT, RewardT, FlagT]:
        return await self._run(self._vector.step, actions, ids, timeout=timeout)  # type: ignore[no-any-return]

    async def step_wait(self, *, timeout: float | None = None) -> StepBatch[ObsT, RewardT, FlagT]:
        return await self._run(self._vector.step_wait, timeout=timeout)  # type: ignore[no-any-return]

    async def respond(self, id: int, request_id: str, value: Any) -> StepBatch[ObsT, RewardT, FlagT]:
        return await self._run(self._vector.respond, id, request_id, value)  # type: ignore[no-any-return]

    async def send(
        self, actions: Sequence[ActT | Mapping[str, Any]] | dict[int, Any], ids: Sequence[int] | None = None
    ) -> None:
        await self._run(self._vector.send, actions, ids)

    async def send_reset(self, ids: Sequence[int] | None = None, **arguments: Any) -> None:
        await self._run(self._vector.send_reset, ids, **arguments)

    async def send_response(self, id: int, request_id: str, value: Any) -> None:
        await self._run(self._vector.send_response, id, request_id, value)

    async def recv(
        self, *, min_ready: int = 1, max_ready: int | None = None, timeout: float | None = None
    ) -> StepBatch[ObsT, RewardT, FlagT]:
        receive = partial(self._vector.recv, min_ready=min_ready, max_ready=max_ready, timeout=timeout)
        return await self._run(receive)  # type: ignore[no-any-return]

    async def fork(self, id: int) -> AsyncEnvHandle[ActT, ObsT, RewardT, FlagT]:
        return (await self._run(self._vector.fork, id)).aio  # type: ignore[no-any-return]

    async def close(self, *, timeout: float = 5.0) -> list[int]:
        """As `VectorEnv.close`. A call that is running on the vector raises `ClosedError`."""
        if self._running is not None:
            self._running.cancel()
            self._running = None
        return await self._run(self._vector.close, timeout=timeout)  # type: ignore[no-any-return]

    async def _run(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Make the call on a thread."""
        if self._running is not None:
            raise BusyError("another call on this vector is running", "await it first")
        current = CancellableCall(partial(call, *arguments, **named), self._vector, self._dispatcher)
        self._running = current
        running = thread_future(partial(current.run, self._turn))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            current.cancel()
            # Read its exception, or asyncio logs that it was never retrieved.
            running.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            raise
        finally:
            if self._running is current:
                self._running = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()


class CancellableCall:
    """A call on a thread, which cannot be stopped: after `cancel` the call soon returns, and its rows are kept.

    Everything happens on the thread, so that it also happens if the event loop has ended meanwhile.
    """

    def __init__(self, call: Callable[[], Any], vector: VectorEnv[Any, Any, Any, Any], dispatcher: Dispatcher) -> None:
        self._call = call
        self._vector = vector
        self._dispatcher = dispatcher
        self._lock = threading.Lock()
        self._state = "new"
        self._returned: Any = None

    def run(self, turn: threading.Lock) -> Any:
        """Make the call. Raises `ClosedError` if it was cancelled."""
        failure: BaseException | None = None
        with turn:
            with self._lock:
                cancelled = self._state == "cancelled"
                self._state = "running"
            try:
                self._returned = None if cancelled else self._call()
            except BaseException as error:  # the caller gets it below
                failure = error
            with self._lock:
                cancelled = cancelled or self._state == "cancelled"
                self._state = "ended"
                if cancelled:
                    self._undo()
        if cancelled:
            raise ClosedError("the vector was closed while a call on it was running") from failure
        if failure is not None:
            raise failure
        return self._returned

    def cancel(self) -> None:
        """Have the call return, if it runs, and the next `recv` return its rows."""
        with self._lock:
            if self._state == "ended":
                self._undo()
                return
            if self._state == "running":
                self._dispatcher.interrupt()
            self._state = "cancelled"

    def _undo(self) -> None:
        self._dispatcher.resume()
        returned, self._returned = self._returned, None
        self._vector.return_rows(returned if isinstance(returned, StepBatch) else None)
        if isinstance(returned, EnvHandle):  # a fork whose caller is gone
            THREADS.submit(returned.close, lambda *_: None)
