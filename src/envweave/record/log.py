"""`EpisodeLog`: the lines of one episode while it runs. Each line is in the file when its method returns."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from envweave.core.episode_ids import new_episode_id
from envweave.errors import EnvWeaveError, RecordError, UsageError
from envweave.record.blobs import LARGE, Blobs
from envweave.record.encoding import decode, encode
from envweave.record.lines import reply_data, requests_data, reward_parts
from envweave.record.segments import PIECE
from envweave.record.totals import Totals
from envweave.requests import Request

if TYPE_CHECKING:
    from envweave.lm.reply import Reply
    from envweave.results import ResetResult, StepResult


class Run(Protocol):
    """What a log needs of its recorder."""

    durable: bool
    redact: Callable[[bytes], bytes]
    blobs: Blobs

    def create(self, log: EpisodeLog) -> int:
        """A new file for the log; returns its descriptor. Raises `OSError`."""

    def finish(self, log: EpisodeLog, source: int, size: int, end: dict[str, Any]) -> None:
        """Move the lines from the file to a segment, and remove it. Raises `OSError`."""

    def failure(self, error: OSError) -> RecordError: ...


class Origin(NamedTuple):
    """A point of an episode, from which another may go on."""

    header: dict[str, Any]
    """Of the other, with `parent`."""
    steps: int
    returns: dict[str, float]


class EpisodeLog:
    """Writes one episode. Call `reset` once, then the others in the order of events, then `end`.

    For one thread at a time. A line that cannot be written raises `RecordError`, and so does every later line, because
    the record of the episode is incomplete. A log that is not ended, because the process was killed or forgot it, gets
    the end `unfinished`.
    """

    def __init__(self, run: Run, header: Mapping[str, Any], origin: Origin | None = None) -> None:
        """With `origin` the episode goes on from there."""
        self._run = run
        self._begun = monotonic()
        self._size = 0
        self._fd = -1
        self._pid = os.getpid()
        self._failure: RecordError | None = None
        self._ended = False
        self._schemas: dict[str, Any] = {}
        self._last_requests: tuple[Any, Any] = (None, [])
        self._totals = Totals()
        if origin is not None:
            header = {**origin.header, **header}
            self._totals.steps, self._totals.returns = origin.steps, dict(origin.returns)
        self._written_steps = self._totals.steps
        self.path = ""
        """The file of the episode while it runs."""
        self.header: dict[str, Any] = {"kind": "episode", "v": 1, "episode": header.get("episode") or new_episode_id()}
        self.header |= {**header, "episode": self.header["episode"]}
        self._begin()

    @property
    def id(self) -> str:
        """The ID of the episode in the record."""
        return str(self.header["episode"])

    @property
    def steps(self) -> int:
        return self._totals.steps

    @property
    def returns(self) -> dict[str, float]:
        """The sum of the rewards so far, by agent; agents without any score are missing."""
        return self._totals.returns

    @property
    def ended(self) -> bool:
        return self._ended

    def reset(self, result: ResetResult[Any], seconds: float = 0.0) -> None:
        """The first observation, and how long it took."""
        line = self._line("reset", 0, seconds, None)
        line["obs"] = result.observation
        self._finish_line(line, result.info, result.requests)

    def step(
        self,
        action: Any,
        result: StepResult[Any, Any, Any],
        seconds: float = 0.0,
        agent: str | None = None,
        call_id: str | None = None,
        draws: int = 0,
    ) -> None:
        """An action, and what came of it.

        `call_id` is the tool call of the model that the action came from, and `draws` are the actions that were refused
        before this one.
        """
        self._totals.steps += 1
        line = self._line("step", self._totals.steps, seconds, agent)
        line["action"] = action
        if call_id is not None:
            line["from"] = call_id
        if draws:
            line["draws"] = draws
        self._finish_step(line, result)

    def respond(self, request_id: str, value: Any, result: StepResult[Any, Any, Any], seconds: float = 0.0) -> None:
        """The answer to a `tool_call` of the environment, and how the step went on."""
        line = self._line("respond", self._totals.steps, seconds, None)
        line["request_id"], line["value"] = request_id, value
        self._finish_step(line, result)

    def model(self, reply: Reply, seconds: float = 0.0, agent: str | None = None) -> None:
        """A reply of a model. It belongs to the step that follows."""
        self._write(self._line("model", self._totals.steps + 1, seconds, agent) | reply_data(reply))

    def event(self, kind: str, **fields: Any) -> None:
        """Another line, such as `log`, `snapshot` or `state`. Readers keep kinds that they do not know."""
        self._write(self._line(kind, self._totals.steps, None, None) | fields)

    def line(self, event: Mapping[str, Any]) -> None:
        """A line as another record has it, with its own number and time."""
        self._totals.add(event)
        self._written_steps = self._totals.steps
        self._write(dict(event))

    def end(
        self,
        reason: str,
        *,
        returns: Mapping[str, float] | None = None,
        rewards: Mapping[str, float | None] | None = None,
        error: EnvWeaveError | Mapping[str, Any] | str | None = None,
        usage: Any = None,
        wall: Mapping[str, float] | None = None,
        flags: Sequence[str] = (),
        **more: Any,
    ) -> None:
        """The last line. The episode is in the record when this returns; a second call does nothing.

        Without `returns` they are the sums of the rewards of the steps.
        """
        if self._ended:
            return
        line = self._line("end", self._totals.steps, None, None)
        line |= {"reason": reason, "return": self._totals.returns if returns is None else returns}
        details = {"rewards": rewards, "error": _error_data(error), "usage": usage, "wall": wall}
        line |= {name: value for name, value in details.items() if value is not None}
        if flags:
            line["flags"] = list(flags)
        line |= more
        try:
            self._detach_from_parent()
            self._check()
            line["sha256"] = self._digest()
            self._write(line)
            self._run.finish(self, self._fd, self._size, line)
        except OSError as error:
            raise self._fail(error) from None
        finally:
            self._ended = True
            self.close()

    def fork(self, **header: Any) -> EpisodeLog:
        """The log of another episode that goes on from here."""
        return EpisodeLog(self._run, header, self.origin)

    @property
    def origin(self) -> Origin:
        """Where the episode is now."""
        own = {name: value for name, value in self.header.items() if name not in ("kind", "v", "episode", "started")}
        own["parent"] = {"episode": self.id, "n": self.steps}
        return Origin(own, self.steps, dict(self.returns))

    def close(self) -> None:
        """Release the file. Without an end the episode is `unfinished`."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # Writing.

    def _begin(self) -> None:
        self.header.setdefault("started", datetime.now(UTC).isoformat(timespec="milliseconds"))
        try:
            self._fd = self._run.create(self)
        except OSError as error:
            raise self._fail(error) from None
        self.header = decode(self._write(self.header))  # without secrets, as it is in the file

    def _line(self, kind: str, n: int, seconds: float | None, agent: str | None) -> dict[str, Any]:
        line: dict[str, Any] = {"kind": kind, "n": n, "t": round(monotonic() - self._begun, 6)}
        if seconds is not None:
            line["ms"] = round(seconds * 1000, 3)
        if agent is not None:
            line["agent"] = agent
        return line

    def _finish_step(self, line: dict[str, Any], result: StepResult[Any, Any, Any]) -> None:
        line["obs"] = result.observation
        line["reward"] = result.reward
        parts = reward_parts(result)
        if parts:
            line["rewards"] = parts
        line["terminated"] = result.terminated
        line["truncated"] = result.truncated
        self._totals.reward(result.reward)
        self._finish_line(line, result.info, result.requests)
        self._written_steps = self._totals.steps

    def _finish_line(self, line: dict[str, Any], info: dict[str, Any], requests: tuple[Request, ...]) -> None:
        if info:
            line["info"] = info
        if requests:
            if requests is not self._last_requests[0]:  # most steps have the very same requests as the one before
                line["requests"] = requests_data(requests, self._schemas)
                self._last_requests = requests, requests_data(requests, self._schemas)  # the schemas are known now
            else:
                line["requests"] = self._last_requests[1]
        self._write(line)

    def _write(self, line: dict[str, Any]) -> bytes:
        """Add a line to the file in one call, so that a killed process leaves whole lines and at most one torn."""
        try:
            data = encode(line)
            if len(data) > LARGE:
                data = encode(self._run.blobs.without_large(line))
            data = self._run.redact(data) + b"\n"
            if self._failure is not None or self._ended or self._fd < 0:
                self._detach_from_parent()
                self._check()
            if os.write(self._fd, data) != len(data):
                raise OSError(28, "no space left on device")
            if self._run.durable:
                os.fsync(self._fd)
        except OSError as error:
            raise self._fail(error) from None
        self._size += len(data)
        return data

    def _digest(self) -> str:
        """Of what is written."""
        digest = hashlib.sha256()
        for offset in range(0, self._size, PIECE):
            digest.update(os.pread(self._fd, min(PIECE, self._size - offset), offset))
        return digest.hexdigest()

    def _check(self) -> None:
        if self._ended:
            raise UsageError(f"the record of episode {self.id} has its end already", "begin another with episode(…)")
        if self._failure is not None:
            raise RecordError(self._failure.message, self._failure.hint)

    def _fail(self, error: OSError) -> RecordError:
        """The error of a line that was not written. What is in the file of it is cut."""
        self._failure = self._run.failure(error)
        try:
            os.ftruncate(self._fd, self._size)
        except OSError:
            pass
        return self._failure

    def _detach_from_parent(self) -> None:
        """In a forked process: go on as an episode of its own, because the parent goes on with this one."""
        if self._pid == os.getpid() or self._ended or self._failure is not None:
            return
        self._pid = os.getpid()
        self.header["parent"] = {"episode": self.id, "n": self._written_steps}
        self.header["episode"] = new_episode_id()
        del self.header["started"]
        self._size = 0
        self._begin()


def _error_data(error: EnvWeaveError | Mapping[str, Any] | str | None) -> Any:
    if isinstance(error, EnvWeaveError):
        return error.to_data()
    return {"message": error} if isinstance(error, str) else error
