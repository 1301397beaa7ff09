"""The way of each call on an environment in this process, written once.

A flow is a generator: it yields what is to be called on the environment and gets back what that returned or raised. A
sync handle runs flows by calling, an async one by awaiting.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar

from envweave.core.calls import ResetCall
from envweave.core.referee import BUSY, CLOSED, LATE, NEW, OVER, Referee
from envweave.core.transform import Transform, check_transform, transformed
from envweave.errors import (
    ClosedError,
    EnvError,
    EnvWeaveError,
    InvalidActionError,
    ResetNeededError,
    UnavailableError,
    UnsupportedError,
    UsageError,
    describe,
)
from envweave.requests import LogEvent, Request
from envweave.results import ResetResult, StepResult
from envweave.types import State

T = TypeVar("T")
Flow: TypeAlias = Generator[Callable[[], Any], Any, T]


@dataclass(frozen=True, slots=True)
class Blueprint:
    """All that is needed to build a handle, and to build it again."""

    build: Callable[[], Any]
    """A new environment at each call. What it raises is an `EnvError` already."""
    rules: Callable[[Any, str], Referee]
    """The referee for that environment, under an instance ID."""
    autoreset: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An episode at rest: the environment's own snapshot, and where the rules stand."""

    env: Any
    episode: dict[str, Any]


class Flows:
    """One environment with its referee, and the way of each call.

    `stepping` and `responding` do not raise what environment code raises: it becomes part of the result and stands in
    `failure`, and whoever runs the flow raises it (`checked`) or passes the result on.
    """

    __slots__ = (
        "_autoreset", "_blueprint", "_forks", "_rescored", "_reset_call", "_step", "_transforms", "failure", "id",
        "referee", "unwrapped",
    )  # fmt: skip

    passing: ClassVar[tuple[type[BaseException], ...]] = (KeyboardInterrupt,)
    """What is meant for the whole program and not for the environment."""

    def __init__(self, blueprint: Blueprint, id: str, env: Any, author: Any = None) -> None:
        """`author` is the environment as its author wrote it, where `env` is something around it."""
        self.id = id
        self.unwrapped = env
        self.referee = blueprint.rules(env if author is None else author, id)
        self.failure: EnvWeaveError | None = None
        """Why the last step has no score, or None."""
        self._blueprint = blueprint
        self._autoreset = blueprint.autoreset
        self._reset_call = ResetCall(env.reset, _old_seed_method(env))
        self._step = env.step
        self._transforms = hasattr(env, "transform") and not self._applies_transform
        self._rescored = False
        """The transform was set here, and is not the one that the environment was built with."""
        self._forks = 0

    @property
    def pending(self) -> tuple[Request, ...]:
        return self.referee.asked

    @property
    def transform(self) -> Transform | None:
        return getattr(self.unwrapped, "transform", None)

    @transform.setter
    def transform(self, transform: Transform | None) -> None:
        check_transform(transform)
        try:
            self.unwrapped.transform = transform
        except AttributeError as error:
            hint = "give its class an attribute `transform`, or put the environment into one that has it"
            raise UsageError(f"{self.id} takes no transform: {error}", hint) from None
        self._transforms = not self._applies_transform
        self._rescored = True

    @property
    def _applies_transform(self) -> bool:
        return bool(getattr(self.unwrapped, "applies_transform", False))

    @property
    def takes_seed(self) -> bool:
        """False if the environment has no place for a seed and so must behave the same without."""
        return self._reset_call.takes_seed

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        return self.referee.schema(agent_id)

    def check_reset(
        self,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> None:
        """Raise the `UsageError` that a reset with these arguments would raise."""
        self._reset_call.arguments(seed, options, episode_id, own)

    def resetting(
        self, seed: int | None, options: dict[str, Any] | None, episode_id: str | None, own: dict[str, Any]
    ) -> Flow[ResetResult[Any]]:
        referee = self.referee
        referee.admit_reset()
        arguments = self._reset_call.arguments(seed, options, episode_id, own)
        before, owed_before = referee.memento(), referee.owed
        referee.begin_reset()
        try:
            self._reset_call.prepare(seed)
            raw = yield partial(self.unwrapped.reset, **arguments)
            self._check_open()
            result = referee.open(raw, episode_id)
        except BaseException as error:
            self._check_open(error)
            if type(error) in (UsageError, UnavailableError):  # the author refuses, and says that nothing has changed
                referee.recall(before)
                referee.owed = owed_before
                raise
            referee.phase = OVER
            self._raise("reset", error)
        owed = referee.settle()
        if owed:
            result.requests = (*owed, *result.requests)
        return result

    def stepping(self, action: Any) -> Flow[StepResult[Any]]:
        native = self.referee.admit(action)
        if native is LATE:
            return (yield from self.following(self.referee.expire()))
        self.referee.phase = BUSY
        try:
            raw = yield partial(self._step, native)
            self._check_open()
            result = self.referee.conclude(self._transformed(raw))
        except BaseException as error:
            return self._stopped("step", error)
        return (yield from self.following(result))

    def responding(self, request_id: str, value: Any) -> Flow[StepResult[Any]]:
        call = self.referee.admit_reply(request_id)
        respond = self._member("respond")
        if self.referee.late():
            return (yield from self.following(self.referee.expire()))
        del self.referee.tool_calls[request_id]
        self.referee.phase = BUSY
        try:
            raw = yield partial(respond, request_id, value)
            self._check_open()
            result = self.referee.resume(None if raw is None else self._transformed(raw))
        except BaseException as error:
            if isinstance(error, InvalidActionError):
                self.referee.tool_calls[request_id] = call
            return self._stopped("respond", error)
        return (yield from self.following(result))

    def following(self, result: StepResult[Any]) -> Flow[StepResult[Any]]:
        """Begin the next episode if this one is over and autoreset is on. Its result must not be lost over that."""
        if not self._autoreset or self.referee.phase is not OVER:
            return result
        try:
            return self.referee.announce(result, (yield from self.resetting(None, None, None, {})))
        except EnvWeaveError as error:
            event = LogEvent(env_id=self.id, name="reset_failed", payload=error.to_data())
            result.requests = (*result.requests, event)
            return result
        except BaseException:
            self.referee.owe(result.requests)
            raise

    def stating(self) -> Flow[Any]:
        try:
            state = getattr(self.unwrapped, "state", None)
            state = (yield state) if callable(state) else state
        except NotImplementedError:  # PettingZoo's way to say that there is none
            state = None
        except BaseException as error:
            self._raise("state", error)
        if state is None:
            return self.referee.state()
        if isinstance(state, State) and state.episode_id is None:  # known here, where the environment was not told
            return replace(state, episode_id=self.referee.episode_id)
        return state

    def rendering(self) -> Flow[Any]:
        return (yield from self._asking("render"))

    def snapshotting(self) -> Flow[Snapshot]:
        self.referee.admit_reset()
        return Snapshot((yield from self._asking("snapshot")), self.referee.memento())

    def restoring(self, snapshot: Snapshot) -> Flow[None]:
        if not isinstance(snapshot, Snapshot):
            raise UsageError(f"a {type(snapshot).__name__} is not a snapshot", "pass what env.snapshot() gave")
        self.referee.admit_reset()
        yield from self._asking("restore", snapshot.env)
        self.referee.owe(self.referee.abandon())
        self.referee.recall(snapshot.episode)

    def forking(self) -> Flow[tuple[Any, dict[str, Any]]]:
        """A live copy of the environment, or None where it makes none, and where the rules stand."""
        self.referee.admit_reset()
        if not callable(getattr(self.unwrapped, "fork", None)):
            return None, {}
        return (yield from self._asking("fork")), self.referee.memento()

    def tooling(self) -> Flow[Any]:
        """The environment's `tools`, in whatever form it has them; None if it has none."""
        try:
            found = getattr(self.unwrapped, "tools", None)
            return (yield found) if callable(found) else found
        except BaseException as error:
            self._raise("tools", error)

    def using(self, call: Callable[[], Any]) -> Flow[Any]:
        """Call a tool, which is no step: it counts nothing and scores nothing. What it raises, it raises.

        The first call begins an episode, if none was begun yet: whoever has only tools has no other way.
        """
        if self.referee.phase is NEW:
            yield from self.resetting(None, None, None, {})
        if self.referee.phase is OVER:
            raise ResetNeededError(f"the episode of {self.id} is over", "reset it first")
        self.referee.admit_reset()
        return (yield call)

    def closing(self) -> Flow[tuple[Request, ...]]:
        if self.referee.phase is CLOSED:
            return ()
        farewell = self.referee.close()
        try:
            close = getattr(self.unwrapped, "close", None)
            if close is not None:
                yield close
        except BaseException as error:
            self.referee.owe(farewell)
            self._raise("close", error)
        return farewell

    def _asking(self, name: str, *arguments: Any) -> Flow[Any]:
        """Call an optional member, which does not touch the episode."""
        member = self._member(name)
        try:
            return (yield partial(member, *arguments))
        except NotImplementedError:
            raise UnsupportedError(f"{self.id} does not support {name}", f"its `{name}` is not implemented") from None
        except BaseException as error:
            self._raise(name, error)

    # What an exception from environment code means.

    def _stopped(self, what: str, error: BaseException) -> StepResult[Any]:
        """The environment refused the action, or it failed; Ctrl-C goes on up and the end is owed."""
        self._check_open(error)
        if isinstance(error, InvalidActionError):
            self.failure = error
            return self.referee.refuse_action(error)
        failure = self._failed(what, error)
        result = self.referee.abort(failure)
        if isinstance(error, self.passing):
            self.referee.owe(result.requests)
            raise error
        self.failure = failure
        return result

    def checked(self, result: StepResult[Any]) -> StepResult[Any]:
        """For one environment alone a failure is raised; in a batch it is data."""
        failure, self.failure = self.failure, None
        if failure is None:
            return result
        if not isinstance(failure, UsageError):
            failure.requests = result.requests
        raise failure

    def _failed(self, what: str, error: BaseException) -> EnvWeaveError:
        """The error to raise for what environment code raised.

        One of ours stays what it is, but for a usage error: the mistake was made inside, against some other handle.
        """
        if isinstance(error, EnvWeaveError) and not isinstance(error, UsageError):
            return error
        wrapped = EnvError(f"{what} of {self.id} raised {describe(error)}")
        wrapped.__cause__ = error
        return wrapped

    def _raise(self, what: str, error: BaseException) -> NoReturn:
        """Raise a failure outside of a step, with the requests that are due.

        An author may refuse reset's options, what takes an episode where there is none, and what takes a package that
        is not here.
        """
        if isinstance(error, self.passing) or type(error) in (UsageError, ResetNeededError, UnavailableError):
            raise error
        failure = self._failed(what, error)
        failure.requests = self.referee.settle()
        raise failure

    def _check_open(self, error: BaseException | None = None) -> None:
        if self.referee.phase is CLOSED:
            raise ClosedError(f"{self.id} was closed while a call on it was running") from error

    def _transformed(self, raw: Any) -> Any:
        return transformed(self.unwrapped.transform, raw) if self._transforms else raw

    def _member(self, name: str) -> Any:
        try:
            return getattr(self.unwrapped, name)
        except AttributeError:
            raise UnsupportedError(f"{self.id} does not support {name}", f"its class has no `{name}`") from None
        except Exception as error:
            self._raise(name, error)

    def _hand_down(self, twin: Flows) -> None:
        """A transform that was set on this handle holds for its fork; another is for the environment to copy."""
        if self._rescored:
            twin.transform = self.transform

    def fork_name(self) -> str:
        self._forks += 1
        return f"{self.id}.{self._forks}"


def _old_seed_method(env: Any) -> Callable[[int], Any] | None:
    seed = getattr(env, "seed", None)
    return seed if callable(seed) else None
