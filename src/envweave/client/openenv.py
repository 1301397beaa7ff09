"""An environment on an OpenEnv server, under our own rules.

Such a server has one session for each connection and one reply for each message, without numbers or resumption. So it
is treated as an async environment of this process that happens to be far away: episodes, requests, limits and
autoreset are those of our referee, and a lost connection is a lost episode, never one that goes on silently.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from websockets.exceptions import ConnectionClosed

from envweave.chat import reply_rule
from envweave.client.codec import Codec, to_body
from envweave.client.endpoint import ServerEndpoint, SessionSpec
from envweave.client.session import Opened
from envweave.client.websocket import WebSocket, open_websocket
from envweave.core.actions import ActionRule
from envweave.core.local import AsyncLocalBackend
from envweave.core.loop import BACKGROUND
from envweave.core.referee import Referee
from envweave.errors import (
    CapacityError,
    EnvWeaveError,
    ProtocolError,
    ProviderError,
    SessionLostError,
    UnsupportedError,
)
from envweave.results import ResetResult, StepResult
from envweave.wire.codec import decode
from envweave.wire.faults import fault_from_data
from envweave.wire.protocol import ERROR
from envweave.wire.results import openenv_result

CLOSING_CODES = ("CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR")
"""Errors after which the server closes the connection."""

CHECKS, CHECK_PAUSE = 5, 0.1
"""How often to look for the cause of a lost connection, and seconds between."""


class OpenEnvProxy:
    """Speaks OpenEnv's messages on one connection; `reset` makes a new one if it is gone."""

    system_prompt = ""
    """OpenEnv's servers do not say what a model should be told."""

    def __init__(self, endpoint: ServerEndpoint, socket: WebSocket) -> None:
        self._endpoint = endpoint
        self._socket: WebSocket | None = socket
        self._used = False
        """The connection has carried a message; one that has may be lost by now, unnoticed."""

    async def reset(self, *, episode_id: str | None = None, **options: Any) -> ResetResult[Any]:
        data = b',"data":%b' % to_body({**options, "episode_id": episode_id}, "reset")
        if self._open_socket() is None:
            await self._connect()
        stale = self._used
        try:
            reply = await self._ask("reset", data)
        except SessionLostError:
            if not stale:
                raise
            await self._connect()
            reply = await self._ask("reset", data)
        result = openenv_result(reply)
        return ResetResult(result.observation, result.info)

    async def step(self, action: bytes) -> StepResult[Any]:
        """The action is JSON already, made when the rules checked it."""
        return openenv_result(await self._ask("step", b',"data":%b' % action))

    async def state(self) -> Any:
        return await self._ask("state")

    def fork(self) -> Any:
        """Raise: OpenEnv has no forks, and a connection cannot be copied."""
        raise NotImplementedError

    async def close(self) -> None:
        socket, self._socket = self._open_socket(), None
        if socket is None:
            return
        try:
            await socket.send('{"type":"close"}')
        except ConnectionClosed:
            pass
        await socket.close()

    async def _connect(self) -> None:
        self._endpoint = await self._endpoint.ensure_running()
        self._socket = await open_websocket(self._endpoint, extended=False)
        self._used = False

    async def _ask(self, kind: str, data: bytes = b"") -> Any:
        """One message, one reply. A failure in between ends the connection: a late reply could not be told apart."""
        socket = self._open_socket()
        if socket is None:
            raise SessionLostError("the connection to the OpenEnv server is gone", "env.reset() makes a new one")
        self._used = True
        frame = b'{"type":"%b"%b}' % (kind.encode(), data)
        limit = self._endpoint.message_timeout_s
        try:
            async with asyncio.timeout(limit):
                return self._reply(await _exchange(socket, frame))
        except ConnectionClosed as error:
            reason = error.rcvd.reason if error.rcvd and error.rcvd.reason else str(error)
            self._drop()
            reason = await self._cause() or reason
            hint = "an OpenEnv server cannot resume a session; env.reset() begins a new one"
            raise SessionLostError(f"the connection to the OpenEnv server was lost: {reason}", hint) from error
        except TimeoutError:
            self._drop()
            hint = "message_timeout_s=… gives it more time; env.reset() begins a new session"
            raise SessionLostError(f"no answer to {kind} within {limit:g} s", hint) from None
        except EnvWeaveError:
            raise
        except BaseException:  # cancelled
            self._drop()
            raise

    async def _cause(self) -> str:
        """Why a server that was started for us is gone; empty if it runs. Its end is seen a moment later."""
        for _ in range(CHECKS if self._endpoint.managed is not None else 0):
            try:
                if unknown := await self._endpoint.check_alive():
                    return unknown
            except ProviderError as error:
                return error.message
            await asyncio.sleep(CHECK_PAUSE)
        return ""

    def _reply(self, frame: bytes) -> Any:
        reply = decode(frame)
        if not isinstance(reply, dict):
            self._drop()
            raise ProtocolError(f"the server's reply is not a message: {reply!r:.200}")
        data = reply.get("data")
        if reply.get("type") != ERROR:
            return data
        if isinstance(data, dict) and data.get("code") in CLOSING_CODES:
            self._drop()
        raise fault_from_data(data)

    def _open_socket(self) -> WebSocket | None:
        """The connection, unless the loop it lived on has ended."""
        if self._socket is not None and self._socket.loop is not asyncio.get_running_loop():
            self._socket = None
        return self._socket

    def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.transport.abort()


async def _exchange(socket: WebSocket, frame: bytes) -> bytes:
    try:
        await socket.send(frame, text=True)
    except ConnectionClosed:
        pass  # it may have said why before it closed: that frame is still to be read
    return await socket.recv(decode=False)


class OpenEnvBackend(AsyncLocalBackend):
    """Converts what the proxy returns; an error in a hook of the client is raised as it is."""

    codec: Codec
    chats: bool = False
    """Observations are messages, which are made here."""

    async def acall(self, kind: str, data: Any = None) -> Any:
        reply = await super().acall(kind, data)
        if isinstance(reply, ResetResult | StepResult) and not self.chats:
            self.codec.read(reply)
        return self.codec.read_state(reply) if kind == "state" else reply


@dataclass(frozen=True)
class OpenEnvPlan:
    """How to open environments on an OpenEnv server, each with a connection of its own."""

    endpoint: ServerEndpoint
    spec: SessionSpec
    codec: Codec
    action_schema: dict[str, Any] | None

    @classmethod
    async def of(
        cls, endpoint: ServerEndpoint, spec: SessionSpec, make_codec: Callable[[Opened], Codec]
    ) -> OpenEnvPlan:
        """Ask the server for its schemas. Raises `UnsupportedError` for arguments, which OpenEnv does not take."""
        if spec.arguments:
            hint = "leave them out"
            raise UnsupportedError(f"{endpoint.address.http} is an OpenEnv server: it takes no arguments", hint)
        schemas = await _schemas(endpoint)
        opened = Opened("", "", observation_schema=schemas.get("observation"), state_schema=schemas.get("state"))
        action = schemas.get("action")
        return cls(endpoint, spec, make_codec(opened), action if isinstance(action, dict) else None)

    @property
    def autoreset(self) -> bool:
        return self.spec.autoreset

    def build(self) -> OpenEnvProxy:
        return BACKGROUND.run(self._connected())

    async def _connected(self) -> OpenEnvProxy:
        running = await self.endpoint.ensure_running()
        return OpenEnvProxy(running, await open_websocket(running, extended=False))

    def open(self, id: str, env: Any = None) -> OpenEnvBackend:
        backend = OpenEnvBackend(self, id, self.prepared(self.build() if env is None else env, ""))
        backend.codec, backend.chats = self.codec, self.spec.chat is not None
        return backend

    def prepared(self, env: Any, source: str) -> Any:
        if self.spec.chat is None:
            return env
        from envweave.chat.environment import as_chat  # loaded if it is asked for

        return as_chat(env, self.spec.chat, lambda *_: self._rule, multi_agent=False)

    @property
    def _rule(self) -> ActionRule:
        return ActionRule(self.codec.write_action, self.action_schema)

    def rules(self, env: Any, id: str) -> Referee:
        rule = self._rule if self.spec.chat is None else reply_rule()
        return Referee(id, rule, deadline=self.spec.deadline, max_episode_steps=self.spec.max_episode_steps)

    def observation_type(self, env: Any) -> Any:
        return None


async def open_openenv(
    endpoint: ServerEndpoint, spec: SessionSpec, socket: WebSocket, make_codec: Callable[[Opened], Codec]
) -> OpenEnvBackend:
    """The backend for a connection that did not agree to the extension."""
    try:
        plan = await OpenEnvPlan.of(endpoint, spec, make_codec)
    except BaseException:
        await socket.close()
        raise
    return plan.open(spec.env_id or endpoint.address.name, OpenEnvProxy(endpoint, socket))


async def session_capacity(endpoint: ServerEndpoint, most: int) -> int:
    """How many sessions an OpenEnv server takes, up to `most`: it says so only when it refuses one."""
    proxies: list[OpenEnvProxy] = []
    try:
        for _ in range(most):
            proxies.append(OpenEnvProxy(endpoint, await open_websocket(endpoint, extended=False)))
            await proxies[-1].state()
    except CapacityError:
        return max(len(proxies) - 1, 1)
    finally:
        for proxy in proxies:
            await proxy.close()
    return most


async def _schemas(endpoint: ServerEndpoint) -> dict[str, Any]:
    """What the server says about its types; nothing depends on an answer."""
    import httpx

    try:
        async with httpx.AsyncClient(headers=endpoint.all_headers, timeout=endpoint.connect_timeout_s) as client:
            schemas = (await client.get(f"{endpoint.address.http}/schema")).json()
    except (httpx.HTTPError, ValueError):
        return {}
    return schemas if isinstance(schemas, dict) else {}
