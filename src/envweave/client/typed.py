"""The async side of a client: connects when it has to, and puts the client's hooks around each call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from envweave.client.remote import RemoteEnv
from envweave.core.handle import AsyncEnvHandle
from envweave.core.loop import BACKGROUND
from envweave.errors import BusyError, ClosedError, UnsupportedError, UsageError
from envweave.requests import AutoresetReady, Request
from envweave.results import ResetResult, StepResult

if TYPE_CHECKING:
    from envweave.client.home import Place

Opener = Callable[[], Coroutine[Any, Any, AsyncEnvHandle[Any]]]


class Hooks(Protocol):
    """How a client turns actions into data, and data into observations and state."""

    @property
    def observation_type(self) -> Any: ...
    @property
    def own_results(self) -> bool:
        """The client reads results in its own way, which expects OpenEnv's form."""

    def _step_payload(self, action: Any) -> Any: ...
    def _parse_result(self, payload: dict[str, Any]) -> Any: ...
    def _parse_state(self, payload: Any) -> Any: ...
    def action_schema_here(self) -> dict[str, Any] | None: ...


class TypedEnv(AsyncEnvHandle[Any]):
    """A handle with the types of a client. Connects with the first call."""

    def __init__(
        self,
        hooks: Hooks,
        name: str,
        open_inner: Opener,
        inner: AsyncEnvHandle[Any] | None = None,
        place: Place | None = None,
    ) -> None:
        self.id = name if inner is None else inner.id
        self.hooks = hooks
        self._place = place
        """Of the server, if it was started for us: it ends with the last that is closed."""
        if place is not None:
            place.home.hold()
        self._open_inner = open_inner
        self._inner = inner
        self._connecting: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def home(self) -> asyncio.AbstractEventLoop | None:
        """The loop that has the connection."""
        return self._connecting if self._inner is None else getattr(self._inner, "home", None)

    @property
    def connected(self) -> bool:
        return self._inner is not None

    async def connect(self) -> AsyncEnvHandle[Any]:
        """Make the connection unless it is there; gives the handle behind it."""
        if self._closed:
            raise ClosedError(f"{self.id} is closed", "make a new one")
        if self._inner is not None:
            return self._inner
        if self._connecting is not None:
            raise BusyError(f"{self.id} is being connected", "one call at a time on one environment")
        self._connecting = asyncio.get_running_loop()
        try:
            inner = await self._open_inner()
        finally:
            self._connecting = None
        if self._closed:  # somebody did, meanwhile
            await inner.close()  # type: ignore[unreachable]
            raise ClosedError(f"{self.id} was closed while it was being connected")
        self._inner, self.id = inner, inner.id
        return inner

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    # The calls of a handle.

    async def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[Any]:
        inner = self._inner or await self.connect()
        result = await inner.reset(seed=seed, options=options, episode_id=episode_id, **own)
        self.id = inner.id
        result.observation, _ = self._read(result.observation, None, False, result.info)
        return result

    async def step(self, action: Any) -> StepResult[Any]:
        inner = self._inner or await self.connect()
        return self._shaped(await inner.step(self._payload(action)))

    def step_from_thread(self, action: Any) -> StepResult[Any] | None:
        """`step`, waited for in this thread; None if it must not wait, as the connection is not in the background."""
        inner = self._inner
        if not isinstance(inner, RemoteEnv) or inner.home is not BACKGROUND.loop or _running_loop() is inner.home:
            return None
        return self._shaped(inner.step_from_thread(self._payload(action)))

    async def respond(self, request_id: str, value: Any) -> StepResult[Any]:
        inner = self._inner or await self.connect()
        return self._shaped(await inner.respond(request_id, value))

    async def state(self) -> Any:
        return self.hooks._parse_state(await (await self.connect()).state())

    async def render(self) -> Any:
        return await (await self.connect()).render()

    async def snapshot(self) -> Any:
        return await (await self.connect()).snapshot()

    async def restore(self, snapshot: Any) -> None:
        await (await self.connect()).restore(snapshot)

    async def fork(self) -> TypedEnv:
        inner = await (await self.connect()).fork()
        return TypedEnv(self.hooks, inner.id, self._open_inner, inner, self._place)

    async def last(self) -> Any:
        """Wait again for the answer to a call that timed out or was cancelled."""
        again = getattr(self._inner, "last", None)
        if again is None:
            raise UnsupportedError(f"{self.id} keeps no answers", "only a server that numbers calls does")
        result = await again()
        if isinstance(result, ResetResult):
            result.observation, _ = self._read(result.observation, None, False, result.info)
        return self._shaped(result) if isinstance(result, StepResult) else result

    async def close(self) -> tuple[Request, ...]:
        self._closed = True
        place, self._place = self._place, None
        try:
            return () if self._inner is None else await self._inner.close()
        finally:
            if place is not None:
                await place.release()

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        if self._inner is not None:
            return self._inner.action_schema(agent_id)
        schema = self.hooks.action_schema_here()
        if schema is None:
            raise UsageError(f"{self.id} is not connected yet, so its actions are not known", "await env.connect()")
        return schema

    @property
    def pending(self) -> tuple[Request, ...]:
        return () if self._inner is None else self._inner.pending

    # The hooks.

    @property
    def _multi_agent(self) -> bool:
        return getattr(self._inner, "multi_agent", False)

    def _payload(self, action: Any) -> Any:
        if self._multi_agent and isinstance(action, Mapping):
            return {agent: self.hooks._step_payload(one) for agent, one in action.items()}
        return self.hooks._step_payload(action)

    def _shaped(self, result: StepResult[Any]) -> StepResult[Any]:
        """The result with the client's observations, those of the next episode included."""
        result.observation, result.reward = self._read(result.observation, result.reward, result.done, result.info)
        if any(request.kind == "autoreset_ready" for request in result.requests):
            result.requests = tuple(self._shaped_request(request) for request in result.requests)
        return result

    def _shaped_request(self, request: Request) -> Request:
        if not isinstance(request, AutoresetReady):
            return request
        observation, _ = self._read(request.initial_obs, None, False, request.initial_info)
        return replace(request, initial_obs=observation)

    def _read(self, observation: Any, reward: Any, done: bool, info: dict[str, Any]) -> tuple[Any, Any]:
        """Observation and reward as the client's hook has them, for each agent if there are several."""
        if not (self.hooks.own_results or self.hooks.observation_type):
            return observation, reward
        if not (self._multi_agent and isinstance(observation, Mapping)):
            return self._read_one(observation, reward, done, info)
        rewards = reward if isinstance(reward, Mapping) else {}
        read = {agent: self._read_one(one, rewards.get(agent), done, info) for agent, one in observation.items()}
        observations = {agent: one for agent, (one, _) in read.items()}
        scored = {agent: own for agent, (_, own) in read.items() if agent in rewards}
        return observations, reward if reward is None else {**rewards, **scored}

    def _read_one(self, observation: Any, reward: Any, done: bool, info: dict[str, Any]) -> tuple[Any, Any]:
        hooks = self.hooks
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


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
