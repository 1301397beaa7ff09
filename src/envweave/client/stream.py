"""One of the sessions on a channel."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envweave.client.call import Call
from envweave.client.packing import packed
from envweave.client.session import Opened, Session
from envweave.client.settings import Wanted
from envweave.errors import EnvWeaveError, ProtocolError, SessionLostError
from envweave.wire.codec import encode
from envweave.wire.faults import fault_from_data
from envweave.wire.protocol import ERROR

if TYPE_CHECKING:
    from envweave.client.channel import Channel


class StreamSession(Session):
    """The number of the last call, and the call that has no answer yet."""

    def __init__(self, channel: Channel, ref: int, wanted: Wanted, data: dict[str, Any]) -> None:
        self.ref = ref
        self.server = channel.settings.address.http
        self.up = False
        """The session is open on the connection that there is now."""
        self.opening = Call("open", packed(data, "open"))
        self.call: Call | None = None
        self.lost: SessionLostError | None = None
        self.channel = channel
        self._wanted = wanted
        self._number = 0

    @property
    def home(self) -> asyncio.AbstractEventLoop:  # type: ignore[override]
        return self.channel.home

    def send(self, call: Call) -> None:
        self.enlist(call)
        if self.up:
            self.channel.say(self.message(call))

    def enlist(self, call: Call) -> None:
        """Take a call as the one under way, without sending it. Raises `SessionLostError`."""
        if self.lost is not None:
            raise SessionLostError(self.lost.message, self.lost.hint)
        self._number += 1
        call.number, self.call = self._number, call

    async def move(self) -> None:
        await self.channel.move()

    async def renew(self, *, episodes: int = 0) -> StreamSession:
        session = await self.channel.open(replace(self._wanted, episodes=episodes))
        await self.channel.forget(self)
        return session

    async def join(self, session_id: str, env_id: str) -> StreamSession:
        return await self.channel.open(self._wanted, resume=session_id)

    async def leave(self) -> None:
        await self.channel.forget(self)

    def greeting(self) -> bytes:
        body = encode({"resume": self.opened.session_id}) if self.opening.answered else self.opening.body
        return b'{"type":"open","ref":%d,"data":%b}' % (self.ref, body)

    def message(self, call: Call) -> bytes:
        head = b'{"type":"%b","ref":%d,"id":%d' % (call.kind.encode(), self.ref, call.number)
        return b'%b,"data":%b}' % (head, call.body) if call.body else head + b"}"

    # Replies.

    def receive(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        call = self.call
        if number is None:
            self._greeted(message)
        elif call is not None and call.number == number:  # else a second answer to a call that was sent twice
            self.call = None
            if message.get("type") == ERROR:
                self._refused(call, fault_from_data(message.get("data")))
            else:
                if call.kind == "close":
                    self.lost = SessionLostError(f"the session of {self.opened.env_id} is closed")
                call.answer(message.get("data"))

    def _refused(self, call: Call, fault: EnvWeaveError) -> None:
        if isinstance(fault, ProtocolError) and not call.repeated:
            # Perhaps the two sides do not agree on its number. The server says how far it has come when the session is
            # opened again, and the call, which was not run, is sent under the right one.
            call.repeated, self.call = True, call
            self.channel.resume()
            return
        if isinstance(fault, SessionLostError):
            self.lost = fault
        call.fail(fault)

    def _greeted(self, message: dict[str, Any]) -> None:
        try:
            if message.get("type") == ERROR:
                raise fault_from_data(message.get("data"))
            self.opened = Opened.from_data(message.get("data"))
        except EnvWeaveError as fault:
            if not self.opening.answered:
                self.opening.fail(fault)
            else:  # it cannot be resumed, or the server has ended it
                self.lose(fault)
            return
        self.up = True
        if not self.opening.answered:
            self._number = self.opened.last_id
            self.opening.answer(message.get("data"))
            return
        call, reached = self.call, self.opened.last_id
        if call is None or call.number > reached + 1:  # a call before it never arrived, so its number is free
            self._number = reached
        if call is not None:
            self._send_again(call)

    def _send_again(self, call: Call) -> None:
        """After a new connection: the open call, and the others of its batch as soon as their sessions are up."""
        if call.number > self._number:
            self.enlist(call)
        batch = [(session, one) for session, one in call.companions if not one.answered]
        if not call.companions:
            again = self.message(call)
        elif all(session.up for session, _ in batch):
            again = batch_message(batch)
        else:
            return
        self.channel.say(again)

    def fail(self, error: EnvWeaveError) -> None:
        """End the call under way, if there is one; the session itself is sound."""
        call, self.call = self.call, None
        if call is not None:
            call.fail(error)

    def lose(self, error: EnvWeaveError) -> None:
        """The server does not have this session any more."""
        self.lost = error if isinstance(error, SessionLostError) else SessionLostError(error.message, error.hint)
        self.fail(self.lost)
        if not self.opening.answered:
            self.opening.fail(error)


def batch_message(calls: Sequence[tuple[StreamSession, Call]]) -> bytes:
    return b'{"type":"batch","data":[%b]}' % b",".join([session.message(call) for session, call in calls])
