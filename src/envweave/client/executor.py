"""The executor of a vector on servers: one message for all actions of a step, and answers as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from envweave.client.codec import ChatCodec, Codec, KnownTypes
from envweave.client.connection import ServerConnection
from envweave.client.endpoint import ServerEndpoint, SessionSpec
from envweave.client.openenv import OpenEnvPlan, session_capacity
from envweave.client.placement import ServerGroup, place, shares
from envweave.client.remote import RemoteBackend
from envweave.client.session import PendingCall, RemoteSession
from envweave.client.websocket import WebSocket
from envweave.core.backend import Backend
from envweave.core.loop import BACKGROUND
from envweave.errors import EnvError, EnvWeaveError, SessionLostError, describe
from envweave.vector.executor import Done, Executor
from envweave.vector.slot import Slot
from envweave.vector.thread import ThreadExecutor


class RowStep(PendingCall):
    """A step of one row. Its answer goes straight to the vector."""

    def __init__(self, backend: RemoteBackend, body: bytes, done: Done) -> None:
        super().__init__("step", body)
        self.backend = backend
        self._done = done

    def answer(self, data: Any, error: EnvWeaveError | None = None) -> None:
        super().answer(data, error)
        try:
            result = self.backend.read_step(self)
        except EnvWeaveError as failure:
            self._done(None, failure)
        else:
            self._done(result, None)


class RemoteExecutor(Executor):
    """Environments on one server or several. Those of one server share a connection.

    The server checks the actions of a batch before it uses any of them: if it refuses one, it refuses all. With
    several servers that holds for those of one. A session that is lost affects its row; it is opened anew for the next
    reset, on a server that is started again if it was started for us and is gone.
    """

    refuses_late: ClassVar[bool] = True

    def __init__(self, servers: ServerGroup, codec: Codec) -> None:
        self._servers = servers
        self._codec = codec
        self._steps: list[RowStep] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, slot: Slot, kind: str, data: Any, done: Done) -> None:
        backend: Any = slot.backend
        if kind == "advance":
            self._steps.append(RowStep(backend, data, done))
        else:
            work = self._reopen(backend) if kind == "open" else backend.acall(kind, data)
            BACKGROUND.loop.call_soon_threadsafe(self._spawn, self._run(work, done))

    def flush(self) -> None:
        if self._steps:
            steps, self._steps = self._steps, []
            BACKGROUND.loop.call_soon_threadsafe(self._send, steps)

    async def _reopen(self, lost: RemoteBackend) -> RemoteBackend:
        return row_backend(await lost.session.renew(), self._codec)

    def fork(self, slot: Slot) -> Backend:
        fork: RemoteBackend = slot.backend.call("fork")
        fork.message_timeout_s = fork.session.connection.endpoint.message_timeout_s  # type: ignore[attr-defined]
        return fork

    # On the loop.

    @staticmethod
    def _send(steps: list[RowStep]) -> None:
        """Send the steps, those for one server in one message."""
        groups: dict[ServerConnection, list[RowStep]] = {}
        for step in steps:
            session: Any = step.backend.session
            try:
                session.number(step)
            except SessionLostError as error:
                step.answer(None, error)
            else:
                groups.setdefault(session.connection, []).append(step)
        for connection, together in groups.items():
            connection.send_batch(together)

    @staticmethod
    async def _run(work: Any, done: Done) -> None:
        try:
            done(await work, None)
        except EnvWeaveError as error:
            done(None, error)
        except Exception as error:  # a mistake of ours must not leave the row without an answer
            done(None, EnvError(f"the call failed: {describe(error)}"))

    def _spawn(self, work: Any) -> None:
        self._tasks.add(task := BACKGROUND.loop.create_task(work))
        task.add_done_callback(self._tasks.discard)

    def close(self, slots: Sequence[Slot], timeout: float) -> set[Slot]:
        return BACKGROUND.run(self._close(slots, timeout))

    async def _close(self, slots: Sequence[Slot], timeout: float) -> set[Slot]:
        closing = {asyncio.ensure_future(slot.backend.acall("close")): slot for slot in slots}
        done, stuck = await asyncio.wait(closing, timeout=timeout)
        for task in done:
            task.exception()  # a close that fails has nothing more to say
        for task in (*stuck, *self._tasks):
            task.cancel()
        for slot in slots:
            await slot.backend.session.leave()  # type: ignore[attr-defined]  # the last one closes its connection
        await self._servers.release()
        return {closing[task] for task in stuck}


def row_backend(session: RemoteSession, codec: Codec) -> RemoteBackend:
    """The backend of a row: the vector decides how long to wait, and the slot what follows a failure."""
    return RemoteBackend(session, codec, message_timeout_s=None, renews=False)


class OpenEnvExecutor(ThreadExecutor):
    """Environments on OpenEnv's own servers, each with a connection of its own."""

    def __init__(self, servers: ServerGroup) -> None:
        super().__init__()
        self._servers = servers

    def close(self, slots: Sequence[Slot], timeout: float) -> set[Slot]:
        try:
            return super().close(slots, timeout)
        finally:
            BACKGROUND.run(self._servers.release())


def open_remote_slots(
    endpoints: Sequence[ServerEndpoint],
    spec: SessionSpec,
    types: KnownTypes,
    numbers: Sequence[int],
    another: Callable[[], ServerEndpoint] | None = None,
) -> list[Slot]:
    """An open slot for each number, on servers of ours or of OpenEnv's. Raises and leaves nothing open."""
    servers = ServerGroup(endpoints[: len(numbers)], another)
    try:
        connected = BACKGROUND.run(servers.connect(servers.endpoints))
        if all(socket.subprotocol is not None for _, socket in connected):
            return _our_slots(servers, connected, spec, types, numbers)
        return _openenv_slots(servers, connected, spec, types, numbers)
    except BaseException:
        BACKGROUND.run(servers.release())
        raise


def _our_slots(
    servers: ServerGroup,
    connected: Sequence[tuple[ServerEndpoint, WebSocket]],
    spec: SessionSpec,
    types: KnownTypes,
    numbers: Sequence[int],
) -> list[Slot]:
    sessions = BACKGROUND.run(place(servers, connected, spec, numbers))
    opened = sessions[0].opened
    codec = types.codec(opened) if spec.chat is None else ChatCodec(opened)
    executor = RemoteExecutor(servers, codec)
    slots = []
    for session in sessions:
        slot = Slot(session.opened.env_id, None, executor, autoreset=spec.autoreset)
        slot.attach(row_backend(session, codec))
        slots.append(slot)
    return slots


def _openenv_slots(
    servers: ServerGroup,
    connected: Sequence[tuple[ServerEndpoint, WebSocket]],
    spec: SessionSpec,
    types: KnownTypes,
    numbers: Sequence[int],
) -> list[Slot]:
    plans = BACKGROUND.run(_openenv_plans(servers, connected, spec, types, len(numbers)))
    executor = OpenEnvExecutor(servers)
    name = connected[0][0].address.name
    slots = [
        Slot(f"{name}#{number}", plan, executor, autoreset=spec.autoreset)
        for number, plan in zip(numbers, plans, strict=True)
    ]
    executor.open(slots)
    return slots


async def _openenv_plans(
    servers: ServerGroup,
    connected: Sequence[tuple[ServerEndpoint, WebSocket]],
    spec: SessionSpec,
    types: KnownTypes,
    count: int,
) -> list[OpenEnvPlan]:
    """The plan of each environment, on servers that have room for them."""
    for _, socket in connected:
        await socket.close()
    endpoints = [endpoint for endpoint, _ in connected]
    if servers.can_grow:
        needed = -(-count // await session_capacity(endpoints[0], count))
        for endpoint, socket in await servers.connect(servers.grow(needed - 1)):
            await socket.close()
            endpoints.append(endpoint)
    plans: list[OpenEnvPlan] = []
    for endpoint, part in zip(endpoints, shares(range(count), len(endpoints)), strict=True):
        plan = await OpenEnvPlan.of(endpoint, spec, types.codec)
        plans += [plan] * len(part)
    return plans
