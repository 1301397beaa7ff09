"""What a user of a server holds: `EnvClient` over a WebSocket, `HTTPEnvClient` over plain HTTP.

Importing this is cheap: the packages that talk are loaded with the first connection.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from copy import copy
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from typing_extensions import TypeVar

from envweave.chat import Chat
from envweave.client.endpoint import ServerEndpoint, SessionSpec, parse_target, parse_targets
from envweave.client.launch import Launchable
from envweave.core.actions import ANYTHING
from envweave.core.backend import AsyncBackend, Backend, EpisodeView
from envweave.core.handle import ActT, AsyncEnvHandle, EnvHandle, ObsT
from envweave.core.lookup import load
from envweave.core.referee import Referee
from envweave.core.spec import EnvSpec
from envweave.errors import BusyError, ClosedError, UsageError
from envweave.requests import Request
from envweave.vector.base import VectorEnv
from envweave.vector.slot import Slot

if TYPE_CHECKING:
    import asyncio

    from envweave.client.codec import Codec, KnownTypes
    from envweave.client.managed_server import ManagedServer
    from envweave.client.session import Opened
    from envweave.core.selection import TaskList
    from envweave.providers.base import Provider

StateT = TypeVar("StateT", default=Any)

MEGABYTE = 1024 * 1024


class UnconnectedBackend(AsyncBackend):
    """Stands in for the backend of a client until the first call, which connects."""

    def __init__(self, client: EnvClient[Any, Any, Any]) -> None:
        self._client = client
        self._connected: Backend | None = None
        self._connecting: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self.id = client.endpoint.address.name
        self._episode = Referee(self.id, ANYTHING)

    @property
    def episode(self) -> EpisodeView:
        return self._episode if self._connected is None else self._connected.episode

    @property
    def multi_agent(self) -> bool:
        return self._connected is not None and self._connected.multi_agent

    @property
    def home(self) -> Any:
        return self._connecting

    async def acall(self, kind: str, data: Any = None) -> Any:
        if kind == "close" and self._connected is None:
            self._closed = True
            return ()
        return await (await self.connect()).acall(kind, data)

    async def connect(self) -> Backend:
        """Make the connection unless it is there; returns the backend behind it."""
        import asyncio  # loaded with the first connection

        if self._connected is not None:
            return self._connected
        if self._closed:
            raise ClosedError(f"{self.id} is closed", "make a new one")
        if self._connecting is not None:
            raise BusyError(f"{self.id} is being connected", "one call at a time on one environment")
        self._connecting = asyncio.get_running_loop()
        try:
            backend = await self._client._open()
        finally:
            self._connecting = None
        if self._closed:  # by another task, meanwhile
            await backend.acall("close")  # type: ignore[unreachable]
            raise ClosedError(f"{self.id} was closed while it was being connected")
        self._connected = backend
        self._client._attach(backend)
        return backend

    def admit(self, action: Any) -> Any:
        raise UsageError(f"{self.id} is not connected yet", "reset it first")

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        if self._connected is not None:
            return self._connected.action_schema(agent_id)
        schema = self._client.declared_action_schema()
        if schema is None:
            raise UsageError(f"{self.id} is not connected yet, so its actions are not known", "await env.connect()")
        return schema

    def observation_schema(self) -> dict[str, Any] | None:
        return None if self._connected is None else self._connected.observation_schema()

    @property
    def tasks(self) -> TaskList | None:
        if self._connected is None:
            raise UsageError(f"{self.id} is not connected yet, so its tasks are not known", "await env.connect()")
        return self._connected.tasks


class EnvClient(Launchable, EnvHandle[ActT, ObsT], Generic[ActT, ObsT, StateT]):
    """An environment on a server, ours or OpenEnv's, driven like one in this process.

        class EchoEnv(EnvClient[EchoAction, EchoObservation, State]): ...

        with EchoEnv("http://localhost:8000") as env:
            env.reset()
            env.step(EchoAction("hello")).observation.echoed_message

    Without types, observations are dataclasses made from the server's schema. It connects with the first call.
    `env.aio` is the same handle for `await`; `async with EchoEnv(…) as env` gives that one. In place of a URL it takes
    a provider: then it starts the server with the connection, starts it again for a reset if it is gone, and stops it
    when it is closed.
    """

    def __init__(
        self,
        base_url: str | Provider | ManagedServer | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float | None = 60.0,
        max_message_size_mb: float | None = None,
        *,
        provider: Provider | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        max_message_bytes: int = 100 * MEGABYTE,
        ping_interval_s: float | None = 20.0,
        ping_timeout_s: float | None = 20.0,
        env_id: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        autoreset: bool = False,
        chat: Chat | bool | None = None,
        deadline: float | None = None,
        max_episode_steps: int | None = None,
        action_type: type[ActT] | None = None,
        observation_type: type[ObsT] | None = None,
        state_type: type[StateT] | None = None,
        spec: EnvSpec | None = None,
    ) -> None:
        target = provider or base_url or "http://localhost:8000"
        if max_message_size_mb is not None:
            max_message_bytes = int(max_message_size_mb * MEGABYTE)
        self.endpoint = ServerEndpoint(
            **parse_target(target),
            token=token,
            headers=dict(headers or {}),
            connect_timeout_s=connect_timeout_s,
            message_timeout_s=message_timeout_s,
            max_message_bytes=max_message_bytes,
            ping_interval_s=ping_interval_s,
            ping_timeout_s=ping_timeout_s,
        )
        self._session_spec = SessionSpec(
            env_id=env_id,
            arguments=arguments,
            autoreset=autoreset,
            chat=Chat.of(chat),
            deadline=deadline,
            max_episode_steps=max_episode_steps,
        )
        self._types = (action_type, observation_type, state_type)
        self._sessions: list[EnvClient[ActT, ObsT, StateT]] = []
        self._acquired = False
        self.spec = spec
        self._start_unconnected()

    def _start_unconnected(self) -> None:
        self._attach(UnconnectedBackend(self))
        self._acquire()

    def _acquire(self) -> None:
        """Count as a user of the server, if it is started for us: it stops with the last one."""
        self._acquired = self.endpoint.managed is not None
        if self.endpoint.managed is not None:
            self.endpoint.managed.acquire()

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
        return self._types[0] or _codec().client_types(self).action

    @cached_property
    def observation_type(self) -> Any:
        return self._types[1] or _codec().client_types(self).observation

    @cached_property
    def state_type(self) -> Any:
        return self._types[2] or _codec().client_types(self).state

    @cached_property
    def own_results(self) -> bool:
        """A subclass reads results in its own way."""
        return type(self)._parse_result is not EnvClient._parse_result

    @cached_property
    def _write_action(self) -> Callable[[Any], Any]:
        return _codec().action_writer(self.action_type)  # type: ignore[no-any-return]

    @cached_property
    def _read_observation(self) -> Callable[[Any], Any]:
        return _codec().reader(self.observation_type, "observation")  # type: ignore[no-any-return]

    @cached_property
    def _read_state(self) -> Callable[[Any], Any]:
        return _codec().reader(self.state_type, "state")  # type: ignore[no-any-return]

    @cached_property
    def _beside(self) -> frozenset[str]:
        """The fields of an observation that a server may put beside it."""
        return _codec().fields_of(self.observation_type) & {"reward", "done"}  # type: ignore[no-any-return]

    def _codec_for(self, opened: Opened) -> Codec:
        """The client's own hooks if it declares types or overrides them, else the server's schemas."""
        codec = _codec()
        hooks = ("_step_payload", "_parse_result", "_parse_state")
        overridden = any(getattr(type(self), name) is not getattr(EnvClient, name) for name in hooks)
        known = self.spec is not None and self.spec.factory is not None
        if overridden or (not known and any((self.action_type, self.observation_type, self.state_type))):
            return codec.HookCodec(self, opened)  # type: ignore[no-any-return]
        types: KnownTypes = codec.KnownTypes(self.observation_type, self.state_type)
        return types.codec(opened)

    # The connection.

    def connect(self) -> Self:
        """Connect now and not with the first call. Raises `TransportError`.

        In a coroutine write `await client.connect()`: on a running event loop the plain call does not block.
        """
        from envweave.core.loop import BACKGROUND, running_loop  # asyncio

        return BACKGROUND.run(self._connect_async()) if running_loop() is None else self

    async def _connect_async(self) -> Self:
        if isinstance(self._backend, UnconnectedBackend):
            await self._backend.connect()
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self._connect_async().__await__()

    @property
    def connected(self) -> bool:
        return not isinstance(self._backend, UnconnectedBackend)

    async def _open(self) -> Backend:
        """Connect and open a session. A server that does not know the extension is an OpenEnv server."""
        open_websocket = load("envweave.client.websocket:open_websocket", extra="client")
        new_connection = load("envweave.client.connection:ServerConnection", extra="client")
        endpoint = await self.endpoint.ensure_running()
        socket = await open_websocket(endpoint, first=True)
        if socket.subprotocol is None:
            from envweave.client.openenv import open_openenv

            return await open_openenv(endpoint, self._session_spec, socket, self._codec_for)
        connection = new_connection(endpoint)
        connection.start(socket)
        return self._backend_on(await connection.open(self._session_spec))

    def _backend_on(self, session: Any) -> Backend:
        from envweave.client.remote import RemoteBackend

        make_codec = self._codec_for if self._session_spec.chat is None else _codec().ChatCodec
        timeout = self.endpoint.message_timeout_s
        return RemoteBackend(session, make_codec(session.opened), message_timeout_s=timeout)

    def new_session(self) -> Self:
        """A connected client with a session of its own on the same server; it is closed with this one."""
        client = copy(self)
        client._sessions = []
        client._start_unconnected()
        self._sessions.append(client)
        return client.connect()

    # A handle.

    def sync(self) -> Self:
        """The client itself: it is sync already."""
        return self

    def state(self) -> StateT:
        return self._call("state")  # type: ignore[no-any-return]

    def _twin(self, backend: Backend) -> Self:
        twin = copy(self)
        twin._sessions = []
        twin._attach(backend)
        twin._acquire()
        return twin

    def close(self) -> tuple[Request, ...]:
        from envweave.core.loop import BACKGROUND, refuse_blocking  # asyncio

        if isinstance(self._backend, AsyncBackend):
            refuse_blocking(self._backend.home)
        return BACKGROUND.run(self._close_async())

    async def _close_async(self) -> tuple[Request, ...]:
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            await session._close_async()
        acquired, self._acquired = self._acquired, False
        try:
            return await self._backend.acall("close")  # type: ignore[no-any-return]
        finally:
            if acquired and self.endpoint.managed is not None:
                await self.endpoint.managed.release()

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        self.connect()
        return super().action_schema(agent_id)

    @property
    def tasks(self) -> TaskList | None:
        self.connect()
        return super().tasks

    def declared_action_schema(self) -> dict[str, Any] | None:
        """What the client's own action type says, without asking the server."""
        if self.action_type is None:
            return None
        from envweave.core.schema import json_schema  # pydantic

        return json_schema(self.action_type)

    def __enter__(self) -> Self:
        try:
            return self.connect()
        except BaseException:
            self.close()
            raise

    async def __aenter__(self) -> AsyncEnvHandle[ActT, ObsT]:
        return await self.aio.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._close_async()


class HTTPEnvClient(EnvClient[ActT, ObsT, StateT]):
    """`EnvClient` over plain HTTP, for networks that let nothing else through. Needs one of our servers."""

    async def _open(self) -> Backend:
        session = load("envweave.client.http:HTTPSession", extra="client")
        return self._backend_on(await session.open(self.endpoint, self._session_spec))


def _codec() -> Any:
    """The module that converts values, loaded with the first connection."""
    from envweave.client import codec

    return codec


def connect(url: str | Provider, *, token: str | None = None, **options: Any) -> EnvHandle[Any, Any, Any, Any]:
    """A handle on the environment at a URL, `http(s)://` or `ws(s)://`, or on the one that a provider starts.

    It is connected now; options are `EnvClient`'s.
    """
    client: EnvClient[Any, Any, Any] = EnvClient(url, token=token, **options)
    return client.__enter__()


def connect_vector(url: Any, num_envs: int, **options: Any) -> VectorEnv[Any, Any, Any, Any]:
    """`num_envs` environments on the server at a URL, or of a provider, or spread over several of them.

    `options` are those of `open_slots`.
    """
    return VectorEnv(open_slots(url, numbers=range(num_envs), **options))


def open_slots(
    url: str | Provider | Sequence[str | Provider],
    *,
    numbers: Sequence[int],
    another: Callable[[], Provider] | None = None,
    arguments: Mapping[str, Any] | None = None,
    autoreset: bool = False,
    chat: Chat | None = None,
    deadline: float | None = None,
    max_episode_steps: int | None = None,
    observation_type: Any = None,
    state_type: Any = None,
    headers: Mapping[str, str] | None = None,
    **options: Any,
) -> list[Slot]:
    """The rows of a vector on servers, over which they are spread evenly.

    A server of ours has all its environments on a single connection. `another` makes a further provider for those that
    the first server has no room for. What was started for the rows stops with their vector. `options` are those of the
    connection: `token`, timeouts, `max_message_bytes`.
    """
    known_types = load("envweave.client.codec:KnownTypes", extra="client")
    open_remote_slots = load("envweave.client.executor:open_remote_slots", extra="client")

    def endpoint(found: dict[str, Any]) -> ServerEndpoint:
        return ServerEndpoint(**found, headers=dict(headers or {}), **options)

    listed = list(url) if isinstance(url, Sequence) and not isinstance(url, str) else [url]
    limits: dict[str, Any] = {"deadline": deadline, "max_episode_steps": max_episode_steps}
    spec = SessionSpec(arguments=arguments, autoreset=autoreset, chat=chat, **limits)
    servers = [endpoint(found) for each in listed for found in parse_targets(each)]
    more = None if another is None else lambda: endpoint(parse_target(another()))
    types = known_types(observation_type, state_type)
    return open_remote_slots(servers, spec, types, list(numbers), more)  # type: ignore[no-any-return]
