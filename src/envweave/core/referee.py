"""The rules of one environment, without any I/O.

A referee knows whose turn it is, what a legal action is, when the episode is over and what to tell the driver. It
never calls the environment, so the same rules apply to a sync handle, an async one, a slot of a vector and a session
on a server. Each of them does:

    native = referee.admit(action)        # UsageError: nothing has changed
    raw = env.step(native)                # however that is done there
    result = referee.conclude(raw)        # or referee.abort(error)
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from envweave.core.actions import ActionRule
from envweave.core.return_values import StepOutcome, read_flag, read_info, read_reset, read_reward, read_step
from envweave.core.selection import ChosenTask
from envweave.errors import BadResultError, BusyError, ClosedError, EnvWeaveError, ResetNeededError, UsageError
from envweave.requests import AutoresetReady, EndReason, EpisodeEnd, NeedAction, Request, ToolCall
from envweave.results import ResetResult, StepResult
from envweave.types import Observation, State

NEW, RUNNING, WAITING, BUSY, OVER, CLOSED = "new", "running", "waiting", "busy", "over", "closed"
"""The phases of an episode; `waiting` is for the reply to a tool call, `busy` while environment code runs."""

AFTER_END = "call env.reset(); ew.make(…, autoreset=True) does so by itself"
"""The hint for a step after the end of an episode."""

LATE: Any = object()
"""In place of an action that came after its deadline."""


class Referee:
    """The rules for a single agent."""

    __slots__ = (
        "_call_number", "_check", "_clock", "_deadline", "_limit", "_need", "_plain", "due", "env_id", "episode_id",
        "last_obs", "pending", "phase", "step_count", "task", "tool_calls", "undelivered",
    )  # fmt: skip

    multi_agent: ClassVar[bool] = False

    saved: ClassVar[tuple[str, ...]] = (
        "phase", "step_count", "episode_id", "task", "last_obs", "pending", "_call_number", "_plain"
    )  # fmt: skip
    """The attributes that change within an episode."""

    def __init__(
        self,
        env_id: str,
        rule: ActionRule,
        *,
        deadline: float | None = None,
        max_episode_steps: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.env_id = env_id
        self.phase = NEW
        self.step_count = 0
        self.episode_id: str | None = None
        self.task: ChosenTask | None = None
        """The task of the episode, if it has one; it is named in the first and the last `info`."""
        self.last_obs: Any = None
        self.pending: tuple[Request, ...] = ()
        """The open requests: `need_action`s, or the `tool_call`s that come before them."""
        self.tool_calls: dict[str, ToolCall] = {}
        self.due: float | None = None
        """When the earliest open request expires, by `clock`."""
        self.undelivered: list[Request] = []
        """Ends whose receiver is gone; they come with the next reset or close. Another thread may add to it."""
        self._call_number = 0
        self._deadline = deadline
        self._limit = max_episode_steps or sys.maxsize
        self._clock = clock
        self._check = rule.check
        self._plain = deadline is None and max_episode_steps is None
        """An ordinary step needs no further look: no clock, no limit, no requests of the author's own so far."""
        self._need = (NeedAction(env_id=env_id, action_schema=rule.schema, deadline=deadline),)

    # What a driver wants to do ...

    def admit(self, action: Any) -> Any:
        """The action as the environment takes it, or LATE. Raises a `UsageError` and changes nothing."""
        if self.phase is not RUNNING:
            self._refuse()
        if self.due is not None and self.late():
            return LATE
        return self._check(action)

    def admit_reply(self, request_id: str) -> ToolCall:
        """The open tool call of that name; the reply to it is about to be given to the environment."""
        if self.phase not in (RUNNING, WAITING):
            self._refuse()
        try:
            return self.tool_calls[request_id]
        except KeyError:
            opened = ", ".join(self.tool_calls) or "none"
            raise UsageError(f"no open request {request_id!r}", f"open requests: {opened}") from None

    def admit_reset(self) -> None:
        if self.phase in (BUSY, CLOSED):
            self._refuse()

    def check_running(self) -> None:
        """Raise the `UsageError` of a step that comes at the wrong time."""
        if self.phase is not RUNNING:
            self._refuse()

    def _refuse(self) -> None:
        if self.phase is CLOSED:
            raise ClosedError(f"{self.env_id} is closed", "make a new one")
        if self.phase is BUSY:
            raise BusyError(f"a call on {self.env_id} is still running", "one call at a time on one environment")
        if self.phase is NEW:
            raise ResetNeededError(f"{self.env_id} was not reset yet", "call env.reset() first")
        if self.phase is OVER:
            raise ResetNeededError(
                f"the episode of {self.env_id} is over",
                AFTER_END,
            )
        waiting = next(iter(self.tool_calls), "?")
        raise UsageError(f"tool call {waiting!r} is waiting for its reply", f"env.respond({waiting!r}, value)")

    # ... and what came of it.

    def open(self, raw: Any, episode_id: str) -> ResetResult[Any]:
        """Begin an episode with what the environment's reset returned."""
        requests: tuple[Request, ...] = ()
        if type(raw) is tuple and len(raw) == 2 and type(raw[1]) is dict:
            observation, info = raw
        else:
            observation, info, requests = read_reset(raw)
        self.episode_id = episode_id
        self.step_count = 0
        self.last_obs = observation
        return ResetResult(observation, info, self._ask(requests))

    def open_unreset(self, episode_id: str) -> None:
        """Begin an episode of an environment that needs no reset: there is no first observation."""
        self.episode_id = episode_id
        self.step_count = 0
        self.last_obs = None
        self._ask(())

    def conclude(self, raw: Any) -> StepResult[Any]:
        """Read what a step returned."""
        self.step_count += 1
        if raw.__class__ is tuple and len(raw) == 5:
            observation, reward, terminated, truncated, info = raw
            if info.__class__ is not dict:
                info = read_info(info)
        elif isinstance(raw, Observation) and raw.done is False:
            observation, reward, terminated, truncated, info = raw, raw.reward, False, False, raw.metadata
        else:
            return self._decide(read_step(raw))
        if reward.__class__ is not float or reward - reward != 0.0:  # infinity and NaN: their difference is NaN
            reward = read_reward(reward)
        if terminated is False and truncated is False and self._plain:
            self.last_obs = observation
            self.phase = RUNNING
            return StepResult(observation, reward, False, False, info, self._need)
        return self._decide(StepOutcome(observation, reward, terminated, truncated, info, ()))

    def resume(self, raw: Any) -> StepResult[Any]:
        """Read what an environment made of a tool's answer: the rest of the step, or None for "go on"."""
        outcome = StepOutcome(self.last_obs, None, False, False, {}, ()) if raw is None else read_step(raw)
        return self._decide(outcome)

    def _decide(self, outcome: StepOutcome) -> StepResult[Any]:
        """The part of `conclude` for uncommon steps: ends, limits, the author's own requests."""
        observation, info, requests = outcome.observation, outcome.info, outcome.requests
        reward = read_reward(outcome.reward)
        terminated = read_flag(outcome.terminated, "terminated")
        truncated = read_flag(outcome.truncated, "truncated")
        ended = requests and any(isinstance(r, EpisodeEnd) and r.agent_id is None for r in requests)
        if ended and not (terminated or truncated):
            truncated = True
        if not (terminated or truncated) and self.step_count >= self._limit:
            truncated = True
        self.last_obs = observation
        if terminated or truncated:
            info = self.with_task_id(info)
            asked = self._end("terminated" if terminated else "truncated", info, requests)
        else:
            asked = self._ask(requests)
        return StepResult(observation, reward, terminated, truncated, info, asked)

    def refuse_action(self, error: UsageError) -> StepResult[Any]:
        """The environment itself refused the action, and says that nothing has changed."""
        self._await_answers()
        return StepResult(self.last_obs, None, False, False, {"error": error.to_data()}, self.pending)

    def abort(self, error: EnvWeaveError, reason: EndReason = "infra_error") -> StepResult[Any]:
        """End the episode without a score: the environment, or what it runs on, has failed."""
        info = self.with_task_id({"error": error.to_data()})
        return StepResult(self.last_obs, None, False, True, info, self._end(reason, info))

    @property
    def timed(self) -> bool:
        """Every action has a deadline; a single request may also have one of its own."""
        return self._deadline is not None

    def late(self) -> bool:
        return self.due is not None and self._clock() > self.due

    def unscored(self, error: EnvWeaveError, *, over: bool) -> StepResult[Any]:
        """The result of a step that failed, for a caller that turns errors into results."""
        info = {"error": error.to_data()}
        if not over:
            return StepResult(self.last_obs, info=info, requests=self.pending)
        if self.phase is OVER:  # its end was said already, or is kept
            info = self.with_task_id(info)
            return StepResult(self.last_obs, truncated=True, info=info, requests=self.take_undelivered())
        return self.abort(error)

    def expire(self) -> StepResult[Any]:
        """End the episode because a deadline has passed. The environment is not called."""
        asked = ", ".join(r.agent_id if isinstance(r, NeedAction) else r.request_id for r in self._open_requests())
        error = {"code": "timeout", "type": "Deadline", "message": f"no answer in time from {asked}"}
        info = self.with_task_id({"error": error})
        return StepResult(self.last_obs, None, False, True, info, self._end("timeout", info))

    def abandon(self) -> tuple[Request, ...]:
        """End the current episode, if there is one, because the driver gives it up."""
        running = self.phase in (RUNNING, WAITING, BUSY) and self.episode_id is not None
        return self._end("closed", self.with_task_id({})) if running else ()

    def begin_reset(self) -> tuple[Request, ...]:
        """Give up the current episode, if there is one, and let the environment make another. Returns its ends."""
        ends = self.abandon()
        self.keep_ends(ends)
        self.episode_id = None
        self.phase = BUSY
        return ends

    def close(self) -> tuple[Request, ...]:
        self.keep_ends(self.abandon())
        self.phase = CLOSED
        return self.take_undelivered()

    def keep_ends(self, requests: tuple[Request, ...]) -> None:
        """Deliver the ends among these requests later, because their receiver is gone."""
        self.undelivered.extend([request for request in requests if isinstance(request, EpisodeEnd)])

    def take_undelivered(self) -> tuple[Request, ...]:
        if not self.undelivered:
            return ()
        taken = tuple(self.undelivered)
        del self.undelivered[: len(taken)]
        return taken

    def restart_clock(self) -> None:
        """Deadlines count from now, when the driver is handed the request."""
        deadlines = [request.deadline for request in self._open_requests() if request.deadline is not None]
        self.due = self._clock() + min(deadlines) if deadlines else None

    # The request stream.

    def _ask(self, requests: tuple[Request, ...]) -> tuple[Request, ...]:
        """Complete the author's requests and add what they leave out: who must act next."""
        if not requests and not self.tool_calls:
            self.pending = needs = self._needs()
            self.phase = RUNNING
            self.due = None if self._deadline is None else self._clock() + self._deadline
            return needs
        self._plain = False
        if any(isinstance(request, EpisodeEnd) and request.agent_id is None for request in requests):
            raise BadResultError("an episode that has just begun is said to be over", "end it in step")
        stamped = [self._stamp(request) for request in requests]
        asks = [request for request in stamped if isinstance(request, NeedAction)]
        for request in stamped:
            if isinstance(request, ToolCall) and request.request_id in self.tool_calls:
                raise BadResultError(f"two tool calls are named {request.request_id!r}", "leave request_id empty")
            if isinstance(request, ToolCall):
                self.tool_calls[request.request_id] = request
        if not asks and not self.tool_calls:
            asks = list(self._needs())
            stamped += asks
        self.pending = (*self.tool_calls.values(), *asks)
        self._await_answers()
        return tuple(stamped)

    def _await_answers(self) -> None:
        """Wait for what `pending` says: an action, or the answer of a tool. The clock starts."""
        opened = self._open_requests()
        self.phase = RUNNING if any(isinstance(request, NeedAction) for request in opened) else WAITING
        self.restart_clock()

    def _needs(self) -> tuple[NeedAction, ...]:
        return self._need

    def _stamp(self, request: Request) -> Request:
        if isinstance(request, ToolCall) and not request.request_id:
            self._call_number += 1
            request = replace(request, request_id=f"{self.env_id}/call-{self._call_number}")
        if isinstance(request, NeedAction):
            known = next((need for need in self._needs() if need.agent_id == request.agent_id), None)
            schema = request.action_schema or (known.action_schema if known else None)
            deadline = self._deadline if request.deadline is None else request.deadline
            request = replace(request, action_schema=schema, deadline=deadline)
        if isinstance(request, EpisodeEnd):
            final_info = self.with_task_id(request.final_info)
            request = replace(request, episode_id=self.episode_id, final_info=final_info)
        return replace(request, env_id=self.env_id)

    def _end(self, reason: EndReason, info: dict[str, Any], requests: tuple[Request, ...] = ()) -> tuple[Request, ...]:
        """Close the episode with exactly one `episode_end`, the author's own if there is one."""
        self.phase = OVER
        self.pending, self.due = (), None
        if self.tool_calls:
            self.tool_calls = {}
        end = EpisodeEnd(env_id=self.env_id, reason=reason, final_info=info, episode_id=self.episode_id)
        if not requests:
            return (end,)
        stamped = [self._stamp(r) for r in requests if not isinstance(r, NeedAction | ToolCall)]
        own = [r for r in stamped if isinstance(r, EpisodeEnd) and r.agent_id is None]
        return (*(r for r in stamped if r not in own), own[0] if own else end)

    def with_task_id(self, info: dict[str, Any]) -> dict[str, Any]:
        """The first or the last `info` of an episode."""
        return info if self.task is None else {**info, "task_id": self.task.id}

    def _open_requests(self) -> list[NeedAction | ToolCall]:
        return [request for request in self.pending if isinstance(request, NeedAction | ToolCall)]

    # State.

    def schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        return self._need[0].action_schema

    def state(self) -> State:
        return State(episode_id=self.episode_id, step_count=self.step_count)

    def save_episode(self) -> dict[str, Any]:
        """What is needed to continue this episode later; deadlines start anew."""
        return {name: getattr(self, name) for name in self.saved}

    def load_episode(self, saved: dict[str, Any]) -> None:
        for name, value in saved.items():
            setattr(self, name, value)
        self.phase = sys.intern(self.phase)  # a snapshot may have been pickled
        self.pending = tuple(replace(request, env_id=self.env_id) for request in self.pending)
        self.tool_calls = {r.request_id: r for r in self.pending if isinstance(r, ToolCall)}
        if self.phase in (RUNNING, WAITING):
            self._await_answers()


def announce(result: StepResult[Any], reset: ResetResult[Any], env_id: str, episode_id: str | None) -> StepResult[Any]:
    """Say in the last result of one episode that the next has begun; returns that result."""
    ready = AutoresetReady(env_id=env_id, initial_obs=reset.observation, initial_info=reset.info, episode_id=episode_id)
    result.requests = (*result.requests, ready, *reset.requests)
    return result
