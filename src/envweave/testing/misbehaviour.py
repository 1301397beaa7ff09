"""The ways in which a scripted model does not simply answer. Each is a reply like a text is."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

Wire = socket.socket

LOOK_EVERY = 0.01
"""Seconds between two looks at whether a client is still there."""


@dataclass(frozen=True)
class Failure:
    """A response written out: any status, any body, any headers. With status 200, garbage."""

    status: int = 500
    body: str | bytes = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    def hold(self, wire: Wire, released: threading.Event) -> None:
        """What is done before the first byte. Raises `OSError` when the client has gone."""

    def send(self, wire: Wire, released: threading.Event) -> bool:
        """Send it. False if the connection is of no more use. Raises `OSError` when the client has gone."""
        wire.sendall(self.head() + self.content())
        return True

    def content(self) -> bytes:
        return self.body.encode() if isinstance(self.body, str) else self.body

    def head(self) -> bytes:
        phrase = HTTPStatus(self.status).phrase if self.status in HTTPStatus._value2member_map_ else "Other"
        fields = {"content-type": "application/json", "content-length": str(len(self.content())), **self.headers}
        lines = [f"HTTP/1.1 {self.status} {phrase}", *(f"{key}: {value}" for key, value in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


@dataclass(frozen=True)
class Hang(Failure):
    """Say nothing until the test releases it or the client goes; then the response."""

    def hold(self, wire: Wire, released: threading.Event) -> None:
        while not released.wait(LOOK_EVERY):
            _still_there(wire)


@dataclass(frozen=True)
class Cut(Failure):
    """Promise the whole response and cut the connection after so many bytes of the body; before the head, if None."""

    status: int = 200
    after_bytes: int | None = None

    def send(self, wire: Wire, released: threading.Event) -> bool:
        if self.after_bytes is not None:
            wire.sendall(self.head() + self.content()[: self.after_bytes])
        close_wire(wire)
        return False


@dataclass(frozen=True)
class Stall(Failure):
    """Send so many bytes of the body, and the rest when the test releases it."""

    status: int = 200
    after_bytes: int = 0

    def send(self, wire: Wire, released: threading.Event) -> bool:
        wire.sendall(self.head() + self.content()[: self.after_bytes])
        while not released.wait(LOOK_EVERY):
            _still_there(wire)
        wire.sendall(self.content()[self.after_bytes :])
        return True


@dataclass(frozen=True)
class Drip(Failure):
    """Send the body a byte at a time, with a pause before each, until the test releases the rest."""

    status: int = 200
    pause: float = 0.01

    def send(self, wire: Wire, released: threading.Event) -> bool:
        wire.sendall(self.head())
        for byte in self.content():
            released.wait(self.pause)
            _still_there(wire)
            wire.sendall(bytes([byte]))
        return True


def close_wire(wire: Wire) -> None:
    """Cut a connection, so that both ends and a thread that reads it know at once."""
    try:
        wire.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other end was quicker


def _still_there(wire: Wire) -> None:
    readable, _, _ = select.select([wire], [], [], 0)
    if readable and not wire.recv(1, socket.MSG_PEEK):
        raise ConnectionAbortedError("the client has gone")
