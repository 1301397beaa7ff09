"""A vector on servers: at a URL, or on those that are started for it and end with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from envweave.client.channel import Channel
from envweave.client.crew import Another, Crew, shares
from envweave.client.dial import dial
from envweave.client.home import Place
from envweave.client.openenv import OpenEnvProxy, openenv_plan
from envweave.client.settings import Settings, Wanted
from envweave.client.socket import Socket
from envweave.client.vector import RemoteVector
from envweave.core.flows import Blueprint
from envweave.core.loop import BACKGROUND
from envweave.errors import CapacityError, describe
from envweave.vector.base import VectorEnv
from envweave.vector.thread import ThreadVector

log = logging.getLogger(__name__)


class Fleet:
    """The servers of one vector."""

    def __init__(self, servers: Sequence[Settings], another: Another | None) -> None:
        self._another = another
        self.servers: list[Settings] = []
        for each in servers:
            self._hold(each)

    def _hold(self, settings: Settings) -> Settings:
        self.servers.append(settings)
        if settings.place is not None:
            settings.place.home.hold()
        return settings

    async def reach(self, servers: Sequence[Settings]) -> list[tuple[Settings, Socket]]:
        """Connections to servers, started side by side where they have to be; all of them or none."""
        reached = await asyncio.gather(*(_reach(each) for each in servers), return_exceptions=True)
        found = [each for each in reached if not isinstance(each, BaseException)]
        failure = next((each for each in reached if isinstance(each, BaseException)), None)
        if failure is not None:
            for _, socket in found:
                await socket.close()
            raise failure
        return found

    @property
    def extensible(self) -> bool:
        return self._another is not None

    def further(self, count: int) -> list[Settings]:
        """So many more servers, yet to be started; none if there are no others to be had."""
        return [self._hold(self._another()) for _ in range(count)] if self._another is not None else []

    def end(self) -> None:
        """Let go of all servers, which stop side by side."""
        places = [each.place for each in self.servers if each.place is not None]
        self.servers = []
        if places:
            BACKGROUND.run(_release(places))


class EndsFleet(VectorEnv):
    """Servers that were started for the vector end with it."""

    _fleet: Fleet

    def _stop(self, timeout: float) -> set[int]:
        try:
            return super()._stop(timeout)
        finally:
            self._fleet.end()


class FleetVector(EndsFleet, RemoteVector):
    """On servers of ours."""

    def __init__(self, crew: Crew, fleet: Fleet, *, autoreset: bool) -> None:
        super().__init__(crew, autoreset=autoreset)
        self._fleet = fleet


class OpenEnvVector(EndsFleet, ThreadVector):
    """On servers of OpenEnv's, with a connection for each environment."""

    def __init__(self, plans: Sequence[tuple[Blueprint, str]], fleet: Fleet) -> None:
        self._fleet = fleet
        super().__init__(plans)


def open_vector(
    servers: Sequence[Settings], wanted: Wanted, num_envs: int, another: Another | None = None
) -> VectorEnv:
    """The vector that fits the servers, over which its environments are spread evenly.

    With `another`, further servers are started for environments that the first does not take. Raises `CapacityError`
    if there is no place for all.
    """
    fleet = Fleet(servers[:num_envs], another)
    try:
        reached = BACKGROUND.run(fleet.reach(fleet.servers))
        if all(socket.subprotocol is not None for _, socket in reached):
            crew = Crew(wanted, num_envs)
            BACKGROUND.run(_embark(fleet, crew, reached))
            return FleetVector(crew, fleet, autoreset=wanted.autoreset)
        return OpenEnvVector(BACKGROUND.run(_openenv_plans(fleet, reached, wanted, num_envs)), fleet)
    except BaseException:
        fleet.end()
        raise


async def _embark(fleet: Fleet, crew: Crew, reached: list[tuple[Settings, Socket]]) -> None:
    """Find a place for everybody, or for nobody."""
    try:
        decks = [crew.deck(*each) for each in reached]
        parts = shares(crew.ashore, len(decks))
        room = await crew.board(decks[0], parts[0])  # the first of all tells their name
        await _boarded(crew, decks[1:], parts[1:])
        while ashore := crew.ashore:
            decks = [crew.deck(*each) for each in await fleet.reach(fleet.further(-(-len(ashore) // room)))]
            if not any(await _boarded(crew, decks, shares(ashore, len(decks)))):
                raise crew.refusal()
    except BaseException:
        await crew.leave()
        raise


async def _boarded(crew: Crew, decks: Sequence[Channel], parts: Sequence[Sequence[int]]) -> list[int]:
    """How many each took. Raises when all have answered, so that none goes on behind our back."""
    boarding = (crew.board(deck, part) for deck, part in zip(decks, parts, strict=True))
    taken = await asyncio.gather(*boarding, return_exceptions=True)
    for each in taken:
        if isinstance(each, BaseException):
            raise each
    return [each for each in taken if isinstance(each, int)]


async def _openenv_plans(
    fleet: Fleet, reached: list[tuple[Settings, Socket]], wanted: Wanted, count: int
) -> list[tuple[Blueprint, str]]:
    """Each environment's plan, on servers that have room for them."""
    for _, socket in reached:
        await socket.close()
    servers = [settings for settings, _ in reached]
    if fleet.extensible:
        needed = -(-count // await _room(servers[0], count))
        for settings, socket in await fleet.reach(fleet.further(needed - 1)):
            await socket.close()
            servers.append(settings)
    plans: list[tuple[Blueprint, str]] = []
    for settings, part in zip(servers, shares(range(count), len(servers)), strict=True):
        plan = await openenv_plan(settings, wanted)
        plans += [(plan, f"{servers[0].address.name}#{number}") for number in part]
    return plans


async def _reach(settings: Settings) -> tuple[Settings, Socket]:
    found = await settings.settled()
    return found, await dial(found)


async def _release(places: Sequence[Place]) -> None:
    """All at once: none of them goes on starting while others stop."""
    for error in await asyncio.gather(*(place.release() for place in places), return_exceptions=True):
        if isinstance(error, BaseException):
            log.warning("a server was not stopped, `envweave gc` can: %s", describe(error))


async def _room(settings: Settings, most: int) -> int:
    """How many sessions an OpenEnv server takes, up to `most`: it says so only when it refuses one."""
    proxies: list[OpenEnvProxy] = []
    try:
        for _ in range(most):
            proxies.append(OpenEnvProxy(settings, await dial(settings, extended=False)))
            await proxies[-1].state()
    except CapacityError:
        return max(len(proxies) - 1, 1)
    finally:
        for proxy in proxies:
            await proxy.close()
    return most
