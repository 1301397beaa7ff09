"""A local port whose connections lead to a pod, each over its own WebSocket of the API server.

The first byte of a message is the number of its channel: 0 for data, 1 for an error. The first message of a channel
only names the port. Kubernetes cannot pass on that one side has sent everything (a half-closed connection): answers to
such a client are still forwarded until the pod sends nothing for `SILENCE` seconds.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from contextlib import suppress

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, ConnectionClosedError

from envweave.core.loop import LoopThread, running_loop

Connect = Callable[[], Awaitable[ClientConnection]]
"""Opens the WebSocket of one connection. If it raises, that connection ends."""

SILENCE = 10.0
_DATA = 0
_CHUNK = 64 * 1024
_READ_END = 1.0
"""Seconds for a client to see the end and close: closing first could discard what it has not read yet."""
_CLOSE_TIMEOUT = 2.0
_THREAD = LoopThread()


class PortForward:
    """Listens on `port` of the loopback until `close`. One thread with an event loop serves all connections."""

    def __init__(self, connect: Connect) -> None:
        self.trouble = ""
        """Why the last connection failed that did."""
        self._connect = connect
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = _THREAD.loop
        self._server = _THREAD.run(asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=512))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        """End the port and all connections. Can be called twice."""
        closing = asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        if running_loop() is not self._loop:  # garbage may be collected on its thread too
            concurrent.futures.wait([closing], timeout=2 * _CLOSE_TIMEOUT)

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_CLOSE_TIMEOUT)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._forward(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with await self._connect() as pod:
                tunnel = _Tunnel(reader, writer, pod)
                try:
                    await tunnel.run()
                finally:
                    writer.close()
                self.trouble = tunnel.error or self.trouble
        except Exception as error:  # of any kind: the client sees a connection that ends
            self.trouble = " ".join(str(error).split()) or type(error).__name__
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()


class _Tunnel:
    """One connection of a client, and its WebSocket to the pod."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pod: ClientConnection) -> None:
        self._reader, self._writer, self._pod = reader, writer, pod
        self._received = 0
        self.error = ""
        """What the API server reported."""

    async def run(self) -> None:
        """Forward both ways until the pod ends, the client is gone, or no answer follows what it has sent."""
        sending, receiving = asyncio.create_task(self._send()), asyncio.create_task(self._receive())
        try:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            silent = sending.done() and not sending.result()
            while not receiving.done() and not silent:
                before = self._received
                await asyncio.wait({receiving}, timeout=SILENCE)
                silent = self._received == before
            with suppress(OSError):  # the client is gone
                self._writer.write_eof()
            await asyncio.wait({sending}, timeout=_READ_END)
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.wait({sending, receiving})

    async def _send(self) -> bool:
        """Send until the client has sent everything. Returns False if it disconnected."""
        try:
            while data := await self._reader.read(_CHUNK):
                with suppress(ConnectionClosed):  # `_receive` reports it, after the answers that came before
                    await self._pod.send(bytes((_DATA,)) + data)
        except OSError:
            return False
        return True

    async def _receive(self) -> None:
        named: set[int] = set()
        try:
            while not self.error:  # after an error nothing follows, although the WebSocket may stay open
                message = await self._pod.recv()
                self._received += 1
                if isinstance(message, str) or not message:
                    continue
                channel, data = message[0], message[1:]
                if channel not in named:
                    named.add(channel)
                elif channel == _DATA:
                    self._writer.write(data)
                    await self._writer.drain()
                else:
                    self.error = data.decode(errors="replace")
        except ConnectionClosedError as error:
            self.error = str(error)
        except (ConnectionClosed, OSError):
            pass
