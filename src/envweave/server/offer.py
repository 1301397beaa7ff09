"""What a server serves: one kind of environment, and what is known of it before any is built."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from envweave.chat import Chat
from envweave.core.env_types import EnvTypes, is_bare_base, made_by, types_of
from envweave.core.lookup import load
from envweave.core.schema import json_schema
from envweave.core.spec import EnvSpec
from envweave.core.tool_actions import rule_for_tools, tool_actions
from envweave.errors import UnsupportedError, UsageError
from envweave.multiagent.referee import has_agents
from envweave.plan import EnvPlan
from envweave.server.settings import Settings
from envweave.types import State

ANYTHING: dict[str, Any] = {}
"""The JSON Schema that fits every value."""


class Offer:
    """An environment's factory with its name, its types and the rules it is played by."""

    def __init__(self, spec: EnvSpec, state_type: Any = None) -> None:
        self.spec = spec
        self._state_type = state_type
        self._class = made_by(spec.loaded())
        self.instance: Any = None
        """The one environment, where the server was given one instead of a factory."""
        self._sample: Any = self._class
        """The best example of the environment there is: the class, later an instance."""
        self._told_schema: dict[str, Any] | None = None
        self._told_agents = False
        self._plan: EnvPlan | None = None

    @classmethod
    def of(cls, env: Any, action_type: Any, observation_type: Any, state_type: Any, name: str | None) -> Offer:
        """From whatever a user has: an instance, a class, a function that makes one, or a spec."""
        if isinstance(env, EnvSpec):
            given = {"action_type": action_type, "observation_type": observation_type}
            return cls(replace(env, **{k: v for k, v in given.items() if v is not None}), state_type)
        is_instance = callable(getattr(env, "step", None)) and not isinstance(env, type)
        if not is_instance and not callable(env):
            raise UsageError(f"a {type(env).__name__} is not an environment", "pass a class, a function or an instance")
        factory = (lambda: env) if is_instance else env
        called = str(name or getattr(type(env) if is_instance else env, "__name__", "environment"))
        text = inspect.cleandoc((type(env) if is_instance else env).__doc__ or "").partition("\n")[0]
        types = {"action_type": action_type, "observation_type": observation_type}
        offer = cls(EnvSpec(id=called, factory=factory, description=text, **types), state_type)
        if is_instance:
            offer.instance = offer._sample = env
        return offer

    @property
    def name(self) -> str:
        return self.spec.id

    def plan(self, arguments: dict[str, Any], *, autoreset: bool, chat: Chat | None = None, **limits: Any) -> EnvPlan:
        if arguments or autoreset or chat is not None or any(limits.values()):
            return EnvPlan(self.limited(limits), arguments, autoreset, chat=chat).check()
        if self._plan is None:  # what most sessions want
            self._plan = EnvPlan(self.spec).check()
        return self._plan

    def limited(self, limits: dict[str, Any]) -> EnvSpec:
        """The spec with a client's own deadline and length of an episode, where it has any."""
        given = {key: value for key, value in limits.items() if value is not None}
        return replace(self.spec, **given) if given else self.spec

    def learn(self, env: Any) -> None:
        """Look at a built environment; a function does not tell in advance what it makes."""
        if self._sample is None or isinstance(self._sample, type):
            self._sample = env

    def learn_facts(self, facts: dict[str, Any]) -> None:
        """The same of one that lives in another process."""
        self._told_schema, self._told_agents = facts["action_schema"], facts["multi_agent"]

    @property
    def multi_agent(self) -> bool:
        """Whether actions and results are dicts by agent, as far as that is known."""
        built = self._sample is not None and not isinstance(self._sample, type)
        return has_agents(self._sample) if built else self._told_agents

    @property
    def concurrent(self) -> bool:
        """Whether several instances may live in one process."""
        return self.instance is None and bool(getattr(self._sample, "SUPPORTS_CONCURRENT_SESSIONS", True))

    @property
    def single_thread(self) -> bool | None:
        """OpenEnv's way to say that all calls must come from one thread. None if no environment was seen yet."""
        return None if self._sample is None else bool(getattr(self._sample, "REQUIRES_SINGLE_THREAD_EXECUTOR", False))

    @property
    def operator_options(self) -> frozenset[str]:
        """Arguments that are the operator's to choose."""
        return frozenset(getattr(self._sample, "OPERATOR_OPTIONS", ()))

    def preferred(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings, with room for messages as long as the environment expects them, unless they say otherwise."""
        wanted = int(getattr(self._class, "MESSAGE_BYTES", 0))
        if settings.get("max_message_bytes") is not None or wanted <= Settings.max_message_bytes:
            return {name: value for name, value in settings.items() if name != "max_message_bytes" or value is not None}
        frames = max(wanted, settings.get("max_frame_bytes", Settings.max_frame_bytes))
        return {**settings, "max_message_bytes": wanted, "max_frame_bytes": frames}

    def may_have(self, member: str) -> bool:
        """Whether the environment has an optional member, as far as that can be told."""
        return self._sample is None or hasattr(self._sample, member)

    def reset_options(self) -> tuple[list[str], bool]:
        """What `reset` takes by name, and whether it takes anything else besides."""
        try:
            parameters = inspect.signature(self._sample.reset).parameters.values()
        except (AttributeError, TypeError, ValueError):
            return [], True
        named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "self"]
        return named, "options" in named or any(p.kind is p.VAR_KEYWORD for p in parameters)

    @property
    def _declared(self) -> Any:
        """The type of actions, as it was given or as the class says; None if neither says more than `Action`."""
        given = self.spec.action_type
        given = load(given) if isinstance(given, str) else given
        own = types_of(self._sample).action if self._sample is not None else None
        return own if given is None or is_bare_base(given) else given

    def action_schema(self) -> dict[str, Any] | None:
        """As a handle's `action_schema()` gives it: None if the environment takes anything."""
        if self._sample is None or isinstance(self._sample, type):  # none was built yet, or it lives in another process
            if self._told_schema is not None:
                return self._told_schema
            actions, declared = tool_actions(self._sample or object, self._declared), self._declared
            return _schema(declared) or None if actions is None else rule_for_tools(actions, declared).schema
        return self.plan({}, autoreset=False).rules(self._sample, self.name).schema()

    def schemas(self) -> dict[str, Any]:
        """The JSON Schemas of `/schema`; `{}` where nothing is known."""
        types = types_of(self._sample) if self._sample is not None else EnvTypes()
        observation = _schema(self.spec.observation_type or types.observation)
        # By the declared type, clients of OpenEnv tell whether an environment is played by tools or by its own actions.
        with_tools = tool_actions(self._sample or object, self._declared) is not None
        declared = _schema(self._declared) if with_tools else ANYTHING
        return {
            "action": declared or self.action_schema() or ANYTHING,
            "observation": observation,
            "state": _schema(self._state_type or State),
            "reset_observation": observation,
        }


def _schema(type_: Any) -> dict[str, Any]:
    if type_ in (None, Any, object):
        return ANYTHING
    if isinstance(type_, dict):  # by agent
        return {"type": "object", "properties": {agent: _schema(one) for agent, one in type_.items()}}
    return json_schema(type_) or ANYTHING


def check_settings(offer: Offer, isolation: str, max_sessions: int | None) -> None:
    """Refuse at the start what could not work later."""
    if offer.instance is not None and isolation == "process":
        raise UnsupportedError("an instance cannot be moved to another process", "pass its class or a function")
    if max_sessions is not None and max_sessions > 1 and isolation == "thread" and not offer.concurrent:
        raise UsageError(
            f"{max_sessions} sessions, but instances of {offer.name} disturb each other in one process",
            "use isolation='process', or set SUPPORTS_CONCURRENT_SESSIONS = True if they do not",
        )
