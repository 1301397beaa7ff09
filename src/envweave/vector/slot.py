"""One place of a vector: an environment, how often it was rebuilt, and what to do when it fails."""

from __future__ import annotations

import logging
from copy import copy
from typing import Any

from envweave.core.local import Blueprint
from envweave.core.referee import OVER
from envweave.core.start import start_blocking
from envweave.errors import EnvError, EnvWeaveError, UsageError
from envweave.requests import LogEvent, Request
from envweave.results import ResetResult, StepResult

log = logging.getLogger(__name__)


class Slot:
    """Runs one environment so that nothing it does is raised: a failure is the result of its own row.

    A failed environment is not trusted again. It is rebuilt before its next reset, which with autoreset is at once.
    """

    __slots__ = ("_blueprint", "_reset_retries", "broken", "env", "id", "incarnation", "recovering")

    def __init__(self, blueprint: Blueprint, id: str, *, reset_retries: int = 1) -> None:
        self.id = id
        self.env = start_blocking(blueprint, id)
        self.incarnation = 0
        self.recovering = False
        """With autoreset: the next episode could not begin, so the next step tries again instead of stepping."""
        self.broken = False
        self._blueprint = blueprint
        self._reset_retries = reset_retries

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

    def _look_after(self, result: StepResult[Any]) -> StepResult[Any]:
        """The environment failed or its episode is over: see that the next one can begin."""
        failure, self.env.failure = self.env.failure, None
        if isinstance(failure, UsageError):  # it refused the action and goes on
            return result
        self.broken = failure is not None
        if failure is not None and self._blueprint.autoreset:
            return self._begin_next(result)
        self.recovering = self._blueprint.autoreset
        return result

    def _begin_next(self, result: StepResult[Any]) -> StepResult[Any]:
        """Begin the next episode, on a new environment, and tell so in the last result of the old."""
        self.broken = True
        reset = self.reset({})
        if self.recovering:
            result.requests = (*result.requests, *reset.requests)
            result.info.setdefault("error", reset.info["error"])
            return result
        return self.env.referee.announce(result, reset)

    def reset(self, arguments: dict[str, Any]) -> ResetResult[Any]:
        """Try, and try again on a new environment; a step is never tried twice, a reset may be."""
        given_up: tuple[Request, ...] = ()
        for attempt in range(self._reset_retries + 1):
            try:
                if self.broken:
                    self._rebuild()
                result = self.env.reset(**arguments)
                self.recovering = False
                result.requests = (*given_up, *result.requests)
                return result
            except UsageError as error:  # the environment does not take these options, today or on a retry
                return self._no_reset(error, given_up)
            except EnvWeaveError as error:
                failure = error
                given_up = (*given_up, *getattr(error, "requests", ()))
                self.broken = True
                log.warning("reset of %s failed (attempt %d): %s", self.id, attempt + 1, error.message)
        return self._no_reset(failure, given_up)

    def lose_step(self, error: EnvError) -> StepResult[Any]:
        """The row of a step whose answer will never come."""
        if not self.recovering:
            return self.env.referee.abort(error)
        reset = self._no_reset(error)
        return StepResult(self.env.referee.last_obs, info=reset.info, requests=reset.requests)

    def lose_reset(self, error: EnvError) -> ResetResult[Any]:
        return self._no_reset(error)

    def heir(self) -> Slot:
        """The slot that takes this one's place when its environment is lost in a call."""
        heir = copy(self)
        heir.env = self.env.ghost()
        heir.broken = True
        heir.recovering = self._blueprint.autoreset
        return heir

    def _no_reset(self, error: EnvWeaveError, given_up: tuple[Request, ...] = ()) -> ResetResult[Any]:
        self.recovering = self._blueprint.autoreset
        event = LogEvent(env_id=self.id, name="reset_failed", payload=error.to_data())
        return ResetResult(None, {"error": error.to_data()}, (*given_up, event))

    def complain(self, error: EnvWeaveError) -> None:
        log.warning("%s did not close: %s", self.id, error.message)

    def _rebuild(self) -> None:
        old, self.env = self.env, start_blocking(self._blueprint, self.id)
        self.env.referee.episode_number = old.referee.episode_number
        self.incarnation += 1
        self.broken = False
        try:
            old.close()
        except EnvWeaveError as error:
            self.complain(error)
