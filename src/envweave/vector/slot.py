"""One place of a vector: an environment, how often it was rebuilt, and what to do when it fails."""

from __future__ import annotations

import logging
from copy import copy
from dataclasses import replace
from typing import Any

from envweave.core.flows import Blueprint
from envweave.core.local import run
from envweave.core.referee import OVER
from envweave.core.start import start_blocking
from envweave.errors import EnvError, EnvWeaveError, InvalidActionError, UsageError
from envweave.requests import LogEvent, Request
from envweave.results import ResetResult, StepResult

log = logging.getLogger(__name__)


class Slot:
    """Runs one environment so that nothing it does is raised: a failure is the result of its own row.

    A failed environment is not trusted again. It is rebuilt before its next reset, which with autoreset is at once.
    """

    __slots__ = (
        "_autoreset",
        "_blueprint",
        "_ended",
        "_reset_retries",
        "broken",
        "env",
        "id",
        "incarnation",
        "recovering",
    )

    def __init__(self, blueprint: Blueprint, id: str, env: Any, *, reset_retries: int = 1) -> None:
        self.id = id
        self._blueprint = replace(blueprint, autoreset=False)
        self._autoreset = blueprint.autoreset
        self._reset_retries = reset_retries
        self._ended: StepResult[Any] | None = None
        """The result of an episode whose successor is about to begin: not to be lost, whatever comes of that."""
        self.env = start_blocking(self._blueprint, id, env)
        self.incarnation = 0
        self.broken = False
        self.recovering = False
        """With autoreset: the next episode could not begin, so the next step tries again instead of stepping."""

    def admit(self, action: Any) -> Any:
        return None if self.recovering else self.env.referee.admit(action)

    def admit_reset(self, arguments: dict[str, Any]) -> None:
        if not self.broken:
            self.env.referee.admit_reset()
        self.env.check_reset(**arguments)

    def step(self, native: Any) -> StepResult[Any]:
        if self.recovering:
            return self._begin_next(StepResult(self.env.referee.last_obs))
        env = self.env
        result = env.advance(native)
        return self._look_after(result) if env.failure is not None or env.referee.phase is OVER else result

    def respond(self, request_id: str, value: Any) -> StepResult[Any]:
        return self._look_after(run(self.env.responding(request_id, value)))

    def _look_after(self, result: StepResult[Any]) -> StepResult[Any]:
        """The environment failed, refused, or its episode is over: see that the next one can begin."""
        failure, self.env.failure = self.env.failure, None
        self.broken = failure is not None and not isinstance(failure, InvalidActionError)
        over = self.env.referee.phase is OVER
        return self._begin_next(result) if over and self._autoreset else result

    def _begin_next(self, result: StepResult[Any]) -> StepResult[Any]:
        """Begin the next episode and tell so in the last result of the old; a slot that recovers gets a new one."""
        self._ended = result
        reset = self._renewed() or self.reset({})
        self._ended = None
        return self._unfollowed(result, reset) if self.recovering else self.env.referee.announce(result, reset)

    def _renewed(self) -> ResetResult[Any] | None:
        """The ordinary case, cheaply: a sound environment begins its next episode. None if it does not."""
        self.broken = self.broken or self.recovering
        if self.broken:
            return None
        try:
            return self.env.renew()
        except EnvWeaveError as error:
            self.broken = True
            log.warning("reset of %s failed: %s", self.id, error.message)
            return None

    def _unfollowed(self, result: StepResult[Any], reset: ResetResult[Any]) -> StepResult[Any]:
        result.requests = (*result.requests, *reset.requests)
        if result.reward is None:
            result.info = {"error": reset.info["error"], **result.info}
        return result

    def reset(self, arguments: dict[str, Any]) -> ResetResult[Any]:
        """Try, and try again on a new environment; a step is never tried twice, a reset may be."""
        owed: tuple[Request, ...] = ()
        for attempt in range(self._reset_retries + 1):
            try:
                if self.broken:
                    owed += self._rebuild()
                result = self.env.reset(**arguments)
            except UsageError as error:  # the environment does not take these options, today or on a retry
                return self._no_reset(error, owed)
            except EnvWeaveError as error:
                failure = error
                owed += getattr(error, "requests", ())
                self.broken = True
                log.warning("reset of %s failed (attempt %d): %s", self.id, attempt + 1, error.message)
            else:
                self.recovering = False
                result.requests = (*owed, *result.requests)
                return result
        return self._no_reset(failure, owed)

    def _no_reset(self, error: EnvWeaveError, owed: tuple[Request, ...] = ()) -> ResetResult[Any]:
        self.recovering = self._autoreset
        event = LogEvent(env_id=self.id, name="reset_failed", payload=error.to_data())
        return ResetResult(None, {"error": error.to_data()}, (*owed, event))

    def _rebuild(self) -> tuple[Request, ...]:
        """A new environment in place of the old; gives the ends that the old one still owes."""
        old, self.env = self.env, start_blocking(self._blueprint, self.id, self._blueprint.build())
        self.env.referee.episode_number = old.referee.episode_number
        self.env.referee.last_obs = old.referee.last_obs
        self.incarnation += 1
        self.broken = False
        try:
            return old.close()
        except EnvWeaveError as error:
            log.warning("%s did not close: %s", self.id, error.message)
            return tuple(getattr(error, "requests", ()))

    # When a call does not come back.

    def lose_step(self, error: EnvError) -> StepResult[Any]:
        """The row of a step whose answer will never come."""
        if self._ended is not None:
            return self._unfollowed(replace(self._ended), self._no_reset(error))
        if self.recovering:
            return self._unfollowed(StepResult(self.env.referee.last_obs), self._no_reset(error))
        return self.env.referee.abort(error)

    def lose_reset(self, error: EnvError) -> ResetResult[Any]:
        return self._no_reset(error, self.env.referee.settle())

    def heir(self) -> Slot:
        """The slot that takes this one's place when its environment is lost in a call."""
        heir = copy(self)
        heir.env = self.env.ghost()
        heir.broken = True
        heir.recovering = self._autoreset
        heir._ended = None
        return heir
