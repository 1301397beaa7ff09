"""The short way of a quick step: one thread reads it from the socket, runs it and writes the answer.

The usual way leads from the loop to a thread of the pool and back, and each change of threads costs more than a quick
step itself. So a connection whose environment answers within a millisecond is lent to the express, as long as it sends
nothing but steps.

A step that is not quick after all holds up nobody: the loop looks every few milliseconds, takes the hung call over as
an ordinary one and lets another thread go on with the other connections.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from envweave.server.claim import Claim

log = logging.getLogger(__name__)

HUNG_AFTER = 0.004
"""Seconds between two looks; a step that is seen at two of them is not quick."""
IDLE_AFTER = 0.5
"""Seconds after which a silent connection goes back to the loop."""
TOGETHER = 12
"""Replies that are written together, at most."""
LARGEST = 65536
"""Bytes that are read at once; a longer message goes the usual way."""

Serve = Callable[[bytes, Claim], "bytes | None"]
"""What was read to what is to be written. None: not one whole quick step, nothing was done. It begins the claim before
the step and takes it afterwards; if it does not get it, the loop has taken the call over, and it returns `TAKEN`."""

TAKEN = b""


class Line:
    """One connection while it is lent to the express."""

    def __init__(self, fd: int, serve: Serve, back: asyncio.Future[bytes | None]) -> None:
        self.socket = socket.socket(fileno=os.dup(fd))
        self.serve = serve
        self.back = back
        """Gets what was read and not handled, or None if a step hangs and the loop has to wait for it."""
        self.active = time.monotonic()


class Express:
    """Runs quick steps for one event loop. `lend` and `recall` are for the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines: dict[int, Line] = {}
        self._poll = select.epoll()
        self._leader: object = None
        """The thread that serves now; a new object for each."""
        self._running: tuple[Line, Claim] | None = None
        """What the leader is at."""
        self._replies: deque[tuple[Line, bytes]] = deque()
        """Frames to be written, some at a time: each wakes its receiver, which may cost more than a step."""
        self._seen: Any = None
        self._watch: asyncio.TimerHandle | None = None

    def lend(self, fd: int, serve: Serve) -> asyncio.Future[bytes | None]:
        """Serve the connection until something comes that is not a quick step."""
        line = Line(fd, serve, self._loop.create_future())
        self._lines[line.socket.fileno()] = line
        self._poll.register(line.socket.fileno(), select.EPOLLIN)
        if self._leader is None:
            self._lead_anew()
        if self._watch is None:
            self._watch = self._loop.call_later(HUNG_AFTER, self._look)
        return line.back

    def recall(self, back: asyncio.Future[bytes | None]) -> None:
        """Give a connection back to the loop now. A step that runs on it is taken over."""
        for line in [line for line in self._lines.values() if line.back is back]:
            running = self._running
            if running is not None and running[0] is line and running[1].take():
                self._depose(line)
            else:
                self._return(line, b"")

    def end(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        for line in list(self._lines.values()):
            self.recall(line.back)
        self._leader = None

    def _lead_anew(self) -> None:
        self._leader = leader = object()
        threading.Thread(target=self._lead, args=(leader,), name="envweave-express", daemon=True).start()

    def _look(self) -> None:
        """See whether the leader is still at the step it was at before."""
        running = self._running
        if running is not None and running is self._seen and running[1].take():
            self._depose(running[0])
        self._seen = running
        self._watch = self._loop.call_later(HUNG_AFTER, self._look) if self._lines else None

    def _depose(self, line: Line) -> None:
        """The leader is stuck: it goes on alone with this line's step, and another leads."""
        self._running = None
        self._flush()
        self._forget(line)
        _give(line.back, None)
        if self._lines:
            self._lead_anew()
        else:
            self._leader = None

    def _return(self, line: Line, unread: bytes) -> None:
        self._forget(line)
        _give(line.back, unread)

    def _forget(self, line: Line) -> None:
        if self._lines.pop(line.socket.fileno(), None) is not None:
            self._poll.unregister(line.socket.fileno())
            line.socket.close()

    # In the leader's thread.

    def _lead(self, me: object) -> None:
        while self._leader is me:
            events = self._poll.poll(IDLE_AFTER)
            for fd, _ in events:
                line = self._lines.get(fd)
                if line is not None:
                    self._serve(line)
                if self._leader is not me:
                    return
                if len(self._replies) >= TOGETHER:
                    self._flush()
            self._flush()
            if not events or len(events) < len(self._lines):
                self._return_idle()
            if not self._lines and self._leader is me:
                self._tell(self._rest, me)
                return

    def _rest(self, leader: object) -> None:
        """On the loop: the leader has gone home; somebody may have been lent in between."""
        if self._leader is leader:
            self._leader = None
            if self._lines:
                self._lead_anew()

    def _return_idle(self) -> None:
        silent = time.monotonic() - IDLE_AFTER
        for line in list(self._lines.values()):
            if line.active < silent:
                self._hand_over(line, b"")

    def _serve(self, line: Line) -> None:
        try:
            data = line.socket.recv(LARGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            reply = line.serve(data, Claim(partial(self._begun, line))) if data else None
        except BaseException:  # a mistake of ours: the usual way answers it
            log.exception("a step failed on the short way")
            reply = None
        if reply is TAKEN:
            return
        self._running = None
        if reply is None:
            self._hand_over(line, data)
        else:
            line.active = time.monotonic()
            self._replies.append((line, reply))

    def _begun(self, line: Line, claim: Claim) -> None:
        self._running = (line, claim)

    def _flush(self) -> None:
        """Write the replies there are. Also for the loop, when the leader is stuck."""
        while self._replies:
            try:
                line, frame = self._replies.popleft()
            except IndexError:
                return
            self._write(line, frame)

    def _write(self, line: Line, frame: bytes) -> None:
        try:
            sent = line.socket.send(frame)
            while sent < len(frame):  # a client that does not read; it may take its time, but not ours
                select.select((), (line.socket,), (), IDLE_AFTER)
                sent += line.socket.send(frame[sent:])
        except OSError:  # gone: the loop finds out by itself
            self._hand_over(line, b"")

    def _hand_over(self, line: Line, unread: bytes) -> None:
        """Back to the loop; this thread has nothing more to do with the line."""
        self._flush()
        try:
            self._poll.unregister(line.socket.fileno())
        except (OSError, ValueError):
            return  # the loop has taken it back already
        if self._lines.pop(line.socket.fileno(), None) is not None:
            self._tell(_give_back, line, unread)

    def _tell(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop is closed
            self._leader = None


def _give_back(line: Line, unread: bytes) -> None:
    line.socket.close()
    _give(line.back, unread)


def _give(back: asyncio.Future[bytes | None], unread: bytes | None) -> None:
    if not back.done():
        back.set_result(unread)
