"""The host's end of a conversation. It never blocks without a wait, and takes nothing on trust."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence

from envweave.errors import SandboxError
from envweave.sandbox.guest.frames import CHUNK, Decoder, Frame, Hangup, Message, encode
from envweave.sandbox.waiting import Wait

_CREDENTIALS = struct.Struct("iII")


class Line:
    """A socket, and the frames that come out of it."""

    def __init__(self, sock: socket.socket, *, limit: int) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.descriptor = sock.fileno()
        self._decoder = Decoder(limit)
        self._sending = threading.Lock()
        self._rest = memoryview(b"")
        self._descriptors: Sequence[int] = ()

    async def send(
        self,
        wait: Wait,
        message: Message,
        blob: bytes = b"",
        descriptors: Sequence[int] = (),
        *,
        timeout: float | None = 30.0,
    ) -> None:
        """Raises `Hangup` if the other end is closed, or does not read in time."""
        data = memoryview(encode(message, blob))
        until = None if timeout is None else time.monotonic() + timeout
        if not self._sending.acquire(blocking=False):
            await self._take_turn(wait)
        try:
            if self._rest:
                await self._push(wait, until)
            self._rest, self._descriptors = data, descriptors
            try:
                await self._push(wait, until)
            finally:
                if len(self._rest) == len(data):  # none of it has been sent, and none will be
                    self._rest = memoryview(b"")
        finally:
            self._sending.release()

    async def _take_turn(self, wait: Wait) -> None:
        """One after the other. To wait for a lock would hold up the very loop on which its holder waits."""
        while not self._sending.acquire(blocking=False):
            await wait.sleep(0.0005)

    async def finish(self, wait: Wait, timeout: float) -> None:
        """Send what a cancelled sender has left."""
        await self._take_turn(wait)
        try:
            await self._push(wait, time.monotonic() + timeout)
        finally:
            self._sending.release()

    async def _push(self, wait: Wait, until: float | None) -> None:
        """Send what is left. Whoever was cancelled in the middle of a frame leaves the rest of it to the next."""
        while self._rest:
            try:
                self._rest = self._rest[self._send(self._rest, self._descriptors) :]
                self._descriptors = ()
            except BlockingIOError:
                if not await wait.writable(self.descriptor, None if until is None else until - time.monotonic()):
                    raise Hangup from None
            except OSError:
                raise Hangup from None

    def _send(self, data: memoryview, descriptors: Sequence[int]) -> int:
        return socket.send_fds(self.sock, [data], list(descriptors)) if descriptors else self.sock.send(data)

    def pull(self) -> Iterator[Frame]:
        """Read once, without waiting, and return the complete frames. Raises `Hangup` and `BadFrame`."""
        try:
            data = self.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            raise Hangup from None
        if not data:
            raise Hangup
        self._decoder.feed(data)
        yield from self.buffered()

    def buffered(self) -> Iterator[Frame]:
        """The complete frames that were read already. Raises `BadFrame`."""
        while (frame := self._decoder.next()) is not None:
            yield frame

    async def first(self, wait: Wait, timeout: float) -> tuple[Message, int | None]:
        """The first message, and the process that sent it, as this side numbers it."""
        until = time.monotonic() + timeout
        sender = None
        while (frame := self._decoder.next()) is None:
            if not list(await wait.readable([self.descriptor], until - time.monotonic())):
                raise SandboxError(f"no answer within {timeout:g} s")
            try:
                data, extra, _, _ = self.sock.recvmsg(CHUNK, socket.CMSG_SPACE(_CREDENTIALS.size))
            except BlockingIOError:
                continue
            if not data:
                raise Hangup
            for level, kind, value in extra:
                if level == socket.SOL_SOCKET and kind == getattr(socket, "SCM_CREDENTIALS", None):
                    sender = _CREDENTIALS.unpack(value[: _CREDENTIALS.size])[0]
            self._decoder.feed(data)
        return frame[0], sender

    def close(self) -> None:
        self.sock.close()


def pair() -> tuple[socket.socket, socket.socket]:
    """Our end and theirs. Ours learns who writes into theirs."""
    ours, theirs = socket.socketpair()
    if hasattr(socket, "SO_PASSCRED"):
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def pipe() -> tuple[int, int]:
    """A pipe whose reading end, ours, never blocks."""
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    return ours, theirs
