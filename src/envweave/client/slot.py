"""One place of a vector: a session on a server, and what to do when it fails."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from envweave.client.call import Call
from envweave.client.episode import Episode
from envweave.client.packing import packed
from envweave.client.stream import StreamSession
from envweave.errors import (
    EnvWeaveError,
    InvalidActionError,
    ResetNeededError,
    SessionLostError,
    UsageError,
    WaitTimeoutError,
)
from envweave.requests import AutoresetReady, LogEvent, NeedAction, Request, ToolCall
from envweave.results import ResetResult, StepResult
from envweave.wire.faults import requests_from_data

log = logging.getLogger(__name__)

CLOSE_TIMEOUT = 5.0
RESET_ATTEMPTS = 2


class Work(NamedTuple):
    """What is to be done for one row, on the loop."""

    kind: str
    body: bytes = b""
    options: Mapping[str, Any] = {}


class RemoteSlot:
    """The members that a vector wants of a slot, of its handle and of its referee.

    What may be refused without asking the server is refused here. Everything from `read` on is for the event loop.
    """

    due = None
    """Deadlines are the server's business."""

    def __init__(self, session: StreamSession, *, autoreset: bool) -> None:
        self.id = session.opened.env_id
        self.session = session
        self.incarnation = 0
        self.step_count = 0
        self.recovering = False
        """With autoreset: the next episode could not begin, so the next step tries again instead of stepping."""
        self._autoreset = autoreset
        self._broken = False
        """A session that failed is not trusted again: another takes its place before the next reset."""
        self._episodes = 0
        self._episode = Episode(self.id)
        self._last_obs: Any = None

    @property
    def env(self) -> RemoteSlot:
        return self

    referee = env

    # What a caller wants to do.

    def admit(self, action: Any) -> Any:
        """The action as data. Raises a `UsageError` if this environment does not wait for one."""
        if self.recovering:
            return None
        if not any(isinstance(request, NeedAction) for request in self._episode.pending):
            self._refuse()
        return packed(action, "action", InvalidActionError)

    def _refuse(self) -> NoReturn:
        if self._episode.pending:
            waiting = next(request.request_id for request in self._episode.pending if isinstance(request, ToolCall))
            raise UsageError(f"tool call {waiting!r} is waiting for its reply", f"env.respond({waiting!r}, value)")
        state = f"the episode of {self.id} is over" if self._episodes else f"{self.id} was not reset yet"
        raise ResetNeededError(state, "call env.reset()")

    def admit_reset(self, arguments: dict[str, Any]) -> None:
        packed(arguments, "reset")

    def admit_reply(self, request_id: str) -> None:
        calls = [request.request_id for request in self._episode.pending if isinstance(request, ToolCall)]
        if request_id not in calls:
            raise UsageError(f"no open request {request_id!r}", f"open requests: {', '.join(calls) or 'none'}")

    def step(self, body: bytes) -> Work:
        return Work("recover") if self.recovering else Work("step", body)

    def reset(self, arguments: dict[str, Any]) -> Work:
        return Work("reset", options={name: value for name, value in arguments.items() if value is not None})

    def respond(self, request_id: str, value: Any) -> Work:
        return Work("respond", packed({"request_id": request_id, "value": value}, "response"))

    def lose_step(self, error: EnvWeaveError) -> StepResult[Any]:
        return self.failed(error)

    def lose_reset(self, error: EnvWeaveError) -> ResetResult[Any]:
        return self._no_reset(error, ())

    # What came of it.

    def read(self, call: Call) -> StepResult[Any]:
        """The row of a step or a response. Raises what the server raised."""
        result = self._episode.read_step(call.result())
        self._last_obs = result.observation
        self.step_count += call.kind == "step"
        if result.done:
            self._ended(result)
        return result

    def _ended(self, result: StepResult[Any]) -> None:
        for request in result.requests:
            if isinstance(request, AutoresetReady):
                self.step_count, self._last_obs = 0, request.initial_obs
                self._episodes += 1
                return
        self.recovering = self._broken = self._autoreset

    def failed(self, error: EnvWeaveError) -> StepResult[Any]:
        """The row of a step that failed: not scored, and its episode over unless the environment only refused."""
        over = not isinstance(error, UsageError)
        info = {"error": error.to_data()}
        requests = self._last_words(error) if over else self._episode.pending
        self._broken = self._broken or over
        if not self.session.opened.multi_agent or not isinstance(self._last_obs, Mapping):
            return StepResult(self._last_obs, None, False, over, info, requests)
        agents = list(self._last_obs)
        flags = dict.fromkeys((*agents, "__all__"), over)
        return StepResult(
            self._last_obs, dict.fromkeys(agents, None), dict.fromkeys(flags, False), flags, info, requests
        )

    def _last_words(self, error: EnvWeaveError) -> tuple[Request, ...]:
        """What the environment had still to say; a session that is lost says nothing, so its end is said here."""
        end = self._episode.end("infra_error", {"error": error.to_data()})
        return error.requests or end

    # Beginning again.

    async def begin_next(self, result: StepResult[Any]) -> StepResult[Any]:
        """With autoreset: the next episode in a new session, told in the last result of the one that failed."""
        try:
            reset = await self.reset_row({})
        except UsageError as error:
            reset = self._no_reset(error, ())
        if self.recovering:
            result.requests = (*result.requests, *reset.requests)
            if not isinstance(result.reward, float):
                result.info = {"error": reset.info["error"], **result.info}
            return result
        ready = AutoresetReady(
            env_id=self.id, initial_obs=reset.observation, initial_info=reset.info, episode_id=self._episode.id
        )
        result.requests = (*result.requests, ready, *reset.requests)
        return result

    async def recover(self) -> StepResult[Any]:
        return await self.begin_next(StepResult(self._last_obs))

    async def reset_row(self, options: Mapping[str, Any]) -> ResetResult[Any]:
        """Try, and try again in a new session. Raises `UsageError` if the server does not take the arguments."""
        owed: tuple[Request, ...] = ()
        name = f"{self.id}/{self._episodes + 1}"
        for attempt in range(RESET_ATTEMPTS):
            try:
                if self._broken:
                    owed += await self._rebuild()
                    options = {"episode_id": name, **options}
                result = self._episode.read_reset(await self._ask("reset", packed(options, "reset")))
            except UsageError:
                raise
            except EnvWeaveError as error:
                failure = error
                owed += self._last_words(error)
                self._broken = True
                log.warning("reset of %s failed (attempt %d): %s", self.id, attempt + 1, error.message)
            else:
                self._last_obs, self.step_count, self.recovering = result.observation, 0, False
                self._episodes, self._episode.id = self._episodes + 1, options.get("episode_id", name)
                result.requests = (*owed, *result.requests)
                return result
        return self._no_reset(failure, owed)

    def _no_reset(self, error: EnvWeaveError, owed: tuple[Request, ...]) -> ResetResult[Any]:
        self.recovering = self._autoreset
        event = LogEvent(env_id=self.id, name="reset_failed", payload=error.to_data())
        return ResetResult(None, {"error": error.to_data()}, (*owed, event))

    async def _rebuild(self) -> tuple[Request, ...]:
        """A new session in place of the old; gives the ends that the old one still owes."""
        owed = await self.close()
        self.session = await self.session.renew(episodes=self._episodes)
        self._episode, self._broken = Episode(self.id), False
        self.incarnation += 1
        return owed

    async def close(self) -> tuple[Request, ...]:
        """Close the environment on the server, in bounded time."""
        try:
            answer = await self._ask("close", b"", CLOSE_TIMEOUT)
        except (EnvWeaveError, WaitTimeoutError) as error:
            if not isinstance(error, SessionLostError):
                log.warning("%s did not close: %s", self.id, error.message)
            return error.requests
        return requests_from_data(answer.get("requests", ()))

    async def _ask(self, kind: str, body: bytes, timeout: float | None = None) -> Any:
        call = Call(kind, body)
        self.session.send(call)
        await call.wait(timeout)
        return call.result()
