"""An environment on an OpenEnv server, under our own rules.

Such a server knows one session for each connection, one reply for each message, and neither numbers nor resumption. So
it is treated as an environment of this process that happens to be far away: episodes, requests, limits and autoreset
are our referee's, and a connection that is lost is an episode that is lost, never one that goes on in silence.
"""

from __future__ import annotations

import asyncio
from typing import Any

from websockets.exceptions import ConnectionClosed

from envweave.client.dial import dial
from envweave.client.packing import packed
from envweave.client.settings import Settings, Wanted
from envweave.client.socket import Socket
from envweave.core.actions import ActionRule
from envweave.core.async_local import AsyncLocalEnv
from envweave.core.flows import Blueprint
from envweave.core.loop import BACKGROUND
from envweave.core.referee import Referee
from envweave.errors import (
    EnvWeaveError,
    InvalidActionError,
    ProtocolError,
    ProviderError,
    SessionLostError,
    UnsupportedError,
)
from envweave.results import ResetResult, StepResult
from envweave.wire.codec import decode
from envweave.wire.faults import fault_from_data
from envweave.wire.protocol import ERROR
from envweave.wire.results import step_from_data

ENDING_CODES = ("CAPACITY_REACHED", "FACTORY_ERROR", "SESSION_ERROR")
"""Errors after which the server closes the connection."""

LOOKS, LOOK_PAUSE = 5, 0.1
"""How often, and seconds between."""


class OpenEnvProxy:
    """Speaks OpenEnv's messages on one connection; `reset` makes a new one if it is gone."""

    def __init__(self, settings: Settings, socket: Socket) -> None:
        self._settings = settings
        self._socket: Socket | None = socket
        self._used = False
        """The connection has carried a message; one that has may have died since, unnoticed."""

    async def reset(self, **options: Any) -> ResetResult[Any]:
        data = b',"data":%b' % packed(options, "reset")
        if self._open_socket() is None:
            await self._dial()
        stale = self._used
        try:
            result = _read(await self._ask("reset", data))
        except SessionLostError:
            if not stale:
                raise
            await self._dial()
            result = _read(await self._ask("reset", data))
        return ResetResult(result.observation, result.info)

    async def step(self, action: bytes) -> StepResult[Any]:
        """The action is JSON already, made when the rules looked at it."""
        return _read(await self._ask("step", b',"data":%b' % action))

    async def state(self) -> Any:
        return await self._ask("state")

    async def close(self) -> None:
        socket, self._socket = self._open_socket(), None
        if socket is None:
            return
        try:
            await socket.send('{"type":"close"}')
        except ConnectionClosed:
            pass
        await socket.close()

    async def _dial(self) -> None:
        self._settings = await self._settings.settled()
        self._socket = await dial(self._settings, extended=False)
        self._used = False

    async def _ask(self, kind: str, data: bytes = b"") -> Any:
        """One message, one reply. Whatever goes wrong in between ends the connection: a late reply has no name."""
        socket = self._open_socket()
        if socket is None:
            raise SessionLostError("the connection to the OpenEnv server is gone", "env.reset() makes a new one")
        self._used = True
        frame = b'{"type":"%b"%b}' % (kind.encode(), data)
        limit = self._settings.message_timeout_s
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
        """What became of a server that was started for us; empty if it runs, which is known a moment after its end."""
        for _ in range(LOOKS if self._settings.place is not None else 0):
            try:
                if away := await self._settings.look():
                    return away
            except ProviderError as error:
                return error.message
            await asyncio.sleep(LOOK_PAUSE)
        return ""

    def _reply(self, frame: bytes) -> Any:
        reply = decode(frame)
        if not isinstance(reply, dict):
            self._drop()
            raise ProtocolError(f"the server replied with what is no message: {reply!r:.200}")
        data = reply.get("data")
        if reply.get("type") != ERROR:
            return data
        if isinstance(data, dict) and data.get("code") in ENDING_CODES:
            self._drop()
        raise fault_from_data(data)

    def _open_socket(self) -> Socket | None:
        """The connection, unless the loop it lived on has ended."""
        if self._socket is not None and self._socket.loop is not asyncio.get_running_loop():
            self._socket = None
        return self._socket

    def _drop(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.transport.abort()


async def _exchange(socket: Socket, frame: bytes) -> bytes:
    try:
        await socket.send(frame, text=True)
    except ConnectionClosed:
        pass  # it may have said why before it hung up: that frame is still to be read
    return await socket.recv(decode=False)


def _read(data: Any) -> StepResult[Any]:
    """A result with the whole observation: OpenEnv puts `done` and `reward` beside it."""
    result = step_from_data(data)
    observation, metadata = result.observation, data.get("metadata")
    if isinstance(observation, dict):
        metadata = metadata or observation.get("metadata")
        result.observation = {**observation, "reward": data.get("reward"), "done": data.get("done", False)}
    if isinstance(metadata, dict):
        result.info = metadata
    return result


async def openenv_handle(settings: Settings, wanted: Wanted, socket: Socket) -> AsyncLocalEnv:
    """The handle on what is behind a connection that did not agree to the extension."""
    try:
        plan = await openenv_plan(settings, wanted)
    except BaseException:
        await socket.close()
        raise
    return AsyncLocalEnv(plan, wanted.env_id or settings.address.name, OpenEnvProxy(settings, socket))


async def openenv_plan(settings: Settings, wanted: Wanted) -> Blueprint:
    """How to make such environments, each with a connection of its own."""
    if wanted.arguments:
        raise UnsupportedError(f"{settings.address.http} is an OpenEnv server: it takes no arguments", "leave them out")
    rule = ActionRule(_packed_action, await _action_schema(settings))

    async def connected() -> OpenEnvProxy:
        found = await settings.settled()
        return OpenEnvProxy(found, await dial(found, extended=False))

    def build() -> OpenEnvProxy:
        return BACKGROUND.run(connected())

    def rules(_: Any, id: str) -> Referee:
        return Referee(id, rule, deadline=wanted.deadline, max_episode_steps=wanted.max_episode_steps)

    return Blueprint(build, rules, wanted.autoreset)


def _packed_action(action: Any) -> bytes:
    return packed(action, "action", InvalidActionError)


async def _action_schema(settings: Settings) -> dict[str, Any] | None:
    """What the server says an action looks like; nothing is lost if it does not."""
    import httpx

    try:
        async with httpx.AsyncClient(headers=settings.all_headers, timeout=settings.connect_timeout_s) as client:
            schema = (await client.get(f"{settings.address.http}/schema")).json().get("action")
    except (httpx.HTTPError, ValueError, AttributeError):
        return None
    return schema if isinstance(schema, dict) else None
