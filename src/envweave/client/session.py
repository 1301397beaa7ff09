"""The contract between a handle and what carries its calls to a server."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envweave.client.call import Call
from envweave.errors import ProtocolError


@dataclass(frozen=True, slots=True)
class Opened:
    """What the server said when the session was opened."""

    session_id: str
    env_id: str
    name: str = ""
    last_id: int = 0
    """The last call that reached the server."""
    resume_within: float = 0.0
    multi_agent: bool = False
    action_schema: Any = None

    @classmethod
    def from_data(cls, data: Any) -> Opened:
        """Keys that this version does not know are left out."""
        if not isinstance(data, Mapping) or not {"session_id", "env_id"} <= data.keys():
            raise ProtocolError(f"the server opened a session without an ID: {data!r:.200}")
        return cls(**{key: data[key] for key in cls.__slots__ if data.get(key) is not None})


class Session(ABC):
    """One environment on a server. One call at a time, on one event loop."""

    opened: Opened
    server: str
    """The address, by which snapshots are told apart."""
    home: asyncio.AbstractEventLoop

    @abstractmethod
    def send(self, call: Call) -> None:
        """Number the call and see that it gets an answer, which may be an error. Raises `SessionLostError`."""

    @abstractmethod
    async def move(self) -> None:
        """Continue on the running loop, because `home` does not run any more."""

    @abstractmethod
    async def renew(self) -> Session:
        """A new session of the same kind, in place of this one that is lost."""

    @abstractmethod
    async def join(self, session_id: str, env_id: str) -> Session:
        """Open a session that is on the server already: a fork."""

    @abstractmethod
    async def leave(self) -> None:
        """Forget the session, which the server has closed or lost; the last one takes the connection with it."""
