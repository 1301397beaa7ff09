"""Handles on an environment in this process.

The way of each call is written once, as a flow: a generator that yields what is to be called on the environment and
gets back what that returned or raised. `LocalEnv` runs flows by calling, `AsyncLocalEnv` by awaiting.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, TypeAlias, TypeVar

from envweave.core.calls import ResetCall
from envweave.core.handle import AsyncEnvHandle, EnvHandle
from envweave.core.referee import BUSY, CLOSED, OVER, Referee
from envweave.core.transform import transformed
from envweave.errors import EnvError, EnvWeaveError, UnsupportedError, UsageError
from envweave.requests import LogEvent, Request
from envweave.results import ResetResult, StepResult

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
    """One environment with its referee, and the way of each call."""

    __slots__ = (
        "_autoreset", "_blueprint", "_forks", "_reset_call", "_step", "_transforms", "failure", "id", "referee",
        "unwrapped",
    )  # fmt: skip

    def __init__(self, blueprint: Blueprint, id: str, env: Any) -> None:
        self.id = id
        self.unwrapped = env
        self.referee = blueprint.rules(env, id)
        self.failure: EnvWeaveError | None = None
        """Why the last step has no score, or None."""
        self._blueprint = blueprint
        self._autoreset = blueprint.autoreset
        self._reset_call = ResetCall(env.reset, _old_seed_method(env))
        self._step = env.step
        self._transforms = hasattr(env, "transform")
        self._forks = 0

    @property
    def pending(self) -> tuple[Request, ...]:
        return self.referee.asked

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
        self.referee.admit_reset()
        arguments = self._reset_call.arguments(seed, options, episode_id, own)
        given_up = self.referee.abandon()
        self.referee.phase = BUSY
        try:
            self._reset_call.prepare(seed)
            result = self.referee.open((yield partial(self.unwrapped.reset, **arguments)), episode_id)
        except BaseException as error:
            self.referee.phase = OVER
            self._raise("reset", error, given_up)
        if given_up:
            result.requests = (*given_up, *result.requests)
        return result

    def stepping(self, action: Any) -> Flow[StepResult[Any]]:
        native = self.referee.admit(action)
        if self.referee.late():
            return (yield from self.following(self.referee.expire()))
        self.referee.phase = BUSY
        try:
            raw = yield partial(self._step, native)
            if self._transforms:
                raw = transformed(self.unwrapped.transform, raw)
            result = self.referee.conclude(raw)
        except BaseException as error:
            return self._checked(self._stopped(error))
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
            if self._transforms and raw is not None:
                raw = transformed(self.unwrapped.transform, raw)
            result = self.referee.resume(raw)
        except BaseException as error:
            if isinstance(error, UsageError):
                self.referee.tool_calls[request_id] = call
            return self._checked(self._stopped(error))
        return (yield from self.following(result))

    def following(self, result: StepResult[Any]) -> Flow[StepResult[Any]]:
        """Begin the next episode if this one is over and autoreset is on."""
        if not self._autoreset or self.referee.phase is not OVER:
            return result
        try:
            return self.referee.announce(result, (yield from self.resetting(None, None, None, {})))
        except EnvWeaveError as error:  # the result of this episode must not be lost over the next
            event = LogEvent(env_id=self.id, name="reset_failed", payload=error.to_data())
            result.requests = (*result.requests, event)
            return result

    def stating(self) -> Flow[Any]:
        state = getattr(self.unwrapped, "state", None)
        if callable(state):
            try:
                state = yield state
            except NotImplementedError:  # PettingZoo's way to say that there is none
                state = None
            except BaseException as error:
                self._raise("state", error)
        return self.referee.state() if state is None else state

    def rendering(self) -> Flow[Any]:
        return (yield from self._asking("render"))

    def snapshotting(self) -> Flow[Snapshot]:
        self.referee.admit_reset()
        return Snapshot((yield from self._asking("snapshot")), self.referee.memento())

    def restoring(self, snapshot: Snapshot) -> Flow[None]:
        self.referee.admit_reset()
        yield from self._asking("restore", snapshot.env)
        self.referee.recall(snapshot.episode)

    def _asking(self, name: str, *arguments: Any) -> Flow[Any]:
        """Call an optional member, which does not touch the episode."""
        member = self._member(name)
        try:
            return (yield partial(member, *arguments))
        except NotImplementedError:
            raise UnsupportedError(f"{self.id} does not support {name}", f"its `{name}` is not implemented") from None
        except BaseException as error:
            self._raise(name, error)

    def closing(self) -> Flow[tuple[Request, ...]]:
        if self.referee.phase is CLOSED:
            return ()
        farewell = self.referee.close()
        close = getattr(self.unwrapped, "close", None)
        if close is not None:
            try:
                yield close
            except BaseException as error:
                self._raise("close", error, farewell)
        return farewell

    # What an exception from environment code means.

    def _failed(self, what: str, error: BaseException) -> EnvWeaveError:
        """The error to raise for what environment code raised; one of ours stays what it is."""
        if isinstance(error, EnvWeaveError):
            return error
        wrapped = EnvError(f"{what} of {self.id} raised {type(error).__name__}: {error}")
        wrapped.__cause__ = error
        return wrapped

    def _stopped(self, error: BaseException) -> StepResult[Any]:
        """A step that raised: the environment refused the action, or it failed. Ctrl-C and cancellation go on up."""
        failure = self._failed("step", error)
        result = self.referee.refuse_action(error) if isinstance(error, UsageError) else self.referee.abort(failure)
        if not isinstance(error, Exception | SystemExit):
            raise error
        self.failure = failure
        return result

    def _checked(self, result: StepResult[Any]) -> StepResult[Any]:
        """For one environment alone a failure is raised; in a batch it is data."""
        failure, self.failure = self.failure, None
        if failure is None:
            return result
        if isinstance(failure, EnvError):
            failure.requests = result.requests
        raise failure

    def _raise(self, what: str, error: BaseException, requests: tuple[Request, ...] = ()) -> NoReturn:
        """Raise a failure outside of a step together with the requests that are due."""
        if not isinstance(error, Exception | SystemExit):
            raise error
        failure = self._failed(what, error)
        if isinstance(failure, EnvError):
            failure.requests = requests
        raise failure

    def _member(self, name: str) -> Any:
        try:
            return getattr(self.unwrapped, name)
        except AttributeError:
            raise UnsupportedError(f"{self.id} does not support {name}", f"its class has no `{name}`") from None

    def _fork_parts(self) -> tuple[Blueprint, str, Any]:
        self._forks += 1
        return self._blueprint, f"{self.id}.{self._forks}", self._blueprint.build()


def run(flow: Flow[T]) -> T:
    """Do what a flow asks for, by calling."""
    try:
        call = next(flow)
        while True:
            try:
                value = call()
            except BaseException as error:
                call = flow.throw(error)
            else:
                call = flow.send(value)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


class LocalEnv(Flows, EnvHandle[Any]):
    """A handle on a sync environment. Calls go straight to it: no thread, no loop, no copy."""

    __slots__ = ()

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[Any]:
        return run(self.resetting(seed, options, episode_id, own))

    def step(self, action: Any) -> StepResult[Any]:
        result = self.advance(self.referee.admit(action))
        return result if self.failure is None else self._checked(result)

    def advance(self, native: Any) -> StepResult[Any]:
        """Step with an admitted action; what goes wrong becomes part of the result and is kept in `failure`.

        The same as `stepping`, without the microsecond that a generator costs.
        """
        referee = self.referee
        if referee.due is not None and referee.late():
            return run(self.following(referee.expire()))
        referee.phase = BUSY
        try:
            raw = self._step(native)
            if self._transforms and self.unwrapped.transform is not None:
                raw = transformed(self.unwrapped.transform, raw)
            result = referee.conclude(raw)
        except BaseException as error:
            return self._stopped(error)
        return run(self.following(result)) if referee.phase is OVER else result

    def respond(self, request_id: str, value: Any) -> StepResult[Any]:
        return run(self.responding(request_id, value))

    def state(self) -> Any:
        return run(self.stating())

    def render(self) -> Any:
        return run(self.rendering())

    def snapshot(self) -> Snapshot:
        return run(self.snapshotting())

    def restore(self, snapshot: Snapshot) -> None:
        run(self.restoring(snapshot))

    def fork(self) -> LocalEnv:
        snapshot = self.snapshot()
        twin = LocalEnv(*self._fork_parts())
        twin.restore(snapshot)
        return twin

    def close(self) -> tuple[Request, ...]:
        return run(self.closing())

    def ghost(self) -> LocalEnv:
        """What is left of a handle that is lost in a call: its episode is over, and it shares nothing that changes."""
        ghost = copy(self)
        ghost.referee = copy(self.referee)
        ghost.referee.phase = OVER
        ghost.unwrapped = None
        return ghost

    @property
    def aio(self) -> AsyncEnvHandle[Any]:
        from envweave.core.faces import ThreadedEnv  # asyncio, loaded for those who await

        return ThreadedEnv(self)


def _old_seed_method(env: Any) -> Callable[[int], Any] | None:
    seed = getattr(env, "seed", None)
    return seed if callable(seed) else None
