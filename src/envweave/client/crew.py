"""The sessions of a vector and the servers they are on: as many on each as it takes, or spread evenly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from envweave.client.call import Call
from envweave.client.channel import Channel
from envweave.client.settings import Settings, Wanted
from envweave.client.socket import Socket
from envweave.client.stream import StreamSession
from envweave.errors import CapacityError

Another = Callable[[], Settings]
"""Gives a further server, which is yet to be started."""

T = TypeVar("T")


class Crew:
    """Sessions by number, each on a server of its own choice and all on one connection to it."""

    def __init__(self, wanted: Wanted, count: int) -> None:
        self._wanted = wanted
        self._count = count
        self._taken: dict[int, StreamSession] = {}
        self._channels: list[Channel] = []
        self._refusal = CapacityError("no server takes a session")

    @property
    def sessions(self) -> list[StreamSession]:
        return [self._taken[number] for number in range(self._count)]

    def by_server(self, calls: Sequence[tuple[StreamSession, Call]]) -> Sequence[Sequence[tuple[StreamSession, Call]]]:
        """The calls, those for one server together."""
        if len(self._channels) < 2:
            return (calls,) if calls else ()
        groups: dict[Channel, list[tuple[StreamSession, Call]]] = {}
        for session, call in calls:
            groups.setdefault(session.channel, []).append((session, call))
        return tuple(groups.values())

    def deck(self, settings: Settings, socket: Socket) -> Channel:
        """The connection to a server, which is closed with the crew."""
        channel = Channel(settings)
        channel.start(socket)
        self._channels.append(channel)
        return channel

    async def board(self, channel: Channel, numbers: Sequence[int]) -> int:
        """Open sessions on a server for as many of the numbers as it takes; gives how many that were."""
        if not self._taken:  # the first session tells the name of them all
            first, numbers = numbers[0], numbers[1:]
            self._taken[first] = await channel.open(self._wanted)
        opened = await asyncio.gather(*(self._open(channel, number) for number in numbers), return_exceptions=True)
        failure = next((each for each in opened if isinstance(each, BaseException)), None)
        if isinstance(failure, CapacityError):
            self._refusal = failure
        elif failure is not None:
            raise failure
        return sum(session.channel is channel for session in self._taken.values())

    async def _open(self, channel: Channel, number: int) -> None:
        name = self._wanted.env_id or self._taken[0].opened.env_id
        named = replace(self._wanted, env_id=f"{name.rpartition('#')[0] or name}#{number}")
        self._taken[number] = await channel.open(named, schema=False)

    @property
    def ashore(self) -> list[int]:
        """The numbers that no server has taken yet."""
        return [number for number in range(self._count) if number not in self._taken]

    def refusal(self) -> CapacityError:
        """Why some are still ashore."""
        left, why = f"{len(self.ashore)} of {self._count} environments found no place", self._refusal
        return CapacityError(f"{left}: {why.message}", why.hint or "more servers, e.g. containers=…, take more")

    async def leave(self) -> None:
        for channel in self._channels:
            await channel.close()


def shares(numbers: Sequence[T], parts: int) -> list[Sequence[T]]:
    """The numbers in so many parts of the same size, give or take one; none is empty."""
    parts = min(parts, len(numbers))
    if not parts:
        return []
    ends = [len(numbers) * part // parts for part in range(parts + 1)]
    return [numbers[start:end] for start, end in pairwise(ends)]
