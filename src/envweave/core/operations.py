"""The order of each call on an environment in this process, written once for sync and async environments.

Every operation is a flow (see `flow.py`): it yields the function to call on the environment and receives what that
returned or raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol

from envweave.core.env_types import declared_state, types_of
from envweave.core.environment import DefaultState
from envweave.core.episode_ids import new_episode_id
from envweave.core.flow import Flow
from envweave.core.openenv import OpenEnv
from envweave.core.referee import BUSY, CLOSED, LATE, NEW, OVER, Referee, announce
from envweave.core.reset_signature import ResetSignature
from envweave.core.selection import ChosenTask, TaskList, choose, listing, tasks_of
from envweave.core.spaces import observation_schema
from envweave.core.task import Task, copied
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


class LocalPlan(Protocol):
    """How to build an environment, and to build it again."""

    @property
    def autoreset(self) -> bool: ...

    def build(self) -> Any:
        """A new environment at each call. What it raises is an `EnvError` already."""

    def open(self, id: str, env: Any = None) -> Any:
        """A backend on a new environment, or on one that `build` has made, under an instance ID."""

    def prepared(self, env: Any, source: str) -> Any:
        """The environment, wrapped if it needs to be. Raises `BadResultError`; `source` begins the message."""

    def rules(self, env: Any, id: str) -> Referee:
        """The referee for an environment, under an instance ID."""

    def observation_type(self, env: Any) -> Any:
        """The declared type of the environment's observations, or None."""


class RunningReset(NamedTuple):
    """A reset, from its arguments to what is needed if the environment refuses it."""

    arguments: dict[str, Any]
    episode_id: str
    before: dict[str, Any]
    given_up: tuple[Request, ...]
    task: ChosenTask | None = None


class Operations:
    """One environment with its referee, and the order of each call.

    A `step` or `respond` that fails raises an error whose `result` is the unscored result of that step.
    """

    __slots__ = (
        "_autoreset", "_plan", "_rescored", "_signature", "_step", "_transforms", "ended", "env", "id", "referee",
    )  # fmt: skip

    passing: ClassVar[tuple[type[BaseException], ...]] = (KeyboardInterrupt,)
    """Exceptions that are meant for the whole program and are not converted to `EnvError`."""

    def __init__(self, plan: LocalPlan, id: str, env: Any) -> None:
        self.id = id
        self._plan = plan
        self._autoreset = plan.autoreset
        self._rescored = False
        """The transform was set here, and is not the one that the environment was built with."""
        self.ended: StepResult[Any] | None = None
        """The last result of an episode while the next one is being reset: a reset that hangs must not lose it."""
        self._use(env)
        self._follow_rules(plan.rules(env, id))

    def _follow_rules(self, referee: Referee) -> None:
        self.referee = referee

    def _use(self, env: Any) -> None:
        self.env = env
        self._signature = ResetSignature(env.reset, _old_seed_method(env))
        self._step = env.step
        self._transforms = hasattr(env, "transform") and not self._applies_transform

    @property
    def episode(self) -> Referee:
        return self.referee

    @property
    def multi_agent(self) -> bool:
        return self.referee.multi_agent

    @property
    def transform(self) -> Transform | None:
        return getattr(self.env, "transform", None)

    @transform.setter
    def transform(self, transform: Transform | None) -> None:
        check_transform(transform)
        try:
            self.env.transform = transform
        except AttributeError as error:
            hint = "give its class an attribute `transform`, or put the environment into one that has it"
            raise UsageError(f"{self.id} takes no transform: {error}", hint) from None
        self._transforms = not self._applies_transform
        self._rescored = True

    @property
    def _applies_transform(self) -> bool:
        return bool(getattr(self.env, "applies_transform", False))

    @property
    def takes_seed(self) -> bool:
        """False if the environment takes no seed and so must behave the same without."""
        return self._signature.takes_seed or self.tasks is not None

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        return self.referee.schema(agent_id)

    def observation_schema(self) -> dict[str, Any] | None:
        """As a client needs it to build observations: by type, or by Gymnasium space; None if neither is known."""
        return observation_schema_of(self.env, self._plan.observation_type(self.env))

    def state_schema(self) -> dict[str, Any] | None:
        """As a client needs it to build states; None if the environment does not say what its state is."""
        from envweave.core.schema import full_schema  # pydantic, loaded with the first typed environment

        declared = types_of(self.env).state or declared_state(self.env.__class__)
        if declared is None and self._own_state() is None:
            declared = State
        return None if declared is None else full_schema(declared)

    def check_reset(self, arguments: dict[str, Any]) -> None:
        """Raise the `UsageError` that a reset with these arguments would raise."""
        own = self._signature.arguments(arguments)
        if self._signature.takes_task:
            self._choose_task(own, arguments.get("seed"))

    def check_response(self, request_id: str) -> None:
        self.referee.admit_reply(request_id)

    def resetting(self, data: dict[str, Any]) -> Flow[ResetResult[Any]]:
        reset = self._begin_reset(data)
        try:
            self._signature.prepare(data.get("seed"))
            return self._finish_reset(reset, (yield partial(self.env.reset, **reset.arguments)))
        except BaseException as error:
            self._fail_reset(reset, error)

    def _begin_reset(self, data: dict[str, Any]) -> RunningReset:
        """Check the arguments and give up the current episode. Raises `UsageError` and changes nothing."""
        referee, signature = self.referee, self._signature
        referee.admit_reset()
        arguments = signature.arguments(data)
        task = self._choose_task(arguments, data.get("seed")) if signature.takes_task else None
        episode_id = data.get("episode_id") or new_episode_id()
        if signature.names_episode_id:
            arguments["episode_id"] = episode_id
        before = {"phase": OVER, "episode_id": referee.episode_id} if referee.phase is OVER else referee.save_episode()
        return RunningReset(arguments, episode_id, before, referee.begin_reset(), task)

    def _choose_task(self, arguments: dict[str, Any], seed: Any) -> ChosenTask | None:
        """Put the task of the next episode into the arguments of reset; None if it has none, or none that is known."""
        tasks, given = self.tasks, arguments.get("task")
        if tasks is not None:
            try:
                arguments["task"], chosen = choose(tasks, given, seed, self.referee.task)
            except EnvWeaveError:
                raise
            except Exception as error:  # tasks may be made by functions of the author's
                self._raise("tasks", error)
            return chosen
        if given is None and self._signature.needs_task and "task" not in arguments:
            raise UsageError("reset needs 'task'", "env.reset(task=…)")
        if not isinstance(given, Mapping):
            return None
        arguments["task"] = task = Task(copied(given))
        return ChosenTask(task.id)

    def _finish_reset(self, reset: RunningReset, raw: Any) -> ResetResult[Any]:
        """Begin the episode with what the environment returned."""
        self._check_open()
        result = self.referee.open(raw, reset.episode_id)
        self.referee.task = reset.task
        if reset.task is not None:
            result.info = self.referee.with_task_id(result.info)
        if self.referee.undelivered:
            result.requests = (*self.referee.take_undelivered(), *result.requests)
        return result

    def _fail_reset(self, reset: RunningReset, error: BaseException) -> NoReturn:
        """Raise what became of a reset that failed."""
        self._check_open(error)
        if type(error) in (UsageError, UnavailableError):  # the author refuses, and says that nothing has changed
            self.referee.load_episode(reset.before)
            for end in reset.given_up:
                self.referee.undelivered.remove(end)
            raise error
        self.referee.phase = OVER
        self.referee.task = reset.task  # the next draw is another one, in case this task cannot be played
        self._raise("reset", error)

    def stepping(self, action: Any) -> Flow[StepResult[Any]]:
        return (yield from self.advancing(self.referee.admit(action)))

    def advancing(self, native: Any) -> Flow[StepResult[Any]]:
        """Step with an admitted action."""
        if native is LATE:
            return (yield from self.following(self.referee.expire()))
        self.referee.check_running()
        self.referee.phase = BUSY
        try:
            raw = yield partial(self._step, native)
            self._check_open()
            result = self.referee.conclude(self._transformed(raw))
        except BaseException as error:
            self._stopped("step", error)
        return (yield from self.following(result))

    def responding(self, data: dict[str, Any]) -> Flow[StepResult[Any]]:
        request_id: str = data["request_id"]
        call = self.referee.admit_reply(request_id)
        respond = self._member("respond")
        if self.referee.late():
            return (yield from self.following(self.referee.expire()))
        del self.referee.tool_calls[request_id]
        self.referee.phase = BUSY
        try:
            raw = yield partial(respond, request_id, data.get("value"))
            self._check_open()
            result = self.referee.resume(None if raw is None else self._transformed(raw))
        except BaseException as error:
            if isinstance(error, InvalidActionError):
                self.referee.tool_calls[request_id] = call
            self._stopped("respond", error)
        return (yield from self.following(result))

    def following(self, result: StepResult[Any]) -> Flow[StepResult[Any]]:
        """Begin the next episode if this one is over and autoreset is on. If that fails, the result is kept."""
        if not self._autoreset or self.referee.phase is not OVER:
            return result
        self.ended = result
        try:
            reset = yield from self.resetting({})
        except BaseException as error:
            return self._unfollowed(result, error)
        finally:
            self.ended = None
        return announce(result, reset, self.id, self.referee.episode_id)

    def _unfollowed(self, result: StepResult[Any], error: BaseException) -> StepResult[Any]:
        """The last result of an episode whose successor could not begin. Raises what is meant for the program."""
        if not isinstance(error, EnvWeaveError):
            self.referee.keep_ends(result.requests)
            raise error
        event = LogEvent(env_id=self.id, name="reset_failed", payload=error.to_data())
        result.requests = (*result.requests, event)
        return result

    def stating(self) -> Flow[Any]:
        try:
            state = self._own_state()
            state = (yield state) if callable(state) else state
        except NotImplementedError:  # how PettingZoo says that there is none
            state = None
        except BaseException as error:
            self._raise("state", error)
        return self.referee.state() if state is None else _with_episode_id(state, self.referee.episode_id)

    def _own_state(self) -> Any:
        """The author's `state`, which may be a method; None if there is none."""
        has_default = isinstance(getattr(type(self.env), "state", None), DefaultState)
        if has_default and "state" not in getattr(self.env, "__dict__", {}):
            return None
        return getattr(self.env, "state", None)

    def rendering(self) -> Flow[Any]:
        return (yield from self._asking("render"))

    def tooling(self) -> Flow[Any]:
        """The environment's `tools`, in whatever form it has them; None if it has none."""
        try:
            found = getattr(self.env, "tools", None)
            return (yield found) if callable(found) else found
        except BaseException as error:
            self._raise("tools", error)

    @property
    def tasks(self) -> TaskList | None:
        """The environment's tasks; None if it has none, or a `reset` that takes none."""
        if not self._signature.takes_task:
            return None
        try:
            return tasks_of(self.env)
        except Exception as error:  # a property of the author's
            self._raise("tasks", error)

    def listing_tasks(self, data: Any) -> Flow[dict[str, Any]]:
        """A part of the list of tasks, see `listing`."""
        tasks = self.tasks
        if tasks is None:
            raise UnsupportedError(f"{self.id} has no tasks", "its class has no `tasks`, or its reset takes no `task`")
        try:
            listed: dict[str, Any] = yield partial(listing, tasks, data or {})
        except EnvWeaveError:
            raise
        except BaseException as error:
            self._raise("tasks", error)
        return listed

    def beginning(self) -> Flow[None]:
        """Begin an episode for a driver that steps without having reset.

        An environment of OpenEnv's is not reset: what a first step means is its own matter, as on OpenEnv's server.
        """
        if isinstance(self.env, OpenEnv) and not self.multi_agent:
            self.referee.open_unreset(new_episode_id())
        else:
            yield from self.resetting({})

    def using(self, call: Callable[[], Any]) -> Flow[Any]:
        """Call a tool, which is not a step: it is not counted and not scored. What the tool raises is raised.

        The first call begins an episode if there was none, because a client that only calls tools cannot reset.
        """
        if self.referee.phase is NEW:
            yield from self.resetting({})
        if self.referee.phase is OVER:
            raise ResetNeededError(f"the episode of {self.id} is over", "reset it first")
        self.referee.admit_reset()
        return (yield call)

    def closing(self) -> Flow[tuple[Request, ...]]:
        if self.referee.phase is CLOSED:
            return self.referee.take_undelivered()
        ends = self.referee.close()
        try:
            close = getattr(self.env, "close", None)
            if close is not None:
                yield close
        except BaseException as error:
            self.referee.keep_ends(ends)
            self._raise("close", error)
        return ends

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

    def _stopped(self, what: str, error: BaseException) -> NoReturn:
        """The environment refused the action or failed: raise the error, with the result of the step."""
        self._check_open(error)
        if isinstance(error, InvalidActionError):
            error.result, error.by_environment = self.referee.refuse_action(error), True
            raise error
        failure = self._failed(what, error)
        result = self.referee.abort(failure)
        if isinstance(error, self.passing):
            self.referee.keep_ends(result.requests)
            raise error
        failure.requests, failure.result = result.requests, result
        raise failure

    def _failed(self, what: str, error: BaseException) -> EnvWeaveError:
        """The error to raise for what environment code raised.

        One of ours is kept, except a usage error: that mistake was made inside, against some other handle.
        """
        if isinstance(error, EnvWeaveError) and not isinstance(error, UsageError):
            return error
        wrapped = EnvError(f"{what} of {self.id} raised {describe(error)}")
        wrapped.__cause__ = error
        return wrapped

    def _raise(self, what: str, error: BaseException) -> NoReturn:
        """Raise a failure outside of a step, with the requests that are due.

        An author may refuse the options of reset, a call that needs an episode, and one that needs a package; a limit
        of forks is a refusal too.
        """
        refusals = (UsageError, ResetNeededError, UnavailableError)
        is_limit = what in ("fork", "snapshot") and isinstance(error, UnsupportedError)
        if isinstance(error, self.passing) or type(error) in refusals or is_limit:
            raise error
        failure = self._failed(what, error)
        failure.requests = self.referee.take_undelivered()
        raise failure

    def _check_open(self, error: BaseException | None = None) -> None:
        if self.referee.phase is CLOSED:
            raise ClosedError(f"{self.id} was closed while a call on it was running") from error

    def _transformed(self, raw: Any) -> Any:
        return transformed(self.env.transform, raw) if self._transforms else raw

    def _has(self, name: str) -> bool:
        return callable(getattr(self.env, name, None))

    def _member(self, name: str) -> Any:
        try:
            return getattr(self.env, name)
        except AttributeError:
            raise UnsupportedError(f"{self.id} does not support {name}", f"its class has no `{name}`") from None
        except Exception as error:
            self._raise(name, error)


def observation_schema_of(env: Any, type_: Any) -> dict[str, Any] | None:
    """The schema of an environment's observations by its Gymnasium space, else by their type; by agent for several."""
    space = getattr(env, "observation_space", None)
    agents = getattr(env, "possible_agents", None) or getattr(env, "agents", None)
    if callable(space) and isinstance(agents, list | tuple):
        return {"type": "object", "x-agents": {agent: observation_schema(space(agent)) for agent in agents}}
    if callable(getattr(space, "contains", None)):
        return observation_schema(space)
    if type_ is None:
        return None
    from envweave.core.schema import full_schema  # pydantic, loaded with the first typed environment

    return full_schema(type_)


def _with_episode_id(state: Any, episode_id: str | None) -> Any:
    """The state with the ID by which requests name the episode, if it has a field for it."""
    if episode_id is None or getattr(state, "episode_id", episode_id) == episode_id:
        return state
    if is_dataclass(state) and any(each.name == "episode_id" for each in fields(state)):
        return replace(state, episode_id=episode_id)  # type: ignore[type-var]
    copy = getattr(state, "model_copy", None)  # the state of an OpenEnv environment is a pydantic model
    return copy(update={"episode_id": episode_id}) if callable(copy) else state


def _old_seed_method(env: Any) -> Callable[[int], Any] | None:
    seed = getattr(env, "seed", None)
    return seed if callable(seed) else None
