"""What a user of a server holds: `EnvClient` over a WebSocket, `HTTPEnvClient` over plain HTTP.

Light on purpose: the packages that talk are loaded with the first connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

from envweave.client.reading import action_writer, fields_of, reader, types_of
from envweave.client.settings import Settings, Wanted, all_whereabouts, whereabouts
from envweave.client.startable import Startable, connected
from envweave.core.handle import AsyncEnvHandle, EnvHandle
from envweave.core.lookup import load
from envweave.requests import Request
from envweave.results import ResetResult, StepResult
from envweave.vector.base import VectorEnv

if TYPE_CHECKING:
    from envweave.client.face import ClientFace
    from envweave.client.home import Home
    from envweave.client.typed import TypedEnv
    from envweave.providers.base import Provider

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")


class EnvClient(Startable, EnvHandle[ObsT], Generic[ActT, ObsT, StateT]):
    """An environment on a server, ours or OpenEnv's, driven like one in this process.

        class EchoEnv(EnvClient[EchoAction, EchoObservation, State]): ...

        with EchoEnv("http://localhost:8000") as env:
            env.reset()
            env.step(EchoAction("hello")).observation.echoed_message

    Without types it takes and gives plain data. It connects with the first call. `env.aio` is the same handle for
    `await`; `async with EchoEnv(…) as env` gives that one. In place of a URL it takes a provider: then it starts the
    server with the connection, starts it again for a reset if it is gone, and stops it when it is closed.
    """

    _opener: ClassVar[str] = "envweave.client.open:open_env"

    def __init__(
        self,
        base_url: str | Provider | Home = "http://localhost:8000",
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float | None = 60.0,
        max_message_bytes: int = 100 * 1024 * 1024,
        ping_interval_s: float | None = 20.0,
        ping_timeout_s: float | None = 20.0,
        env_id: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        autoreset: bool = False,
        deadline: float | None = None,
        max_episode_steps: int | None = None,
        action_type: type[ActT] | None = None,
        observation_type: type[ObsT] | None = None,
        state_type: type[StateT] | None = None,
    ) -> None:
        self._settings = Settings(
            **whereabouts(base_url),
            token=token,
            headers=dict(headers or {}),
            connect_timeout_s=connect_timeout_s,
            message_timeout_s=message_timeout_s,
            max_message_bytes=max_message_bytes,
            ping_interval_s=ping_interval_s,
            ping_timeout_s=ping_timeout_s,
        )
        self._wanted = Wanted(
            env_id=env_id,
            arguments=arguments,
            autoreset=autoreset,
            deadline=deadline,
            max_episode_steps=max_episode_steps,
        )
        self._types = (action_type, observation_type, state_type)
        self._made: tuple[TypedEnv, ClientFace] | None = None

    # Hooks, under the names that OpenEnv gave them.

    def _step_payload(self, action: ActT) -> Any:
        """The `data` of a step. Raises `InvalidActionError` for an action that is not of the client's type."""
        return self._write_action(action)

    def _parse_result(self, payload: dict[str, Any]) -> Any:
        """The observation in `{"observation", "reward", "done", …}`, or any object that has it as `.observation`."""
        observation = payload["observation"]
        if isinstance(observation, dict):
            beside = {name: payload.get(name) for name in self._beside if name not in observation}
            observation = {**observation, **{name: value for name, value in beside.items() if value is not None}}
        return self._read_observation(observation)

    def _parse_state(self, payload: Any) -> Any:
        return self._read_state(payload)

    @cached_property
    def action_type(self) -> Any:
        return self._types[0] or types_of(self).action

    @cached_property
    def observation_type(self) -> Any:
        return self._types[1] or types_of(self).observation

    @cached_property
    def state_type(self) -> Any:
        return self._types[2] or types_of(self).state

    @cached_property
    def own_results(self) -> bool:
        """A subclass reads results in its own way."""
        return type(self)._parse_result is not EnvClient._parse_result

    @cached_property
    def _write_action(self) -> Callable[[Any], Any]:
        return action_writer(self.action_type)

    @cached_property
    def _read_observation(self) -> Callable[[Any], Any]:
        return reader(self.observation_type, "observation")

    @cached_property
    def _read_state(self) -> Callable[[Any], Any]:
        return reader(self.state_type, "state")

    @cached_property
    def _beside(self) -> frozenset[str]:
        """The fields of an observation that a server may put beside it."""
        return fields_of(self.observation_type) & {"reward", "done"}

    # The connection.

    @property
    def aio(self) -> TypedEnv:
        """The same environment for `await`."""
        return self._both[0]

    def sync(self) -> Self:
        """The client itself: it is sync already."""
        return self

    def connect(self) -> Self:
        """Connect now and not with the first call. Raises `TransportError`."""
        self._face.connect()
        return self

    @property
    def _face(self) -> ClientFace:
        return self._both[1]

    @property
    def _both(self) -> tuple[TypedEnv, ClientFace]:
        if self._made is None:
            face = load("envweave.client.face:ClientFace", extra="client")  # loaded with the first connection
            settings = self._settings
            typed = load("envweave.client.typed:TypedEnv")(
                self, settings.address.name, self._open, place=settings.place
            )
            self._made = (typed, face(typed))
        return self._made

    async def _open(self) -> AsyncEnvHandle[Any]:
        return await load(self._opener, extra="client")(self._settings, self._wanted)  # type: ignore[no-any-return]

    def __enter__(self) -> Self:
        return self.connect()

    async def __aenter__(self) -> TypedEnv:
        return await self.aio.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.aio.close()

    # The calls of a handle.

    @property
    def id(self) -> str:  # type: ignore[override]
        """The instance on the server; before the first connection, the server's address."""
        return self._settings.address.name if self._made is None else self._made[0].id

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[ObsT]:
        return self._face.reset(seed=seed, options=options, episode_id=episode_id, **own)

    def step(self, action: ActT | Any) -> StepResult[ObsT]:
        return self._face.step(action)

    def respond(self, request_id: str, value: Any) -> StepResult[ObsT]:
        return self._face.respond(request_id, value)

    def state(self) -> StateT:
        return cast("StateT", self._face.state())

    def render(self) -> Any:
        return self._face.render()

    def snapshot(self) -> Any:
        return self._face.snapshot()

    def restore(self, snapshot: Any) -> None:
        self._face.restore(snapshot)

    def fork(self) -> Self:
        from envweave.client.face import ClientFace

        typed = self._face.fork_typed()
        twin = copy(self)
        typed.hooks = twin
        twin._made = (typed, ClientFace(typed))
        return twin

    def last(self) -> Any:
        """Wait again for the answer to a call that raised `WaitTimeoutError`."""
        return self._face.last()

    def close(self) -> tuple[Request, ...]:
        return self._face.close()

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        if not self.aio.connected:
            self.connect()
        return self._face.action_schema(agent_id)

    def action_schema_here(self) -> dict[str, Any] | None:
        """What the client's own action type says, without asking the server."""
        if self.action_type is None:
            return None
        from envweave.core.schema import json_schema  # pydantic

        return json_schema(self.action_type)

    @property
    def pending(self) -> tuple[Request, ...]:
        return () if self._made is None else self._made[0].pending


class HTTPEnvClient(EnvClient[ActT, ObsT, StateT]):
    """`EnvClient` over plain HTTP, for networks that let nothing else through. Needs one of our servers."""

    _opener: ClassVar[str] = "envweave.client.http:open_env"


def connect(url: str | Provider, *, token: str | None = None, **options: Any) -> EnvHandle[Any]:
    """A handle on the environment at a URL, `http(s)://` or `ws(s)://`, or on the one that a provider starts.

    It is connected now; options are `EnvClient`'s.
    """
    client: EnvClient[Any, Any, Any] = EnvClient(url, token=token, **options)
    return connected(client)


def connect_vector(
    url: str | Provider | Sequence[str | Provider],
    num_envs: int,
    *,
    another: Callable[[], Provider] | None = None,
    token: str | None = None,
    headers: Mapping[str, str] | None = None,
    connect_timeout_s: float = 10.0,
    max_message_bytes: int = 100 * 1024 * 1024,
    arguments: Mapping[str, Any] | None = None,
    autoreset: bool = False,
    deadline: float | None = None,
    max_episode_steps: int | None = None,
) -> VectorEnv:
    """`num_envs` environments on the server at a URL, or of a provider, or spread over several of them.

    A server of ours has all its environments on a single connection. `another` makes a further provider for
    environments that the first server has no room for. The vector stops what was started for it.
    """

    def settings(found: dict[str, Any]) -> Settings:
        return Settings(
            **found,
            token=token,
            headers=dict(headers or {}),
            connect_timeout_s=connect_timeout_s,
            max_message_bytes=max_message_bytes,
        )

    listed = list(url) if isinstance(url, Sequence) and not isinstance(url, str) else [url]
    wanted = Wanted(arguments=arguments, autoreset=autoreset, deadline=deadline, max_episode_steps=max_episode_steps)
    servers = [settings(found) for each in listed for found in all_whereabouts(each)]
    more = None if another is None else lambda: settings(whereabouts(another()))
    opened = load("envweave.client.fleet:open_vector", extra="client")
    return opened(servers, wanted, num_envs, more)  # type: ignore[no-any-return]
