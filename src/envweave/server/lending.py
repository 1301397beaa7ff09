"""uvicorn's HTTP connection, which can lend itself to the express between two requests.

Only a request that looks exactly like the one before it is answered there: the same method, path and headers, but for
the length of the body and the number of the call. So whatever the door let in once, token and all, is what the express
sees.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from envweave.errors import ProtocolError
from envweave.server.claim import Claim
from envweave.server.express import TAKEN, Express, Returned
from envweave.server.host import Form, Reply
from envweave.server.session import Session
from envweave.server.sockets import EXTENSION, can_lend
from envweave.wire.codec import decode

_VARIES = re.compile(rb"(?i)(\r\n(?:content-length|x-envweave-call): ?)(\d{1,18})(?=\r\n|$)")
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: ?(\d{1,18})(?=\r\n|$)")
_NUMBER = re.compile(rb"(?i)\r\nx-envweave-call: ?(\d{1,18})(?=\r\n|$)")

Answer = Callable[[Reply], tuple[int, bytes]]
"""The status and the body of a reply."""

NEEDED = (
    "_unset_keepalive_if_required",
    "flow",
    "pipeline",
    "scheme",
    "timeout_keep_alive",
    "timeout_keep_alive_handler",
    "timeout_keep_alive_task",
    "transport",
)
"""Attributes of uvicorn's HTTP protocol that lending uses."""


class LendingConnection(HttpToolsProtocol):
    """Everything but quick steps stays uvicorn's matter."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._can_lend = can_lend(self, NEEDED)
        self._received = b""
        self._loan: tuple[Express, Session, Answer] | None = None
        self._lent: asyncio.Future[Returned] | None = None

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._can_lend:
            scope: Any = self.scope
            scope["extensions"] = {EXTENSION: self}

    def data_received(self, data: bytes) -> None:
        self._received = data
        super().data_received(data)

    def lend_next(self, express: Express, session: Session, answer: Answer) -> None:
        """After this response, let the express answer further steps of the same kind."""
        self._loan = (express, session, answer)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        loan, self._loan = self._loan, None
        head, found, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        whole = bool(found) and length is not None and int(length[1]) == len(body)
        usable = not (self.pipeline or self.transport.is_closing() or self.scheme != "http")
        if loan is None or not (whole and usable and self.transport.get_write_buffer_size() == 0):
            return
        self._unset_keepalive_if_required()
        self.flow.pause_reading()
        express, session, answer = loan
        serve = partial(_serve, session, answer, _VARIES.sub(rb"\1", head))
        self._lent = express.lend(self.transport.get_extra_info("socket").fileno(), serve)
        self._recall = partial(express.recall, self._lent)
        self._lent.add_done_callback(partial(self._back, session, answer))

    def _back(self, session: Session, answer: Answer, lent: asyncio.Future[Returned]) -> None:
        """The express has given the connection back, or a step hangs."""
        self._lent = None
        if self.transport.is_closing():
            return
        returned = lent.result()
        if returned.lost:
            self.transport.abort()
            return
        if returned.hung:
            session.wait(lambda reply: self._late(answer, reply))
            return
        if returned.unsent:
            self.transport.write(returned.unsent)
        self._go_on()
        if returned.unread:
            self.data_received(returned.unread)

    def _late(self, answer: Answer, reply: Reply) -> None:
        if not self.transport.is_closing():
            self.transport.write(_response(*answer(reply)))
            self._go_on()

    def _go_on(self) -> None:
        self.flow.resume_reading()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def shutdown(self) -> None:
        if self._lent is not None:
            self._recall()
        super().shutdown()


def _serve(session: Session, answer: Answer, like: bytes, data: bytes, claim: Claim) -> bytes | None:
    """In the express's thread: a request like the one before, to its response."""
    head, found, body = data.partition(b"\r\n\r\n")
    if not found or _VARIES.sub(rb"\1", head) != like:
        return None
    length, number = _LENGTH.search(head), _NUMBER.search(head)
    if length is None or int(length[1]) != len(body):
        return None
    try:
        frame = decode(body)
    except ProtocolError:
        return None
    if not isinstance(frame, dict) or "action" not in frame:
        return None
    form = Form.OPENENV_HTTP if number is None else Form.EXTENDED
    reply = session.step_here(frame["action"], form, claim, None if number is None else int(number[1]))
    return None if reply is None else TAKEN if reply is session.taken else _response(*answer(reply))


def _response(status: int, body: bytes) -> bytes:
    head = b"HTTP/1.1 %d \r\ncontent-length: %d\r\ncontent-type: application/json\r\n\r\n" % (status, len(body))
    return head + body
