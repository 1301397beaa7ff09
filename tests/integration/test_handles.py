"""Handles on a real server: middleware, forks, episode IDs, connecting."""

import asyncio
import socket
import textwrap
from uuid import UUID

import pytest

import envweave as ew
from envweave.errors import EnvError, TransportError, UnauthorizedError, UnsupportedError, UsageError
from envweave.requests import AutoresetReady, EpisodeEnd
from envweave.testing import running_server
from support.until import until

ENVS = textwrap.dedent(
    '''
    import os
    from pathlib import Path
    from random import Random

    import envweave as ew


    class Flaky(ew.Environment[int, int]):
        """Fails in its first two resets."""

        def __init__(self):
            self.resets = 0

        def reset(self):
            self.resets += 1
            if self.resets < 3:
                raise OSError("not yet")
            return self.resets

        def step(self, action):
            return action


    class Plain(ew.Environment[int, int]):
        """Has neither `snapshot` nor `fork`."""

        def __init__(self):
            self.random = Random(1)

        def reset(self, *, episode_id):
            self.episode_id = episode_id
            return 0

        def step(self, action):
            return self.random.randrange(10**9), 0.0, action == 9, False, {"episode_id": self.episode_id}


    class Locked(Plain):
        def __init__(self):
            import threading

            self.lock = threading.Lock()


    class Live(ew.Environment[int, int]):
        """Makes live copies only. Notes each instance that is closed."""

        def __init__(self, total=0, name="root"):
            self.total = total
            self.name = name

        def reset(self):
            self.total = 0
            return 0

        def step(self, action):
            self.total += action
            return self.total

        def fork(self):
            return Live(self.total, self.name + "'")

        def close(self):
            with open(os.environ["CLOSED"], "a") as file:
                file.write(f"{self.name} {self.total}\\n")


    class AsyncLive(Live):
        async def reset(self):
            return super().reset()

        async def step(self, action):
            return super().step(action)

        async def fork(self):
            return AsyncLive(self.total, self.name + "'")

        async def close(self):
            super().close()
    '''
)


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    path = tmp_path_factory.mktemp("envs") / "handle_envs.py"
    path.write_text(ENVS)
    return path


def closed_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_middleware_serves_remote_handles_called_and_awaited(module):
    seen = []

    def record(kind, data):
        reply = yield kind, data
        seen.append(kind)
        return reply

    def retry_reset(kind, data):
        while True:
            try:
                return (yield kind, data)
            except EnvError:
                if kind != "reset":
                    raise

    with running_server(f"{module}:Flaky", "--allow-branching") as server:
        with ew.make(server.url).with_middleware(record, retry_reset) as env:
            assert env.reset().obs == 3
            assert env.step(4).obs == 4
            with env.fork() as twin:
                assert twin.step(5).obs == 5
        assert seen == ["reset", "step", "fork", "step", "close", "close"]

        async def awaited():
            async with ew.make(server.url).aio.with_middleware(record, retry_reset) as env:
                return (await env.reset()).obs, (await env.step(7)).obs, env.action_schema()

        assert asyncio.run(awaited()) == (3, 7, {"type": "integer"})


def test_closing_a_handle_with_middleware_stops_the_server_that_was_started_for_it(module):
    def through(kind, data):
        return (yield kind, data)

    client = ew.make(f"{module}:Flaky", backend="subprocess")
    process = client.endpoint.managed.provider.process.popen
    with client.with_middleware(through) as env, pytest.raises(EnvError):
        env.reset()
    assert process.poll() is not None


@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize("name", ["Live", "AsyncLive"])
def test_an_environment_with_only_a_live_fork_forks_on_a_server(module, tmp_path, isolation, name):
    closed = tmp_path / "closed"
    closed.touch()
    with running_server(
        f"{module}:{name}", "--allow-branching", "--isolation", isolation, env={"CLOSED": str(closed)}
    ) as server:
        with ew.make(server.url) as env:
            env.reset()
            env.step(2)
            with env.fork() as twin, twin.fork() as third:
                assert [each.step(1).obs for each in (twin, third, third)] == [3, 3, 4]
                assert env.step(5).obs == 7
            with pytest.raises(UnsupportedError, match="does not support snapshot"):
                env.snapshot()
        expected = ["root 7", "root' 3", "root'' 4"]
        expected += ["root 0"] * 2  # built for the sessions of the forks, and replaced
        expected += ["root' 2", "root'' 2"] if isolation == "process" else []  # the copies that left as data
        until(lambda: sorted(closed.read_text().splitlines()) == sorted(expected))


def test_a_live_copy_that_finds_no_room_is_closed(module, tmp_path):
    closed = tmp_path / "closed"
    closed.touch()
    serving = running_server(f"{module}:Live", "--allow-branching", "--max-sessions", "1", env={"CLOSED": str(closed)})
    with serving as server, ew.make(server.url) as env:
        env.reset()
        env.step(2)
        with pytest.raises(ew.errors.CapacityError):
            env.fork()
        until(lambda: closed.read_text() == "root' 2\n")
        assert env.step(1).obs == 3


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_an_environment_without_fork_and_snapshot_is_copied_on_a_server(module, isolation):
    with (
        running_server(f"{module}:Plain", "--allow-branching", "--isolation", isolation) as server,
        ew.make(server.url) as env,
    ):
        env.reset()
        kept = env.snapshot()
        with env.fork() as twin:
            drawn = [env.step(0).obs for _ in range(3)]
            assert [twin.step(0).obs for _ in range(3)] == drawn
            env.restore(kept)
            assert [env.step(0).obs for _ in range(3)] == drawn


def test_what_cannot_be_copied_is_named_over_the_wire_too(module):
    with running_server(f"{module}:Locked", "--allow-branching") as server, ew.make(server.url) as env:
        env.reset(episode_id="x")
        with pytest.raises(UnsupportedError, match=r"env\.lock"):
            env.fork()
        with pytest.raises(UnsupportedError, match=r"env\.lock"):
            env.snapshot()


def test_an_episode_has_one_id_in_state_requests_and_environment_here_and_on_a_server(module):
    with running_server(f"{module}:Plain") as server:
        for source in (f"{module}:Plain", server.url):
            with ew.make(source, autoreset=True) as env:
                env.reset()
                first = env.state().episode_id
                assert UUID(first).version == 7
                last = env.step(9)
                (end,) = (request for request in last.requests if isinstance(request, EpisodeEnd))
                (ready,) = (request for request in last.requests if isinstance(request, AutoresetReady))
                assert (end.episode_id, last.info["episode_id"]) == (first, first)
                assert ready.episode_id == env.state().episode_id == env.step(0).info["episode_id"] != first
                (closed,) = env.close()
                assert closed.episode_id == ready.episode_id


def test_a_token_is_passed_by_make_and_a_missing_one_is_named():
    with running_server("counter", env={"ENVWEAVE_TOKEN": "secret"}) as server:
        with ew.make(server.url, token="secret") as env:
            assert env.reset().obs.value == 0
        with ew.make_vector(server.url, 2, token="secret") as vector:
            assert [obs.value for obs in vector.reset().obs] == [0, 0]
        for wrong in ({}, {"token": "wrong"}):
            with pytest.raises(UnauthorizedError, match="token"):
                ew.make(server.url, **wrong)
            with pytest.raises(UnauthorizedError, match="token"):
                ew.make_vector(server.url, 2, **wrong)


def test_make_on_an_event_loop_does_not_block_it():
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.ensure_future(tick())
        url, brief = f"http://127.0.0.1:{closed_port()}", {"connect_timeout_s": 0.5}
        env = ew.make(url, **brief)
        assert ticks == 0
        with pytest.raises(TransportError):
            await env.aio.reset()
        assert ticks > 1
        ticking.cancel()
        for failing in (ew.aio.make(url, **brief), ew.aio.connect(url, **brief), ew.aio.make_vector(url, 4, **brief)):
            with pytest.raises(TransportError):
                await failing

    asyncio.run(main())


def test_environments_are_made_and_connected_by_await():
    async def main(url):
        async with await ew.aio.make(url) as env, await ew.aio.connect(url) as other:
            assert ((await env.reset()).obs.value, (await other.reset()).obs.value) == (0, 0)
            assert (await env.step({"delta": 2})).obs.value == 2
        async with await ew.aio.make_vector(url, 4) as vector:
            await vector.reset()
            assert [obs.value for obs in (await vector.step([{"delta": 1}] * 4)).obs] == [1] * 4
        async with await ew.aio.make("counter") as env, ew.make(url).aio as other:
            assert (await env.reset()).obs == (await other.reset()).obs

    with running_server("counter") as server:
        asyncio.run(main(server.url))


def test_a_remote_handle_and_vector_have_a_transform_that_cannot_be_set():
    with running_server("counter") as server, ew.make(server.url) as env, ew.make_vector(server.url, 2) as vector:
        for handle in (env, env.aio):
            assert handle.transform is None
            with pytest.raises(UsageError, match="is the server's"):
                handle.transform = str
        assert not hasattr(vector, "transform")
        with pytest.raises(UsageError, match="a vector has no transform"):
            vector.transform = str


def test_a_class_of_a_module_runs_in_a_subprocess():
    from envweave.envs.lineworld import LineWorldEnv, Position

    with ew.make(LineWorldEnv, size=3, backend="subprocess") as env:
        assert type(env.reset(seed=1).obs) is Position
        assert abs(env.step({"move": 1}).obs.goal) == 3
