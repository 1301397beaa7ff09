"""`Recording`: makes the record of one environment from the calls on it, wherever the environment runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from envweave.core.backend import EpisodeView
from envweave.core.branching import EpisodeSnapshot
from envweave.core.referee import LATE
from envweave.errors import EnvWeaveError, InvalidActionError, RecordError, UsageError, WaitTimeoutError
from envweave.record.log import EpisodeLog, Origin
from envweave.record.recorder import Recorder
from envweave.requests import DEFAULT_AGENT, AutoresetReady, EpisodeEnd, NeedAction, Request
from envweave.results import ResetResult, StepResult

STEPS = ("step", "advance", "respond")


@dataclass(frozen=True, slots=True)
class RecordedSnapshot(EpisodeSnapshot):
    """A snapshot that knows which episode it was taken of, also in another process."""

    origin: Origin


class Recording:
    """Receives each call on one environment with its reply or error, in order, and writes episodes.

    A reset begins an episode, and the `episode_end` of the environment ends it. A fork is an episode whose `parent` is
    named; so is what follows a `restore` of a snapshot that was recorded. If a line cannot be written, `RecordError` is
    raised, with the result of the call in `result`.
    """

    def __init__(self, recorder: Recorder, header: Mapping[str, Any], *, owned: bool = False) -> None:
        """With `owned` the recorder is closed with the environment."""
        self.recorder = recorder
        self._header = dict(header)
        self._owned = owned
        self.log: EpisodeLog | None = None
        """The episode under way; None before the first reset."""
        self._draws = 0
        self._late: tuple[str, Any, float] | None = None
        """A call that timed out, whose reply `last` may still get."""
        self._origins: dict[Any, Origin] = {}
        """Where snapshots were taken, for those that do not say it themselves."""

    def observe(
        self, kind: str, data: Any, reply: Any, error: BaseException | None, began: float, episode: EpisodeView
    ) -> None:
        """Take a call that began at this time, by the monotonic clock, with its reply or its error."""
        if kind == "last" and self._late is not None:
            kind, data, began = self._late
        elif isinstance(error, WaitTimeoutError):
            self._late = kind, data, began
            return
        self._late = None
        try:
            self._take(kind, data, reply, error, monotonic() - began, episode)
        except RecordError as failure:
            failure.result = reply
            raise

    def _take(
        self, kind: str, data: Any, reply: Any, error: BaseException | None, seconds: float, episode: EpisodeView
    ) -> None:
        if error is not None:
            self._fail(kind, data, error, seconds)
        elif kind == "reset":
            self._reset(dict(data or {}), reply, seconds, episode.episode_id)
        elif kind in STEPS:
            self._step(kind, data, reply, seconds)
        elif kind == "snapshot" and self.log is not None and not self.log.ended:
            self.log.event("snapshot")
        elif kind == "restore":
            self._restore(data)
        elif kind == "close":
            self._close(reply)

    def marked(self, snapshot: Any) -> Any:
        """The snapshot, so that a `restore` of it is known to go on from here."""
        if self.log is None or self.log.ended:
            return snapshot
        if isinstance(snapshot, EpisodeSnapshot):
            return RecordedSnapshot(snapshot.env, snapshot.episode, self.log.origin)
        self._origins[snapshot] = self.log.origin  # the name of one on a server
        return snapshot

    def forked(self) -> Recording:
        """The recording of a fork of the environment, at the same point."""
        fork = Recording(self.recorder, self._header)
        fork._origins = self._origins
        if self.log is not None:
            fork.log = self.log.fork() if not self.log.ended else self.log
        return fork

    # Kinds of calls.

    def _reset(self, data: dict[str, Any], result: ResetResult[Any], seconds: float, episode_id: str | None) -> None:
        self._end(_reason(result.requests) or "closed")
        self._begin(data, episode_id, result.info.get("task_id"), agents=_agents(result.requests))
        assert self.log is not None
        self.log.reset(result, seconds)

    def _step(self, kind: str, data: Any, result: StepResult[Any, Any, Any], seconds: float) -> None:
        if self.log is None:  # an environment of OpenEnv that is stepped without a reset
            self._begin({}, None)
        assert self.log is not None
        if kind == "respond":
            self.log.respond(data["request_id"], data.get("value"), result, seconds)
        else:
            self.log.step(None if data is LATE else data, result, seconds, draws=self._draws)
            self._draws = 0
        for request in result.requests:
            if request.__class__ is EpisodeEnd or request.__class__ is AutoresetReady:
                self._follow(request, result)

    def _follow(self, request: Request, result: StepResult[Any, Any, Any]) -> None:
        if isinstance(request, EpisodeEnd) and request.agent_id is None:
            self._end(request.reason, result.info.get("error"))
        elif isinstance(request, AutoresetReady):
            self._end("terminated")
            info = request.initial_info
            self._begin({}, request.episode_id, info.get("task_id"), autoreset=True)
            assert self.log is not None
            self.log.reset(ResetResult(request.initial_obs, info))

    def _fail(self, kind: str, data: Any, error: BaseException, seconds: float) -> None:
        if isinstance(error, InvalidActionError) and not error.requests:
            self._draws += 1
        elif isinstance(error, UsageError) and not error.by_environment and not error.requests:
            return  # nothing has changed
        elif not isinstance(error, EnvWeaveError):
            if self.log is not None and not self.log.ended and kind in STEPS:  # cancelled: its outcome is not known
                self.log.event("log", name="interrupted", call=kind, error=type(error).__name__)
        elif kind == "reset":
            self._end("closed")
            self._begin(dict(data or {}), None)
            self._end("infra_error", error.to_data())
        elif kind in STEPS and self.log is not None and not self.log.ended:
            if error.result is not None and kind != "respond":
                self.log.step(None if data is LATE else data, error.result, seconds)
            self._end(_reason(error.requests) or "infra_error", error.to_data())

    def _close(self, reply: Any) -> None:
        self._end(_reason(reply) or "closed")
        if self._owned:
            self.recorder.close()

    def _restore(self, snapshot: Any) -> None:
        self._end("closed")
        known = isinstance(snapshot, EpisodeSnapshot)
        origin = getattr(snapshot, "origin", None) if known else self._origins.get(snapshot)
        if origin is None:  # it was taken without a record
            self._begin({}, None, restored=True)
        else:
            self._draws = 0
            self.log = self.recorder.branch(origin)

    # Episodes.

    def _begin(self, data: dict[str, Any], episode: str | None, task_id: Any = None, **more: Any) -> None:
        header = dict(self._header)
        header["seed"] = data.pop("seed", None)
        given, _ = data.pop("task", None), data.pop("episode_id", None)
        if task_id is not None or given is not None:
            known = {"id": task_id, "given": given}
            header["task"] = {name: value for name, value in known.items() if value is not None}
        if data:
            header["reset"] = data
        header |= {name: value for name, value in more.items() if value}
        self._draws = 0
        self.log = self.recorder.episode(**header, episode=episode)

    def _end(self, reason: str, error: Any = None) -> None:
        if self.log is not None and not self.log.ended:
            self.log.end(reason, error=error)


def _reason(requests: Any) -> str | None:
    """Why the whole episode ended, if these requests say so."""
    for request in requests if isinstance(requests, tuple | list) else ():
        if isinstance(request, EpisodeEnd) and request.agent_id is None:
            return request.reason
    return None


def _agents(requests: tuple[Request, ...]) -> list[str] | None:
    """The agents that are asked to act, where there are several."""
    found = [request.agent_id for request in requests if isinstance(request, NeedAction)]
    return None if found in ([], [DEFAULT_AGENT]) else found
