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
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from envweave.server.claim import Claim

log = logging.getLogger(__name__)

AVAILABLE = hasattr(select, "epoll")
"""Whether this system can run the express. Without epoll, as on macOS, nothing is lent to it."""
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


class Returned(NamedTuple):
    """A connection that is back with the loop."""

    unread: bytes = b""
    """What was read and not handled."""
    unsent: bytes = b""
    """The rest of a reply, for which the client was too slow."""
    hung: bool = False
    """A step was begun that still runs: the loop has to wait for it."""
    lost: bool = False
    """The express failed with a message in hand that may have been run, and has no reply: close the connection."""


class Line:
    """One connection while it is lent to the express.

    Only who has taken the token in `hand` reads from it, writes to it or gives it back: the leader from before it reads
    a message until its reply is written. If the step in between hangs, the loop has the line in its place.
    """

    def __init__(self, fd: int, serve: Serve, back: asyncio.Future[Returned]) -> None:
        self.socket = socket.socket(fileno=os.dup(fd))
        self.fd = self.socket.fileno()
        self.serve = serve
        self.back = back
        self.hand: list[None] = [None]
        self.recalled = False
        self.active = time.monotonic()


class Express:
    """Runs quick steps for one event loop. `lend` and `recall` are for the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, most: int = LARGEST) -> None:
        self._loop = loop
        self._most = min(most, LARGEST)
        self._lines: dict[int, Line] = {}
        self._poll: Any = select.epoll() if AVAILABLE else None
        self._leader: object = None
        """The thread that serves now; a new object for each."""
        self._running: tuple[Line, Claim] | None = None
        """What the leader is at."""
        self._replies: deque[tuple[Line, bytes]] = deque()
        """Frames to be written, some at a time: each wakes its receiver, which may cost more than a step."""
        self._seen: Any = None
        self._watch: asyncio.TimerHandle | None = None

    def lend(self, fd: int, serve: Serve) -> asyncio.Future[Returned]:
        """Serve the connection until something comes that is not a quick step. Needs `AVAILABLE`."""
        back = self._loop.create_future()
        try:
            line = Line(fd, serve, back)
        except OSError as error:  # no file descriptor is free
            log.debug("a connection stays with the event loop: %s", error)
            back.set_result(Returned())
            return back
        self._poll.register(line.fd, select.EPOLLIN)  # first: an old event may have the same number
        self._lines[line.fd] = line
        if self._leader is None:
            self._lead_anew()
        if self._watch is None:
            self._watch = self._loop.call_later(HUNG_AFTER, self._look)
        return line.back

    def recall(self, back: asyncio.Future[Returned]) -> None:
        """Give a connection back to the loop, as soon as its reply is written. A step that runs on it is taken over."""
        for line in [line for line in list(self._lines.values()) if line.back is back]:
            line.recalled = True  # before the look at its token: `_release` does both the other way round
            running = self._running
            if _take(line.hand):
                self._hand_over(line, Returned())
            elif running is not None and running[0] is line and running[1].take():
                self._depose(line)

    def end(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        for line in list(self._lines.values()):
            self.recall(line.back)
        self._leader = None

    def _lead_anew(self) -> None:
        self._leader = leader = object()
        try:
            threading.Thread(target=self._lead, args=(leader,), name="envweave-express", daemon=True).start()
        except RuntimeError:  # the system gives us no more threads
            log.exception("the express cannot start; its connections go back to the event loop")
            self._give_all_back(leader)

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
        self._hand_over(line, Returned(hung=True))
        if self._lines:
            self._lead_anew()
        else:
            self._leader = None

    # In the leader's thread.

    def _lead(self, me: object) -> None:
        try:
            self._serve_lines(me)
        except BaseException:  # a mistake of ours, or a failure of the system
            log.exception("the express failed; its connections go back to the event loop")
            self._tell(self._give_all_back, me)

    def _serve_lines(self, me: object) -> None:
        while self._leader is me:
            events = self._poll.poll(IDLE_AFTER)
            for fd, _ in events:
                line = self._lines.get(fd)
                deposed = line is not None and self._serve(line) is TAKEN
                if deposed or self._leader is not me:
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

    def _give_all_back(self, leader: object) -> None:
        """On the loop: the leader has failed. Write the replies that it left, and give all lines back."""
        if self._leader is not leader:  # it led no longer, and another has the lines
            return
        self._leader = self._running = None
        while self._replies:
            try:
                self._flush()
            except Exception:  # for the reason that the leader failed for; the next reply may be fine
                log.exception("a reply cannot be written")
        for line in list(self._lines.values()):
            self._hand_over(line, Returned(lost=not _take(line.hand)))

    def _return_idle(self) -> None:
        silent = time.monotonic() - IDLE_AFTER
        for line in list(self._lines.values()):
            if line.active < silent and _take(line.hand):
                self._hand_over(line, Returned())

    def _serve(self, line: Line) -> bytes | None:
        """Read a message, run it and keep the reply for `_flush`. Gives `TAKEN` if this thread leads no longer."""
        if not _take(line.hand):
            return None
        try:
            data = line.socket.recv(self._most)
        except BlockingIOError:
            self._release(line)
            return None
        except OSError:
            data = b""
        claim = Claim(partial(self._begun, line))
        try:
            reply = line.serve(data, claim) if data else None
        except BaseException:  # a mistake of ours: the usual way answers it
            log.exception("a step failed on the short way")
            reply = None if claim.take() else TAKEN
        if reply is TAKEN:
            return TAKEN
        self._running = None
        if reply is None:
            self._hand_over(line, Returned(unread=data))
        else:
            line.active = time.monotonic()
            self._replies.append((line, reply))
        return None

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
        except BlockingIOError:
            sent = 0
        except OSError:  # gone: the loop finds out by itself
            self._hand_over(line, Returned())
            return
        if sent < len(frame):  # a client that does not read: the loop has patience with it
            self._hand_over(line, Returned(unsent=frame[sent:]))
        else:
            self._release(line)

    def _release(self, line: Line) -> None:
        """The reply is written: the line is free for the next message, or for the loop if that has called it back."""
        line.hand.append(None)
        if line.recalled and _take(line.hand):
            self._hand_over(line, Returned())

    def _hand_over(self, line: Line, returned: Returned) -> None:
        """Back to the loop, by whichever thread has the line in hand; its token is gone with it."""
        with suppress(OSError):  # the poll itself may have failed
            self._poll.unregister(line.fd)
        del self._lines[line.fd]
        line.socket.close()
        self._tell(_give, line.back, returned)

    def _tell(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:  # the loop is closed
            self._leader = None


def _take(token: list[None]) -> bool:
    """Only one thread gets it."""
    try:
        token.pop()
    except IndexError:
        return False
    return True


def _give(back: asyncio.Future[Returned], returned: Returned) -> None:
    if not back.done():
        back.set_result(returned)
