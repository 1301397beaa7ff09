"""One row of a vector: a backend, the plan to build it again, and what happens when it fails.

The logic is written as flows that yield `(kind, data)`; the vector has its executor make each call and sends the reply
back in. So all of it runs on the thread that drives the vector, wherever the environment is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from envweave.core.backend import Backend, EpisodeView
from envweave.core.referee import announce
from envweave.errors import (
    EnvWeaveError,
    InvalidActionError,
    ResetNeededError,
    SessionLostError,
    TransportError,
    UsageError,
)
from envweave.requests import AutoresetReady, LogEvent, Request
from envweave.results import ResetResult, StepResult

if TYPE_CHECKING:
    from envweave.vector.executor import Executor

log = logging.getLogger(__name__)

T = TypeVar("T")
SlotFlow: TypeAlias = Generator[tuple[str, Any], Any, T]

RECOVER: Any = object()
"""In place of an admitted action: the next episode could not begin, so this step tries that again."""

RESET_ATTEMPTS = 2


class Slot:
    """Turns every failure into the result of its own row.

    A backend that failed is not used again: it is replaced before the next reset, which with autoreset is at once. A
    reset is tried twice; a step is never repeated.
    """

    __slots__ = (
        "_broken", "_ended", "_recovering", "_stuck", "admit", "advance", "autoreset", "backend", "episode",
        "executor", "id", "incarnation", "plan",
    )  # fmt: skip

    backend: Backend
    episode: EpisodeView
    admit: Callable[[Any], Any]
    advance: Callable[[Any], Any]

    def __init__(self, id: str, plan: Any, executor: Executor, *, autoreset: bool) -> None:
        self.id = id
        self.plan = plan
        self.executor = executor
        self.autoreset = autoreset
        self.incarnation = 0
        """How often the backend was replaced."""
        self._broken = False
        self._recovering = False
        self._stuck = False
        self._ended: StepResult[Any] | None = None

    def attach(self, backend: Backend) -> None:
        """Use this backend from now on."""
        self.backend = backend
        self.episode = backend.episode
        self._broken = self._recovering = self._stuck = False
        self._ended = None
        self.admit = backend.admit
        self.advance = backend.advance

    def abandon(self) -> None:
        """The backend is stuck in a call on another thread: share nothing with it any more.

        If the call was about to begin the next episode, the last result of the old one is kept.
        """
        self._ended = getattr(self.backend, "ended", None)
        self.episode = copy(self.episode)
        self._broken = self._stuck = True
        self.admit = self._refuse

    def _refuse(self, action: Any) -> Any:
        raise ResetNeededError(f"the episode of {self.id} is over", "reset it first")

    def _recover_next(self) -> None:
        """With autoreset: the next step tries the reset again."""
        if self.autoreset:
            self._recovering = True
            self.admit = _recover

    def check_reset(self, arguments: dict[str, Any]) -> None:
        """Raise the `UsageError` that a reset with these arguments would raise."""
        if not self._broken:
            self.backend.check_reset(arguments)

    # Flows.

    def recover(self) -> SlotFlow[StepResult[Any]]:
        """A step in place of which the next episode begins."""
        return (yield from self._begin_next(StepResult(self.episode.last_obs)))

    def respond(self, request_id: str, value: Any) -> SlotFlow[StepResult[Any]]:
        try:
            result = yield "respond", {"request_id": request_id, "value": value}
        except EnvWeaveError as error:
            return (yield from self.failed(error))
        return (yield from self.followed(result))

    def followed(self, result: StepResult[Any]) -> SlotFlow[StepResult[Any]]:
        """The result of a step, with the next episode if it should have begun by itself and has not."""
        if not self.autoreset or not result.done or any(isinstance(r, AutoresetReady) for r in result.requests):
            return result
        self._broken = True
        return (yield from self._begin_next(result, attempts=1))  # the backend has tried it once

    def failed(self, error: EnvWeaveError) -> SlotFlow[StepResult[Any]]:
        """The result of a step that failed: not scored; the episode is over unless the action was only refused."""
        if self._stuck:
            return self._lost_step(error)
        if isinstance(error, UsageError) and self.executor.refuses_late and not error.by_environment:
            raise error  # the dispatcher knows whether the whole batch was refused
        result = self.unscored(error)
        if isinstance(error, InvalidActionError):
            return result
        self._broken = True
        if not self.autoreset:
            return result
        if _is_unreachable(error):
            return self._unfollowed(result, self.no_reset(error))
        return (yield from self._begin_next(result))

    def unscored(self, error: EnvWeaveError) -> StepResult[Any]:
        """The result of a failed step, as the backend made it or as the episode is known here."""
        found: StepResult[Any] | None = error.result
        return found or self.episode.unscored(error, over=not isinstance(error, UsageError))

    def _lost_step(self, error: EnvWeaveError) -> StepResult[Any]:
        """The result of a step that was given up. With autoreset, the next step begins the next episode."""
        self._stuck = False
        ended, self._ended = self._ended, None
        if self._recovering:
            ended = StepResult(self.episode.last_obs)
        if ended is not None:
            return self._unfollowed(replace(ended), self.no_reset(error))
        result: StepResult[Any] = self.episode.unscored(error, over=True)
        self._recover_next()
        return result

    def _begin_next(self, result: StepResult[Any], attempts: int = RESET_ATTEMPTS) -> SlotFlow[StepResult[Any]]:
        """Begin the next episode and say so in the last result of this one."""
        try:
            reset = yield from self.reset({}, attempts)
        except UsageError as error:
            reset = self.no_reset(error)
        if self._recovering:
            return self._unfollowed(result, reset)
        return announce(result, reset, self.id, self.episode.episode_id)

    @staticmethod
    def _unfollowed(result: StepResult[Any], reset: ResetResult[Any]) -> StepResult[Any]:
        result.requests = (*result.requests, *reset.requests)
        if not isinstance(result.reward, float):
            result.info = {"error": reset.info["error"], **result.info}
        return result

    def reset(self, arguments: dict[str, Any], attempts: int = RESET_ATTEMPTS) -> SlotFlow[ResetResult[Any]]:
        """Try, and try again on a new backend. Raises `UsageError` where that is for the dispatcher to judge."""
        ends: tuple[Request, ...] = ()
        for attempt in range(attempts):
            try:
                if self._broken:
                    ends += yield from self._replace()
                result: ResetResult[Any] = yield "reset", dict(arguments)
            except UsageError as error:  # the environment does not take these options, now or later
                if self.executor.refuses_late:
                    raise
                return self.no_reset(error, ends)
            except EnvWeaveError as error:
                failure = error
                ends += error.requests
                self._broken = True
                if self._stuck or _is_unreachable(error):  # trying again would take as long, and tell the same
                    break
                log.warning("reset of %s failed (attempt %d): %s", self.id, attempt + 1, error.message)
            else:
                self._recovering = False
                self.admit = self.backend.admit
                result.requests = (*ends, *result.requests)
                return result
        if self._stuck:
            self._stuck, ends = False, (*ends, *self._undelivered())
        return self.no_reset(failure, ends)

    def no_reset(self, error: EnvWeaveError, ends: tuple[Request, ...] = ()) -> ResetResult[Any]:
        """The row of a reset that failed."""
        self._recover_next()
        event = LogEvent(env_id=self.id, name="reset_failed", payload=error.to_data())
        return ResetResult(None, {"error": error.to_data()}, (*ends, event))

    def _replace(self) -> SlotFlow[tuple[Request, ...]]:
        """A new backend in place of the old one; returns the ends that the old one had not delivered."""
        ends = yield from self._close_old()
        last_obs, recovering = self.episode.last_obs, self._recovering
        backend: Backend = yield "open", None
        self.attach(backend)
        self._recovering = recovering
        self.episode.last_obs = last_obs
        self.incarnation += 1
        return ends

    def _close_old(self) -> SlotFlow[tuple[Request, ...]]:
        if self.episode is not self.backend.episode:  # stuck in a call; it is closed when that returns
            return self._undelivered()
        self.admit = self._refuse
        try:
            ends: tuple[Request, ...] = yield "close", None
        except EnvWeaveError as error:
            log.warning("%s did not close: %s", self.id, error.message)
            return error.requests
        return ends

    def _undelivered(self) -> tuple[Request, ...]:
        return self.episode.take_undelivered()


def _is_unreachable(error: EnvWeaveError) -> bool:
    """Whether a server was not found for as long as the client looks for it; not for a session that it has lost."""
    lost = isinstance(error, SessionLostError)
    return isinstance(error.__cause__ if lost else error, TransportError)


def _recover(_: Any) -> Any:
    return RECOVER
