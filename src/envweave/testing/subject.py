"""What is checked: an ID, a spec, a class, a factory or one instance, opened as often as there can be."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from envweave.build import blueprint
from envweave.core.flows import Blueprint
from envweave.core.handle import AsyncEnvHandle, EnvHandle
from envweave.core.local import LocalEnv
from envweave.core.lookup import load
from envweave.core.spec import EnvSpec
from envweave.core.transform import transformed
from envweave.core.typed import EnvTypes, types_of
from envweave.errors import UsageError
from envweave.multiagent.referee import has_agents
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
            self._plan = blueprint(self.spec, kwargs)
        except UsageError:
            raise
        except Exception as error:  # a module that cannot be imported, of an environment that can be named
            self._plan = Blueprint(functools.partial(_raise, error), _raise)

    def open(self, number: int) -> Player:
        """A player on a new environment, or on the single one. Raises whatever the author's code raises."""
        env = self._plan.build()
        if isinstance(env, AsyncEnvHandle):
            from envweave.core.faces import BridgedEnv  # asyncio, for those handles that need it
            from envweave.core.loop import BACKGROUND

            env = BridgedEnv(env, BACKGROUND)
        if isinstance(env, EnvHandle):
            return Player(env, getattr(env, "unwrapped", None) or env)
        watched = Watched(_waited_for(env), transforms=hasattr(env, "transform"))
        plan = Blueprint(lambda: watched, lambda _, name: self._plan.rules(env, name))
        handle = LocalEnv(plan, f"{self.spec.id}#{number}", watched)
        return Player(handle, env, watched, several=has_agents(env))

    def types(self, env: Any) -> EnvTypes:
        """The types that the spec declares, or the class."""
        found, declared = types_of(env), (self.spec.action_type, self.spec.observation_type)
        action, observation = (load(type_) if isinstance(type_, str) else type_ for type_ in declared)
        return EnvTypes(action or found.action, observation or found.observation)


class Watched:
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
    if not inspect.iscoroutinefunction(env.step):
        return env
    from envweave.core.async_local import Blocking  # asyncio, for those environments that need it

    return Blocking(env)


def _raise(error: Exception, *_: Any) -> Any:
    raise error
