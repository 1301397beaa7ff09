"""Two seats from one. The worker makes a copy of itself, and its supervisor gives the copy files of its own.

What the two of them say is not believed: code of the agent may run in both (`os.register_at_fork`). Which process the
copy is, the supervisor says; if it is not done in time, whatever has come of it is swept away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from envweave.errors import SandboxError, UnsupportedError
from envweave.sandbox.ends import Ends
from envweave.sandbox.exchange import fresh_id
from envweave.sandbox.guest.frames import BadFrame, Hangup, Message
from envweave.sandbox.line import Line, pair
from envweave.sandbox.seat import START, Seat
from envweave.sandbox.supervision import Supervision
from envweave.sandbox.waiting import Wait

_GONE = "the process has ended that was to be in two places"


async def branch(wait: Wait, seat: Seat) -> Seat:
    """A second seat with the same live state. Raises `UnsupportedError` with the reason why not."""
    if seat.family.place.no_fork:
        raise UnsupportedError("this session cannot be forked", seat.family.place.no_fork)
    until = time.monotonic() + min(START, seat.limits.wall or START)
    ours, theirs = pair()
    twin = Seat(seat.family, Supervision(Line(ours, limit=1 << 30)))
    seat.family.join()
    try:
        with theirs:
            await seat.wake(wait)
            await seat.supervision.ask(wait, "expect")
            with Ends() as ends:
                await _split(wait, seat, ends.theirs, lambda: until - time.monotonic())
                twin.sit(ends)
            hello, _ = await twin.greet(wait, until - time.monotonic())
            answer, _ = await seat.supervision.ask(wait, "adopt", b"", (theirs.fileno(),), pid=hello.get("pid"))
        if "refused" in answer:
            raise UnsupportedError("this session cannot be forked", f"its work folder: {answer['refused']}")
        _, pid = await twin.supervision.line.first(wait, START)
        twin.hold(pid)
        twin.move(pid)
        await twin.the_desk().control.send(wait, {"op": "adopted"})
        await _reply(wait, twin.the_desk().control, ("ready", None), lambda: until - time.monotonic())
        await twin.halt(wait)
    except BaseException:
        with suppress(Hangup):
            await seat.supervision.tell(wait, "sweep")
        await twin.close(wait)
        raise
    finally:
        await seat.halt(wait)
    return twin


async def _split(wait: Wait, seat: Seat, descriptors: tuple[int, ...], left: Callable[[], float]) -> None:
    control = seat.the_desk().control
    id = fresh_id()
    try:
        await control.send(wait, {"op": "branch", "id": id}, b"", descriptors)
    except Hangup:
        raise SandboxError(_GONE) from None
    answer = await _reply(wait, control, ("result", id), left)
    if "refused" in answer:
        raise UnsupportedError("this session cannot be forked now", f"it has {answer['refused']}")


async def _reply(wait: Wait, line: Line, to: tuple[str, str | None], left: Callable[[], float]) -> Message:
    """The next message of a kind, and to a question."""
    while left() > 0:
        await wait.readable([line.descriptor], left())
        try:
            for message, _ in line.pull():
                if (message.get("op"), message.get("id")) == to:
                    return message
        except (Hangup, BadFrame):
            raise SandboxError(_GONE) from None
    raise SandboxError("the session's process has not answered in time")
