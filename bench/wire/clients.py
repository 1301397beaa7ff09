"""Each server with its own client, in a process of its own."""

from __future__ import annotations

from bench.comparison import compare
from bench.figure import Figure
from bench.process import WorkerProcess
from bench.wire.servers import PEERS, EchoServers, ServerProcess

WANTED = {1: 2.0, 64: 3.0}
"""Sessions, and how many times OpenEnv's steps per second they should make."""


def own_client(server: ServerProcess) -> WorkerProcess:
    """Our `EnvClient`, one for each session."""
    return WorkerProcess("-m", "bench.wire.own_client", server_cpu_seconds=server.cpu_seconds)


def own_vector(server: ServerProcess) -> WorkerProcess:
    """Our vector of remote environments."""
    return WorkerProcess("-m", "bench.wire.own_vector", server_cpu_seconds=server.cpu_seconds)


def openenv_client(server: ServerProcess) -> WorkerProcess:
    """OpenEnv's `GenericEnvClient`, one for each session."""
    return WorkerProcess(str(PEERS / "openenv_client.py"), server_cpu_seconds=server.cpu_seconds)


async def own_clients(servers: EchoServers, rounds: int) -> list[Figure]:
    """OpenEnv's client with its server, our client with ours. Both use `await`."""
    figures = []
    async with own_client(servers.ours) as ours, openenv_client(servers.theirs) as theirs:
        for count, wanted in WANTED.items():
            await ours.open(servers.ours.url, count)
            await theirs.open(servers.theirs.url, count)
            found = await compare(ours, theirs, rounds=rounds)
            await ours.close()
            await theirs.close()
            what = f"own clients, {count} session{'s' * (count > 1)} / OpenEnv's"
            figures.append(found.figure(what, at_least=wanted))
    return figures
