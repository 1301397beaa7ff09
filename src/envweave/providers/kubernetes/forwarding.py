"""A port of this machine whose connections end in a pod, each carried there by a WebSocket of the API server.

Kubernetes gives these WebSockets no way to say «I have sent all» (a half-closed connection): after a client has said
so, answers are still carried until the pod has been silent for a while, but the pod does not hear of it.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from envweave.providers.kubernetes.frames import DATA, Reader, close_frame, data_frame

Dial = Callable[[], socket.socket]
"""Opens a socket on which the WebSocket's greeting is over. May raise anything; then the client is hung up on."""

SILENCE = 10.0
"""Seconds without a byte from the pod after which a client that sends no more is taken to be gone."""
_CHUNK = 64 * 1024
_FULL = 1024 * 1024
"""Bytes that are held for a side that does not take them; then the other side has to wait."""
_DRAIN = 1.0
"""Seconds in which a client may see the end by itself, so that what it has not read yet is not lost."""
_JOIN = 2.0
_BROKEN = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Forward:
    """Listens at `port` of the loopback until `close`, which ends all connections and threads."""

    def __init__(self, dial: Dial) -> None:
        self.trouble = ""
        """What the last connection that failed has failed of."""
        self._dial = dial
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._woken, self._wake = socket.socketpair()  # to close one end wakes everybody who looks at the other
        self._lock = threading.Lock()
        self._closed = False
        self._threads: set[threading.Thread] = set()
        self._begin(self._accept)

    def close(self) -> None:
        """Harmless twice. One who still dials ends by itself, when its call times out."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._wake.close()
        end = time.monotonic() + _JOIN
        for thread in list(self._threads):
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
        self._listener.close()

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        def run() -> None:
            try:
                work(*arguments)
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())
                    last = self._closed and not self._threads
                if last:
                    self._woken.close()

        thread = threading.Thread(target=run, name=f"envweave-forward-{self.port}", daemon=True)
        with self._lock:
            if self._closed:
                raise OSError("closed")
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError as error:  # the machine has no more of them
            with self._lock:
                self._threads.discard(thread)
            raise OSError(str(error)) from error

    def _accept(self) -> None:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while True:
            poll.poll()
            if self._closed:
                return
            try:
                near, _ = self._listener.accept()
            except OSError as error:  # somebody has hung up already, or there are no file descriptors left
                self.trouble = str(error)
                time.sleep(0.01)
                continue
            try:
                self._begin(self._serve, near)
            except OSError as error:
                self.trouble = str(error)
                near.close()

    def _serve(self, near: socket.socket) -> None:
        try:
            far = self._dial()
        except Exception as error:  # whatever it is: the client sees a connection that ends
            self.trouble = " ".join(str(error).split()) or type(error).__name__
            near.close()
            return
        try:
            self.trouble = carry(near, far, self._woken) or self.trouble
        except OSError as error:
            self.trouble = str(error) or type(error).__name__
        finally:
            near.close()
            far.close()


def carry(near: socket.socket, far: socket.socket, stop: socket.socket, silence: float = SILENCE) -> str:
    """Carry bytes both ways until a side ends or `stop` can be read; what the pod's side complained of, if it did."""
    near.setblocking(False)
    far.setblocking(False)
    with suppress(OSError):
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one = _Carrier(near, far, silence)
    poll = select.poll()
    poll.register(stop, select.POLLIN)
    poll.register(near, 0)
    poll.register(far, 0)
    while not one.over:
        poll.modify(near, one.near_events())
        if not one.far_ended:
            poll.modify(far, one.far_events())
        events = dict(poll.poll(one.patience()))
        if stop.fileno() in events:
            one.near_ended = True  # and nobody is waited for
            break
        if events.get(near.fileno(), 0) & _BROKEN:
            break
        one.turn(events.get(near.fileno(), 0), events.get(far.fileno(), 0))
        if one.far_ended and far.fileno() in events:
            poll.unregister(far)  # it would report its end for ever
    one.end()
    return one.complaint


class _Carrier:
    def __init__(self, near: socket.socket, far: socket.socket, silence: float) -> None:
        self.near, self.far, self.silence = near, far, silence
        self.complaint = ""
        self.to_near, self.to_far = bytearray(), bytearray()
        self.near_ended = self.far_ended = False
        self.reader = Reader()
        self.heard = time.monotonic()

    @property
    def over(self) -> bool:
        if self.far_ended:
            return not self.to_near
        return self.near_ended and not self.to_near and time.monotonic() - self.heard > self.silence

    def near_events(self) -> int:
        wanted = select.POLLOUT if self.to_near else 0
        readable = not self.near_ended and not self.far_ended and len(self.to_far) < _FULL
        return wanted | (select.POLLIN if readable else 0)

    def far_events(self) -> int:
        wanted = select.POLLOUT if self.to_far else 0
        return wanted | (select.POLLIN if len(self.to_near) < _FULL else 0)

    def patience(self) -> float | None:
        """Milliseconds until something happens without anybody's doing; None is for ever."""
        if isinstance(self.far, ssl.SSLSocket) and self.far.pending() and len(self.to_near) < _FULL:
            return 0
        return 1000.0 if self.near_ended else None

    def turn(self, near: int, far: int) -> None:
        if near & select.POLLIN:
            self._read_near()
        buffered = isinstance(self.far, ssl.SSLSocket) and self.far.pending()
        if (far & (select.POLLIN | _BROKEN) or buffered) and not self.far_ended:
            self._read_far()
        if self.to_far and not self.far_ended:
            self._write(self.far, self.to_far)
        if self.to_near:
            self._write(self.near, self.to_near)

    def _read_near(self) -> None:
        try:
            data = self.near.recv(_CHUNK)
        except BlockingIOError:
            return
        if data:
            self.to_far += data_frame(data)
        else:
            self.near_ended = True
            self.heard = time.monotonic()

    def _read_far(self) -> None:
        try:
            data = self.far.recv(_CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self.complaint = self.complaint or str(error)
            data = b""
        if not data:
            self.far_ended = True
            return
        self.heard = time.monotonic()
        self.reader.feed(data)
        for channel, piece in self.reader.messages():
            if channel == DATA:
                self.to_near += piece
            else:
                self.complaint += piece.decode(errors="replace")
        self.to_far += self.reader.replies
        self.reader.replies = b""
        # After a complaint nothing more comes, although the WebSocket may stay open.
        self.far_ended = self.reader.closed or bool(self.complaint)

    def _write(self, sock: socket.socket, held: bytearray) -> None:
        try:
            sent = sock.send(held[:_CHUNK] if len(held) > _CHUNK else held)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            if sock is self.near:  # the client is gone: nobody waits for anything
                self.to_near.clear()
                self.near_ended = self.far_ended = True
            else:
                self.complaint = self.complaint or str(error)
                self.far_ended = True
            return
        del held[:sent]

    def end(self) -> None:
        if not self.far_ended:
            with suppress(OSError):
                self.far.send(close_frame())
        if self.near_ended:
            return
        with suppress(OSError):
            self.near.shutdown(socket.SHUT_WR)
            self.near.settimeout(_DRAIN)
            end = time.monotonic() + _DRAIN
            while time.monotonic() < end and self.near.recv(_CHUNK):
                pass
