"""What is checked: an ID, a spec, a class, a factory or one instance, opened as often as there can be."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from envweave.core.env_types import EnvTypes, is_bare_base, types_of
from envweave.core.handle import AsyncEnvHandle, EnvHandle
from envweave.core.local import open_local
from envweave.core.lookup import load
from envweave.core.operations import LocalPlan
from envweave.core.referee import Referee
from envweave.core.spec import EnvSpec
from envweave.core.transform import transformed
from envweave.errors import UsageError
from envweave.multiagent.referee import has_agents
from envweave.plan import EnvPlan
from envweave.registry.make import spec
from envweave.testing.episode import NOTHING
from envweave.testing.play import Player


class Subject:
    """Opens players on the environment under check; `single` if there is only the one that was given."""

    def __init__(self, target: Any, kwargs: dict[str, Any]) -> None:
        """Raise the `UsageError` of a wrong ID or argument; all else that is wrong is for the checks to find."""
        self.target = target
        self.single = not isinstance(target, str | EnvSpec) and not _makes(target)
        if self.single and kwargs:
            named = ", ".join(kwargs)
            raise UsageError(f"{named} for an environment that is made already", "pass its class or factory instead")
        self.spec = EnvSpec(id=_name(target))
        try:
            self.spec = _spec(target, single=self.single)
            self._plan: LocalPlan = EnvPlan(self.spec, kwargs).check()
        except UsageError:
            raise
        except Exception as error:  # a module that cannot be imported, of an environment that can be named
            self._plan = BrokenPlan(error)

    def open(self, number: int) -> Player:
        """A player on a new environment, or on the single one. Raises whatever the author's code raises."""
        env = self._plan.build()
        if isinstance(env, AsyncEnvHandle):
            env = env.sync
        if isinstance(env, EnvHandle):
            return Player(env, env.unwrapped or env)
        watched = WatchedEnv(_waited_for(env), transforms=hasattr(env, "transform"))
        backend = open_local(WatchedPlan(self._plan, env), f"{self.spec.id}#{number}", watched)
        return Player(EnvHandle(backend, self.spec), env, watched, several=has_agents(env))

    def types(self, env: Any) -> EnvTypes:
        """The types that the spec declares, or the class."""
        found, declared = types_of(env), (self.spec.action_type, self.spec.observation_type)
        loaded = (load(type_) if isinstance(type_, str) else type_ for type_ in declared)
        action, observation = (None if is_bare_base(type_) else type_ for type_ in loaded)
        return EnvTypes(action or found.action, observation or found.observation)


class BrokenPlan:
    """The plan of an environment that cannot be imported."""

    autoreset = False

    def __init__(self, error: Exception) -> None:
        self._error = error

    def build(self) -> Any:
        raise self._error

    def open(self, id: str, env: Any = None) -> Any:
        raise self._error

    def prepared(self, env: Any, source: str) -> Any:
        raise self._error

    def rules(self, env: Any, id: str) -> Referee:
        raise self._error

    def observation_type(self, env: Any) -> Any:
        raise self._error


class WatchedPlan:
    """The rules of an environment for the `WatchedEnv` around it. It is built once."""

    autoreset = False

    def __init__(self, plan: LocalPlan, env: Any) -> None:
        self._plan = plan
        self._env = env

    def build(self) -> Any:
        return self._plan.build()

    def open(self, id: str, env: Any = None) -> Any:
        return open_local(self, id, env)

    def prepared(self, env: Any, source: str) -> Any:
        return self._plan.prepared(env, source)

    def rules(self, env: Any, id: str) -> Referee:
        return self._plan.rules(self._env, id)

    def observation_type(self, env: Any) -> Any:
        return self._plan.observation_type(self._env)


class WatchedEnv:
    """Passes everything on to an environment and keeps what the author's code returned last."""

    transform = None
    """Applied here, where its failure can be seen, and not again by the handle."""

    def __init__(self, env: Any, *, transforms: bool) -> None:
        self._env = env
        self.raw: Any = NOTHING
        """NOTHING while a call runs and after one that raised."""
        self.transform_failure: Exception | None = None
        self.reset = self._noting(env.reset)
        self.step = self._noting(env.step, transform=transforms)
        if callable(getattr(env, "respond", None)):
            self.respond = self._noting(env.respond, transform=transforms)

    def __getattr__(self, name: str) -> Any:
        if name == "_env":  # not set yet: the object is being copied
            raise AttributeError(name)
        return getattr(self._env, name)

    def _noting(self, method: Callable[..., Any], *, transform: bool = False) -> Callable[..., Any]:
        @functools.wraps(method)
        def noting(*args: Any, **kwargs: Any) -> Any:
            self.raw = NOTHING
            raw = method(*args, **kwargs)
            if transform and raw is not None and self._env.transform is not None:
                raw = transformed(self._transform, raw)
            self.raw = raw
            return raw

        return noting

    def _transform(self, observation: Any) -> Any:
        try:
            return self._env.transform(observation)
        except Exception as error:  # the framework makes an unscored step of it, which would hide it from us
            self.transform_failure = error
            raise


def _makes(target: Any) -> bool:
    """True for a class and for a function; an instance may be callable too, but has `reset` or `step`."""
    return isinstance(target, type) or (
        callable(target) and not hasattr(target, "reset") and not hasattr(target, "step")
    )


def _spec(target: Any, *, single: bool) -> EnvSpec:
    if isinstance(target, str | EnvSpec):
        return spec(target)
    return EnvSpec(id=_name(target), factory=(lambda: target) if single else target)


def _name(target: Any) -> str:
    if isinstance(target, str | EnvHandle | AsyncEnvHandle):
        return target if isinstance(target, str) else target.id
    if isinstance(target, EnvSpec):
        return target.id
    name = str(getattr(target, "__name__", type(target).__name__))
    return "environment" if "<" in name else name


def _waited_for(env: Any) -> Any:
    return Blocking(env) if inspect.iscoroutinefunction(env.step) else env


class Blocking:
    """An async environment for a caller that can only wait; its coroutines run on the background loop."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        if name == "_env":  # not set yet: the object is being copied
            raise AttributeError(name)
        member = getattr(self._env, name)
        if not inspect.iscoroutinefunction(member):
            return member
        from envweave.core.loop import BACKGROUND  # asyncio, for those environments that need it

        @functools.wraps(member)
        def wait(*args: Any, **kwargs: Any) -> Any:
            return BACKGROUND.run(member(*args, **kwargs))

        return wait
