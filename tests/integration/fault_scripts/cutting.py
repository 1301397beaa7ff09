"""A network that breaks: a TCP proxy that cuts each connection after a number of bytes drawn by chance."""

import asyncio
import socket
import struct
import threading
from contextlib import contextmanager
from random import Random
from urllib.parse import urlsplit

HANDSHAKE = 700
"""About as many bytes as go both ways before a client can say anything."""


class Cuts:
    """Where connections break. Some in the handshake, most of them in the rollout, in the middle of frames too."""

    def __init__(self, seed, most, longest=3000):
        self._random = Random(seed)
        self._most = most
        self._longest = longest
        self.made = 0

    def next(self):
        """Bytes until the next cut; None if there were enough."""
        if self.made >= self._most:
            return None
        if self._random.random() < 0.08:
            return self._random.randrange(HANDSHAKE)
        return HANDSHAKE + self._random.randrange(self._longest)

    def roughly(self):
        """Whether to hang up without a word (RST), or with FIN."""
        return self._random.random() < 0.5


class _Pipe:
    def __init__(self, cuts, client, server):
        self._cuts = cuts
        self._left = cuts.next()
        self._ends = (client, server)

    async def run(self):
        (client_in, client_out), (server_in, server_out) = self._ends
        ways = [self._pump(client_in, server_out), self._pump(server_in, client_out)]
        tasks = [asyncio.ensure_future(way) for way in ways]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, out in self._ends:
            out.close()

    async def _pump(self, source, target):
        while data := await source.read(65536):
            if self._left is not None and len(data) >= self._left:
                target.write(data[: self._left])
                await target.drain()
                self._cut()
                return
            if self._left is not None:
                self._left -= len(data)
            target.write(data)
            await target.drain()

    def _cut(self):
        self._cuts.made += 1
        for _, out in self._ends:
            if self._cuts.roughly():
                out.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@contextmanager
def breaking(url, cuts):
    """The URL of a proxy to the server at a URL."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    loop = asyncio.new_event_loop()
    connections = set()

    async def accept(reader, writer):
        try:
            server = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        try:
            await _Pipe(cuts, (reader, writer), server).run()
        except (OSError, asyncio.CancelledError):
            writer.close()
            server[1].close()

    def accepted(reader, writer):
        task = loop.create_task(accept(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    async def stop():
        listener.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)

    listener = loop.run_until_complete(asyncio.start_server(accepted, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, name="proxy")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10.0)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
