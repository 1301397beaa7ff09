"""Typed values on this side, JSON data on the wire."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from envweave.chat import ChatObservation
from envweave.core.jsonable import to_json, to_sendable
from envweave.core.spaces import array_reader
from envweave.errors import InvalidActionError, NotJSONableError, ProtocolError, UsageError
from envweave.requests import AutoresetReady
from envweave.results import ResetResult, StepResult
from envweave.types import State
from envweave.wire.codec import encode, encode_unchecked, lone_surrogate
from envweave.wire.objects import type_reader
from envweave.wire.readers import Reader
from envweave.wire.records import schema_reader

if TYPE_CHECKING:
    from envweave.client.session import Opened


def to_body(value: Any, where: str, refusal: type[UsageError] = UsageError) -> bytes:
    """The value as JSON text."""
    try:
        return encode_unchecked(to_json(value, where=where))
    except (NotJSONableError, UnicodeEncodeError) as error:
        reason = lone_surrogate(error) if isinstance(error, UnicodeEncodeError) else error
        raise refusal(f"cannot be sent: {reason.message}", reason.hint) from None


class Codec:
    """Converts actions, observations and states of one session. `observation` None leaves data as it is."""

    def __init__(self, observation: Reader | None = None, state: Reader | None = None) -> None:
        self.observation = observation
        self.state = state
        self.reads_results = observation is not None
        """False if `read` leaves results as they are."""

    def write_action(self, action: Any) -> bytes:
        """The action as JSON text. Raises `InvalidActionError`."""
        return to_body(action, "action", InvalidActionError)

    def read(self, result: StepResult[Any] | ResetResult[Any]) -> None:
        """Convert the observation of a result, and the first one of the next episode if it has begun."""
        if self.observation is not None:
            result.observation = self.observation(result.observation)
            read_next_episode(result, self.observation)

    def read_state(self, data: Any) -> Any:
        return data if self.state is None else self.state(data)


def read_next_episode(result: StepResult[Any] | ResetResult[Any], read: Reader) -> None:
    """Convert the `initial_obs` of an `autoreset_ready`, which only the last result of an episode can have."""
    if result.done:
        result.requests = tuple(
            replace(request, initial_obs=read(request.initial_obs)) if isinstance(request, AutoresetReady) else request
            for request in result.requests
        )


class KnownTypes(NamedTuple):
    """The types of an environment that is known in this process; None where they are not."""

    observation: Any = None
    state: Any = None

    def codec(self, opened: Opened) -> Codec:
        """By these types where they are known, else by the schemas that the server sent."""
        if self.observation is None:
            read = _by_server(opened)
        elif not opened.multi_agent or is_by_agent(self.observation):
            read = type_reader(self.observation)
        else:
            read = by_agent(type_reader(self.observation))
        return Codec(read, _state_reader(opened) if self.state is None else type_reader(self.state))


class ChatCodec(Codec):
    """For a session with `chat`: a model's reply crosses as its message, without tokens and usage."""

    def __init__(self, opened: Opened) -> None:
        read = type_reader(ChatObservation)
        super().__init__(by_agent(read) if opened.multi_agent else read, _state_reader(opened))
        self._multi_agent = opened.multi_agent

    def write_action(self, action: Any) -> bytes:
        from envweave.chat.messages import message_of  # loaded if it is asked for

        if self._multi_agent and isinstance(action, Mapping):
            return super().write_action({agent: message_of(reply).to_dict() for agent, reply in action.items()})
        return super().write_action(message_of(action).to_dict())


def is_by_agent(type_: Any) -> bool:
    """True for a type such as `dict[str, Hand]`, which is that of all agents and not of one."""
    origin = typing.get_origin(type_)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _by_server(opened: Opened) -> Reader | None:
    """By the schema of the observations."""
    schema = opened.observation_schema
    if isinstance(schema, dict) and isinstance(schema.get("x-agents"), dict):
        return _each_agent({agent: _by_schema(part) for agent, part in schema["x-agents"].items()})
    return by_agent(_by_schema(schema)) if opened.multi_agent else _by_schema(schema)


def _by_schema(schema: Any) -> Reader | None:
    if not isinstance(schema, dict):
        return None
    if "$defs" in schema or "title" in schema:  # of a type, and not of a Gymnasium space
        return schema_reader(schema)
    return array_reader(schema) or schema_reader(schema)


def _state_reader(opened: Opened) -> Reader:
    """By the schema of the states; a state that has our fields and no others is our `State`."""
    read = schema_reader(opened.state_schema) or _same
    ours = fields_of(State)
    return lambda data: State(**data) if isinstance(data, dict) and data.keys() == ours else read(data)


def by_agent(read: Reader | None) -> Reader | None:
    """A reader of dicts by agent."""
    if read is None:
        return None
    return lambda data: {agent: read(each) for agent, each in data.items()} if isinstance(data, dict) else data


def _each_agent(readers: Mapping[str, Reader | None]) -> Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {agent: (readers.get(agent) or _same)(each) for agent, each in data.items()}

    return read


# What a client declares: its types, and hooks that subclasses override.


class ClientTypes(NamedTuple):
    """The type arguments of a client; None where it has none. `dict` leaves data as it is."""

    action: Any = None
    observation: Any = None
    state: Any = None


def client_types(client: Any) -> ClientTypes:
    """The arguments in `EnvClient[Action, Observation, State]`, of the instance or of its class."""
    generics = [getattr(client, "__orig_class__", None)]
    for base in type(client).__mro__:
        generics += base.__dict__.get("__orig_bases__", ())
    for generic in generics:
        arguments = typing.get_args(generic)
        if getattr(typing.get_origin(generic), "__name__", "").endswith("EnvClient") and 2 <= len(arguments) <= 3:
            return ClientTypes(*(_declared(argument) for argument in arguments))
    return ClientTypes()


def _declared(type_: Any) -> Any:
    vague = type_ in (Any, object, None, type(None)) or type(type_).__name__ == "TypeVar"
    return None if vague else type_


class Hooks(Protocol):
    """How a client turns actions into data, and data into observations and states."""

    @property
    def action_type(self) -> Any: ...
    @property
    def observation_type(self) -> Any: ...
    @property
    def own_results(self) -> bool:
        """The client reads results in its own way, which expects OpenEnv's form."""

    def _step_payload(self, action: Any) -> Any: ...
    def _parse_result(self, payload: dict[str, Any]) -> Any: ...
    def _parse_state(self, payload: Any) -> Any: ...


class HookCodec(Codec):
    """Uses the hooks of a client that declares types or overrides hooks; what it does not declare has the types of
    the server's schemas.
    """

    def __init__(self, hooks: Hooks, opened: Opened) -> None:
        super().__init__()
        self._hooks = hooks
        self._actions_by_agent = opened.multi_agent and not is_by_agent(hooks.action_type)
        self._observations_by_agent = opened.multi_agent and not is_by_agent(hooks.observation_type)
        self._undeclared = KnownTypes().codec(opened)
        self._hooked = hooks.own_results or hooks.observation_type is not None
        self.reads_results = self._hooked or self._undeclared.reads_results

    def write_action(self, action: Any) -> bytes:
        if self._actions_by_agent and isinstance(action, Mapping):
            return encode({agent: self._hooks._step_payload(one) for agent, one in action.items()})
        data = self._hooks._step_payload(action)
        return to_body(data, "action", InvalidActionError) if self._hooks.own_results else encode(data)

    def read(self, result: StepResult[Any] | ResetResult[Any]) -> None:
        if not self._hooked:
            self._undeclared.read(result)
            return
        observation, reward = self._read(result.observation, result.reward, result.done, result.info)
        result.observation = observation
        if isinstance(result, StepResult):
            result.reward = reward
        read_next_episode(result, lambda data: self._read(data, None, False, {})[0])

    def read_state(self, data: Any) -> Any:
        parsed = self._hooks._parse_state(data)
        return self._undeclared.read_state(data) if parsed is data else parsed

    def _read(self, observation: Any, reward: Any, done: bool, info: dict[str, Any]) -> tuple[Any, Any]:
        """Observation and reward as the client's hook reads them, for each agent if there are several."""
        if not (self._observations_by_agent and isinstance(observation, Mapping)):
            return self._read_one(observation, reward, done, info)
        rewards = reward if isinstance(reward, Mapping) else {}
        read = {agent: self._read_one(one, rewards.get(agent), done, info) for agent, one in observation.items()}
        observations = {agent: one for agent, (one, _) in read.items()}
        scored = {agent: own for agent, (_, own) in read.items() if agent in rewards}
        return observations, reward if reward is None else {**rewards, **scored}

    def _read_one(self, observation: Any, reward: Any, done: bool, info: dict[str, Any]) -> tuple[Any, Any]:
        hooks = self._hooks
        payload = {"observation": observation, "reward": reward, "done": done, "info": info}
        if hooks.own_results:
            payload = _openenv_form(payload)
        parsed = hooks._parse_result(payload)
        if not hasattr(parsed, "observation") or hooks.observation_type in type(parsed).__mro__:
            return parsed, reward
        own = getattr(parsed, "reward", None)
        return parsed.observation, reward if own is None else own


def _openenv_form(payload: dict[str, Any]) -> dict[str, Any]:
    """`reward` and `done` beside the observation and not in it, as OpenEnv's clients expect."""
    observation = payload["observation"]
    if not isinstance(observation, dict):
        return payload
    payload["observation"] = {key: value for key, value in observation.items() if key not in ("reward", "done")}
    if payload["reward"] is None:
        payload["reward"] = observation.get("reward")
    if observation.get("metadata"):
        payload["metadata"] = observation["metadata"]
    return payload


def action_writer(type_: Any) -> Callable[[Any], Any]:
    """Checks an action of a declared type and makes data of it. Raises `InvalidActionError`."""
    check: Callable[[Any], Any] = _same
    if type_ is not None:
        from envweave.core.actions import rule_for_type  # pydantic

        check = rule_for_type(type_).check

    def write(action: Any) -> Any:
        checked = check(action)
        data = to_sendable(checked, "action", InvalidActionError)
        if isinstance(data, dict) and not isinstance(checked, Mapping) and data.get("metadata") == {}:
            del data["metadata"]  # a server whose actions have no metadata must not see an empty one
        return data

    return write


def _same(value: Any) -> Any:
    return value


def reader(type_: Any, what: str) -> Callable[[Any], Any]:
    """Makes an instance of a declared type from data. Raises `ProtocolError`; unknown keys are left out."""
    if type_ in (None, dict):
        return _same
    from envweave.core.schema import adapter, explain  # pydantic

    parse = adapter(type_).validator.validate_python
    known = _only_keys(type_)
    name = getattr(type_, "__name__", str(type_))

    def read(data: Any) -> Any:
        if known is not None and isinstance(data, dict):
            data = {key: value for key, value in data.items() if key in known}
        try:
            return parse(data)
        except ValueError as error:
            problem = f"the server's {what} does not fit {name}: {explain(error)}"
            raise ProtocolError(problem, f"is {what}_type right?") from None

    return read


def fields_of(type_: Any) -> frozenset[str]:
    """The names of a dataclass's, a pydantic model's or a TypedDict's fields."""
    if dataclasses.is_dataclass(type_):
        return frozenset(field.name for field in dataclasses.fields(type_))
    fields = getattr(type_, "model_fields", None)
    return frozenset(fields if isinstance(fields, dict) else getattr(type_, "__annotations__", ()))


def _only_keys(type_: Any) -> frozenset[str] | None:
    """The keys that a type takes if it refuses others; None if it does not."""
    config = getattr(type_, "model_config", None) or getattr(type_, "__pydantic_config__", None) or {}
    if config.get("extra") != "forbid":
        return None
    fields = getattr(type_, "model_fields", None)
    aliases: set[str] = set()
    for field in fields.values() if isinstance(fields, dict) else ():
        aliases |= {alias for alias in (field.alias, field.validation_alias) if isinstance(alias, str)}
    return fields_of(type_) | aliases
