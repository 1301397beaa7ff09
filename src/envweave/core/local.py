"""Environments in this process: sync ones are called, async ones are awaited on one event loop."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from envweave.core.backend import AsyncBackend, Backend, SyncBackend
from envweave.core.branching import BranchingOperations, close_soon
from envweave.core.flow import Flow, call_it, run, run_async
from envweave.core.operations import LocalPlan
from envweave.core.referee import BUSY, LATE, OVER, RUNNING, Referee, announce
from envweave.core.transform import transformed
from envweave.errors import EnvError, EnvWeaveError, UnsupportedError, describe

if TYPE_CHECKING:
    import asyncio

OPERATIONS: dict[str, Callable[[Any, Any], Flow[Any]]] = {
    "reset": lambda local, data: local.resetting(data or {}),
    "step": lambda local, data: local.stepping(data),
    "advance": lambda local, data: local.advancing(data),
    "respond": lambda local, data: local.responding(data),
    "state": lambda local, _: local.stating(),
    "render": lambda local, _: local.rendering(),
    "snapshot": lambda local, _: local.snapshotting(),
    "restore": lambda local, data: local.restoring(data),
    "fork": lambda local, _: local.twin(),
    "tasks": lambda local, data: local.listing_tasks(data),
    "close": lambda local, _: local.closing(),
    "last": lambda local, _: local.repeating(),
}


def open_local(plan: LocalPlan, id: str, env: Any = None) -> LocalBackend | AsyncLocalBackend:
    """Build the environment, unless it is given, and return the backend that fits it."""
    env = plan.build() if env is None else env
    kind = AsyncLocalBackend if is_async(env) else LocalBackend
    try:
        return kind(plan, id, env)
    except EnvWeaveError:
        raise
    except Exception as error:  # attributes of an environment may raise when they are looked at
        raise EnvError(f"{id} cannot be used: {describe(error)}") from error


def is_async(env: Any) -> bool:
    """Whether calls of the environment have to be awaited."""
    return inspect.iscoroutinefunction(env.step) or inspect.iscoroutinefunction(env.reset)


class LocalOperations(BranchingOperations, Backend):
    """What both backends share."""

    def admit(self, action: Any) -> Any:
        return self.referee.admit(action)

    def _follow_rules(self, referee: Referee) -> None:
        super()._follow_rules(referee)
        self.admit = referee.admit  # type: ignore[method-assign]  # one call less for each step

    def repeating(self) -> Flow[Any]:
        raise UnsupportedError(f"{self.id} keeps no answers", "only a server that numbers calls does")

    def twin(self) -> Flow[Backend]:
        """An independent backend at the same point of the episode."""
        env, snapshot = yield from self.forking()
        twin: LocalOperations = self._plan.open(self.fork_name(), env)
        if self._rescored:  # a transform that was set on this handle; another is for the environment to copy
            twin.transform = self.transform
        if snapshot is None:
            twin.referee.load_episode(self.referee.save_episode())
            return twin
        try:
            yield from twin.restoring(snapshot)
        except BaseException:
            close_soon(env)
            raise
        return twin


class LocalBackend(LocalOperations, SyncBackend):
    """Calls go straight to the environment: no thread, no loop, no copy."""

    def call(self, kind: str, data: Any = None) -> Any:
        if kind == "step":
            return self.advance(self.admit(data))
        if kind == "reset":
            return self._reset(data or {})
        return run(OPERATIONS[kind](self, data), call_it)

    def advance(self, admitted: Any) -> Any:
        """As `advancing`, without the microsecond that a generator costs."""
        referee = self.referee
        if admitted is LATE:
            return run(self.following(referee.expire()), call_it)
        if referee.phase is not RUNNING:  # another call came first, after the action was checked
            referee.check_running()
        referee.phase = BUSY
        try:
            raw = self._step(admitted)
            if referee.phase is not BUSY:
                self._check_open()
            if self._transforms and self.env.transform is not None:
                raw = transformed(self.env.transform, raw)
            result = referee.conclude(raw)
        except BaseException as error:
            self._stopped("step", error)
        return self._follow(result) if self._autoreset and referee.phase is OVER else result

    def _follow(self, result: Any) -> Any:
        """As `following`, likewise."""
        self.ended = result
        try:
            reset = self._reset({})
        except BaseException as error:
            return self._unfollowed(result, error)
        finally:
            self.ended = None
        return announce(result, reset, self.id, self.referee.episode_id)

    def _reset(self, data: dict[str, Any]) -> Any:
        """As `resetting`, likewise."""
        reset = self._begin_reset(data)
        try:
            self._signature.prepare(data.get("seed"))
            return self._finish_reset(reset, self.env.reset(**reset.arguments))
        except BaseException as error:
            self._fail_reset(reset, error)


class AsyncLocalBackend(LocalOperations, AsyncBackend):
    """All calls run on the loop that made the first one, as long as that loop runs."""

    _home: asyncio.AbstractEventLoop | None = None
    _home_pid = 0

    def __init__(self, plan: LocalPlan, id: str, env: Any) -> None:
        import asyncio  # loaded with the first async environment

        super().__init__(plan, id, env)
        # Not a class attribute, because CancelledError needs asyncio.
        self.passing = (KeyboardInterrupt, asyncio.CancelledError, GeneratorExit)  # type: ignore[misc]

    async def acall(self, kind: str, data: Any = None) -> Any:
        import asyncio

        from envweave.core.loop import await_on
        from envweave.core.threads import Delivery

        if self._home is None or not self._home.is_running() or self._home_pid != os.getpid():
            self._home, self._home_pid = asyncio.get_running_loop(), os.getpid()
        delivery = Delivery(self.drop)
        work = delivery.run_async(run_async(OPERATIONS[kind](self, data), call_it))
        try:
            reply = await await_on(self._home, work)
        except (asyncio.CancelledError, GeneratorExit):
            delivery.abandon()
            raise
        if isinstance(reply, AsyncLocalBackend):  # a fork
            reply._home, reply._home_pid = self._home, self._home_pid
        return reply

    @property
    def home(self) -> asyncio.AbstractEventLoop | None:
        return self._home
