"""Our client and our server, with a network between them that can be cut."""

import asyncio
import json
import multiprocessing
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

import envweave as ew
from envweave.client import EnvClient, HTTPEnvClient, connect, connect_vector
from envweave.client.address import Address
from envweave.client.connection import ServerConnection
from envweave.client.endpoint import ServerEndpoint, SessionSpec
from envweave.errors import (
    BusyError,
    CapacityError,
    ClosedError,
    InvalidActionError,
    ProviderError,
    ResetNeededError,
    SessionLostError,
    TransportError,
    UnauthorizedError,
    UsageError,
    WaitTimeoutError,
)

SCRIPT = Path(__file__).parent / "openenv_peer" / "ours.py"


class Server:
    """One of our servers. `stop` it."""

    def __init__(self, **endpoint):
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), json.dumps(endpoint)], stdout=subprocess.PIPE, text=True
        )
        self.url = self.process.stdout.readline().strip()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def running(**endpoint):
    server = Server(**{"allow_branching": True, **endpoint})
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def url():
    with running() as server:
        yield server.url


class Network:
    """A wire to a server: `cut` breaks what is connected, `down` refuses what comes."""

    def __init__(self, url):
        self._target = url.removeprefix("http://").split(":")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs = []
        self.down = False
        self.connections = 0
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.down:
                near.close()
                continue
            far = socket.create_connection((self._target[0], int(self._target[1])))
            self._pairs.append((near, far))
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        for pair in self._pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        self._listener.close()
        self.cut()
        for pair in self._pairs:
            for end in pair:
                end.close()


@pytest.fixture
def network(url):
    made = Network(url)
    yield made
    made.close()


def later(seconds, action):
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()


def patiently(refusal, call):
    """What the call gives once it is not refused any more."""
    end = time.monotonic() + 10
    while True:
        try:
            return call()
        except refusal:
            assert time.monotonic() < end
            time.sleep(0.02)


def eventually(server, line):
    """Wait until the server's metrics have a line."""
    end = time.monotonic() + 10
    while line not in urllib.request.urlopen(f"{server.url}/metrics").read().decode().splitlines():
        assert time.monotonic() < end
        time.sleep(0.02)


def kinds(requests):
    return [request.kind for request in requests]


BOTH = pytest.mark.parametrize("kind", [EnvClient, HTTPEnvClient])


@BOTH
def test_a_handle_on_a_server_does_what_one_in_this_process_does(url, kind):
    with kind(url, env_id="mine#7") as env:
        reset = env.reset(seed=3, start=1)
        assert (reset.observation, reset.info, kinds(reset.requests)) == (1, {"seed": 3}, ["need_action"])
        assert env.id == reset.requests[0].env_id == "mine#7"
        result = env.step(2)
        assert (result.observation, result.reward, result.done) == (3, 2.0, False)
        assert env.pending == result.requests
        assert (env.render(), env.state()["at"]) == ("at 3", 3)
        assert env.action_schema()["anyOf"]
        last = env.step(2)
        assert [request.reason for request in last.requests] == ["terminated"]
        assert env.pending == ()
        with pytest.raises(ResetNeededError):
            env.step(1)
        env.reset()
        assert [request.reason for request in env.reset().requests if request.kind == "episode_end"] == ["closed"]
        assert [request.reason for request in env.close()] == ["closed"]
        assert env.close() == ()
        for call in (env.reset, env.state, lambda: env.step(1)):
            with pytest.raises(ClosedError):
                call()


@BOTH
def test_errors_are_of_the_class_they_have_in_this_process(url, kind):
    with kind(url) as env:
        env.reset()
        with pytest.raises(InvalidActionError, match="does not fit"):
            env.step([1])
        with pytest.raises(InvalidActionError, match="not for me"):
            env.step("refuse")
        with pytest.raises(InvalidActionError, match="cannot be sent"):
            env.step({1})
        with pytest.raises(UsageError, match="no option 'strat'"):
            env.reset(strat=1)
        with pytest.raises(UsageError, match="not a snapshot"):
            env.restore(1)
        assert env.step(1).observation == 1
        with pytest.raises(ew.EnvError, match="on demand") as caught:
            env.step("raise")
        assert [request.reason for request in caught.value.requests] == ["infra_error"]
        assert env.pending == ()
        assert kinds(env.reset().requests) == ["need_action"]


@BOTH
def test_a_tool_call_is_answered(url, kind):
    with kind(url) as env:
        env.reset()
        (call,) = env.step("search cats").requests
        assert (call.tool_name, call.arguments, env.pending) == ("search", {"value": "cats"}, (call,))
        with pytest.raises(UsageError, match="waiting for its reply"):
            env.step(1)
        assert env.respond(call.request_id, "three").observation == "three"
        assert kinds(env.pending) == ["need_action"]


@BOTH
def test_snapshots_and_forks_stay_on_the_server(url, kind):
    with kind(url) as env:
        env.reset()
        env.step(1)
        snapshot = env.snapshot()
        twin = env.fork()
        assert kinds(twin.pending) == ["need_action"]
        assert type(twin) is kind
        assert twin.step(2).observation == 3
        assert env.step(1).observation == 2
        env.restore(snapshot)
        assert kinds(env.pending) == ["need_action"]
        assert env.step(3).observation == 4
        assert twin.id != env.id
        twin.close()
        assert env.step(0).observation == 4
        with pytest.raises(UsageError):
            env.restore(type(snapshot)(snapshot.server, "unknown"))
        with pytest.raises(UsageError, match="a snapshot of"):
            env.restore(type(snapshot)("http://elsewhere", snapshot.name))


@BOTH
def test_autoreset_happens_on_the_server(url, kind):
    with kind(url, autoreset=True, max_episode_steps=2) as env:
        env.reset()
        first = env.step(5)
        assert (first.observation, kinds(first.requests)) == (5, ["episode_end", "autoreset_ready", "need_action"])
        env.step(1)
        assert env.step(1).requests[0].reason == "truncated"


def test_a_late_answer_is_waited_for_again_and_never_mixed_up(url):
    with EnvClient(url, message_timeout_s=0.5) as env:
        env.reset()
        with pytest.raises(WaitTimeoutError, match="not lost"):
            env.step("sleep 1.5")
        for call in (lambda: env.step(1), env.state, env.reset):
            with pytest.raises(BusyError):
                call()
        with pytest.raises(WaitTimeoutError):
            env.last()
        with pytest.raises(BusyError, match="last"):
            env.step(1)
        assert patiently(WaitTimeoutError, env.last).observation == 1
        with pytest.raises(UsageError):
            env.last()
        assert env.step(1).observation == 2


def test_a_reset_gives_up_a_late_answer_and_its_end_is_not_lost(url):
    with EnvClient(url, message_timeout_s=0.5) as env:
        env.reset(start=4)
        with pytest.raises(WaitTimeoutError):
            env.step("sleep 0.8")
        reset = patiently(BusyError, env.reset)
        assert [r.reason for r in reset.requests if r.kind == "episode_end"] == ["terminated"]
        assert env.step(1).observation == 1


def test_a_cancelled_step_goes_on_and_its_answer_can_be_had(url):
    async def play():
        async with EnvClient(url) as env:
            await env.reset()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(env.step("sleep 0.3"), 0.1)
            with pytest.raises(BusyError):
                await env.step(1)
            return (await env.last()).observation, (await env.step(1)).observation

    assert asyncio.run(play()) == (1, 2)


def test_a_second_call_at_the_same_time_is_refused(url):
    async def play():
        async with EnvClient(url) as env:
            await env.reset()
            slow = asyncio.create_task(env.step("sleep 0.2"))
            await asyncio.sleep(0.05)
            with pytest.raises(BusyError):
                await env.step(1)
            return (await slow).observation

    assert asyncio.run(play()) == 1


def test_closing_in_the_middle_of_a_step_ends_both(url):
    async def play():
        env = EnvClient(url).aio
        await env.reset()
        slow = asyncio.create_task(env.step("sleep 0.3"))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await env.close()
        with pytest.raises(ClosedError):
            await slow
        return time.monotonic() - began

    assert asyncio.run(play()) < 5


def test_a_connection_that_drops_costs_nothing(network):
    with EnvClient(network.url) as env:
        env.reset()
        for at in range(1, 4):
            network.cut()
            result = env.step(1)
            assert result.observation == at
        assert env.state()["at"] == 3
        assert network.connections >= 4


def test_a_step_under_way_when_the_connection_drops_is_run_once(network):
    with EnvClient(network.url) as env:
        env.reset()
        before = env.state()["runs"]
        later(0.1, network.cut)
        later(0.2, network.cut)
        result = env.step("sleep 0.4")
        assert (result.observation, result.info["runs"]) == (1, before + 2)


def test_http_calls_are_sent_again_and_run_once(network):
    with HTTPEnvClient(network.url) as env:
        env.reset()
        before = env.state()["runs"]
        later(0.1, network.cut)
        result = env.step("sleep 0.3")
        assert (result.observation, result.info["runs"]) == (1, before + 2)
        network.cut()
        assert env.step(1).observation == 2


def test_the_network_may_be_away_for_a_while(network):
    with EnvClient(network.url) as env:
        env.reset()

        def back():
            network.down = False

        network.down = True
        network.cut()
        later(0.5, back)
        assert env.step(1).observation == 1


@BOTH
def test_a_network_that_stays_away_is_a_lost_session_with_the_end_of_its_episode(url, kind):
    network = Network(url)
    with kind(network.url, connect_timeout_s=0.5) as env:
        env.reset()
        network.down = True
        network.cut()
        began = time.monotonic()
        with pytest.raises(SessionLostError) as caught:
            env.step(1)
        assert 0.2 < time.monotonic() - began < 10
        assert [request.reason for request in caught.value.requests] == ["infra_error"]
        with pytest.raises(SessionLostError) as caught:
            env.step(1)
        assert caught.value.requests == ()
        with pytest.raises(TransportError):
            env.reset()
        network.down = False
        assert kinds(env.reset().requests) == ["need_action"]
        assert env.step(1).observation == 1
    network.close()


def test_a_session_that_the_server_ends_while_nobody_looks_is_lost_and_reset_begins_a_new_one():
    with running(idle_timeout=0.5) as server, EnvClient(server.url) as env:
        env.reset()
        eventually(server, "envweave_sessions 0.0")
        with pytest.raises(SessionLostError) as caught:
            env.step(1)
        assert [request.reason for request in caught.value.requests] == ["infra_error"]
        env.reset()
        assert env.step(1).observation == 1
        eventually(server, "envweave_sessions 0.0")
        assert [r.reason for r in env.reset().requests if r.kind == "episode_end"] == ["infra_error"]


@BOTH
def test_an_environment_that_dies_in_a_process_of_its_own_costs_its_episode(kind):
    with running(isolation="process") as server, kind(server.url) as env:
        env.reset()
        with pytest.raises(ProviderError) as caught:
            env.step("exit")
        assert [request.reason for request in caught.value.requests] == ["infra_error"]
        for _ in range(2):
            with pytest.raises(ResetNeededError):
                env.step(1)
        env.reset()
        assert env.step(1).observation == 1


def test_a_server_that_is_restarted_has_lost_its_sessions():
    first = Server()
    network = Network(first.url)
    with EnvClient(network.url, connect_timeout_s=20) as env:
        env.reset()
        second = Server()
        network._target = second.url.removeprefix("http://").split(":")
        first.stop()
        with pytest.raises(SessionLostError):
            env.step(1)
        env.reset()
        assert env.step(1).observation == 1
    second.stop()
    network.close()


@BOTH
def test_a_token_is_wanted_and_given(kind, monkeypatch):
    monkeypatch.delenv("ENVWEAVE_TOKEN", raising=False)
    with running(token="secret") as server:
        for wrong in (None, "wrong"):
            with pytest.raises(UnauthorizedError), kind(server.url, token=wrong) as env:
                env.reset()
        with kind(server.url, token="secret") as env:
            env.reset()
            assert "secret" not in repr(env) + repr(vars(env))
        monkeypatch.setenv("ENVWEAVE_TOKEN", "secret")
        with kind(server.url) as env:
            env.reset()


@BOTH
def test_a_full_server_refuses(kind):
    with running(max_sessions=1) as server, kind(server.url) as first:
        first.reset()
        with pytest.raises(CapacityError):
            kind(server.url).connect()
        first.close()
        kind(server.url).connect().close()


@BOTH
def test_arguments_reach_the_factory_where_the_server_allows_it(url, kind):
    with pytest.raises(UsageError, match="arguments"):
        kind(url, arguments={"start": 2}).connect()
    with running(allow_arguments=True) as server, kind(server.url, arguments={"start": 2}) as env:
        assert env.reset().observation == 2


def test_a_message_that_is_too_large_for_the_server_is_refused_and_the_session_lives():
    with running(max_message_bytes=2000) as server, EnvClient(server.url) as env:
        env.reset()
        with pytest.raises(TransportError):
            env.step("x" * 5000)
        assert env.step(1).observation == 1


def test_an_answer_that_is_too_large_for_the_client_fails_its_call_and_the_session_lives(url):
    with EnvClient(url, max_message_bytes=10_000) as env:
        env.reset()
        env.step(1)
        with pytest.raises(TransportError, match=r"max_message_bytes|too big"):
            env.step("large 50000")
        assert env.step(1).observation == 2


def test_a_session_that_nobody_waits_for_any_more_is_closed_when_it_opens():
    async def play(address):
        endpoint = ServerEndpoint(address=Address.parse(address))
        connection = ServerConnection(endpoint)
        first = await connection.open(SessionSpec())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.open(SessionSpec(arguments={"build": 0.3})), 0.1)
        end = time.monotonic() + 10
        while True:
            try:
                second = await connection.open(SessionSpec())
                break
            except CapacityError:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)
        for session in (first, second):
            await session.leave()

    with running(max_sessions=2, allow_arguments=True) as server:
        asyncio.run(play(server.url))


def test_an_environment_that_is_not_built_in_time_is_a_transport_error():
    with running(allow_arguments=True) as server, pytest.raises(TransportError, match=r"open within 0\.1 s"):
        EnvClient(server.url, arguments={"build": 0.5}, message_timeout_s=0.1).connect()


def test_nobody_there_is_said_with_what_to_do():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    for kind in (EnvClient, HTTPEnvClient):
        began = time.monotonic()
        with pytest.raises(TransportError, match="cannot reach") as caught:
            kind(address, connect_timeout_s=0.3).connect()
        assert "envweave serve" in caught.value.hint
        assert time.monotonic() - began < 10
    with pytest.raises(TransportError):
        connect(address, connect_timeout_s=0.1)


def test_a_client_waits_for_a_server_that_starts():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    started = []

    def start():
        command = [sys.executable, "-m", "envweave", "serve", "counter", "--port", str(port)]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))

    later(0.3, start)
    try:
        with connect(f"ws://127.0.0.1:{port}/ws", connect_timeout_s=60) as env:
            assert env.reset().observation.value == 0
    finally:
        started[0].kill()
        started[0].wait()


def test_one_client_goes_on_from_one_event_loop_to_the_next(url):
    client = EnvClient(url)

    async def play():
        return (await client.aio.step(1)).observation

    async def begin():
        await client.aio.reset()

    asyncio.run(begin())
    assert [asyncio.run(play()), asyncio.run(play()), client.step(1).observation] == [1, 2, 3]
    client.close()


def _use_in_child(client, answers):
    try:
        client.step(1)
    except ew.EnvWeaveError as error:
        answers.put(type(error).__name__)


def test_a_forked_process_does_not_speak_on_its_parents_connection(url):
    with EnvClient(url) as env:
        env.reset()
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        child = context.Process(target=_use_in_child, args=(env, answers))
        child.start()
        assert answers.get(timeout=10) == "ClosedError"
        child.join()
        assert env.step(1).observation == 1


def test_several_agents_are_typed_one_by_one():
    command = [sys.executable, "-m", "envweave", "serve", "rock-paper-scissors", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().split(" at ")[1].split()[0]
        from envweave.envs.rock_paper_scissors import Throw

        with EnvClient(address, action_type=Throw) as env:
            assert sorted(env.reset().observation) == ["left", "right"]
            result = env.step({"left": Throw("rock"), "right": {"hand": "paper"}})
            assert result.reward == {"left": -1.0, "right": 1.0}
            assert env.action_schema("left") == env.action_schema("right")
            with pytest.raises(InvalidActionError):
                env.step({"left": Throw("rock"), "right": {"hand": "stone"}})
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def vector(url):
    made = []

    def make(num_envs=3, address=url, **options):
        made.append(connect_vector(address, num_envs, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_vector_steps_many_sessions_over_one_connection(network, vector):
    vec = vector(3, network.url)
    assert vec.ids == ["walker#0", "walker#1", "walker#2"]
    obs, info = vec.reset(seed=7, start=0)
    assert (obs, [one["seed"] for one in info]) == ([0, 0, 0], [7, 8, 9])
    batch = vec.step([1, 2, 3])
    obs, reward, terminated, truncated, _ = batch
    assert (obs, reward, terminated, truncated) == ([1, 2, 3], [1.0, 2.0, 3.0], [False] * 3, [False] * 3)
    assert (batch.ids, batch.incarnations, batch.steps) == ([0, 1, 2], [0, 0, 0], [1, 1, 1])
    assert [request.env_id for requests in batch.requests for request in requests] == vec.ids
    assert vec.step({2: 1, 0: 1}).obs == [4, 2]
    assert vec.reset(ids=[1], start=0).obs == [0]
    assert vec.step([0, 0, 0]).steps == [3, 1, 3]
    assert network.connections == 1


def test_a_refused_action_is_named_and_nothing_has_changed(vector):
    vec = vector(3)
    vec.reset()
    for _ in range(2):
        with pytest.raises(InvalidActionError, match=r"environment 2: .*does not fit"):
            vec.step([1, 1, [1]])
        with pytest.raises(InvalidActionError, match="environment 0: "):
            vec.step([{1}, 1, 1])
    assert vec.in_flight == []
    assert vec.step([0, 0, 0]).obs == [0, 0, 0]
    vec.send([[1], 1], [0, 1])
    with pytest.raises(InvalidActionError, match="environment 0: "):
        vec.recv(min_ready=2, timeout=10)
    with pytest.raises(UsageError, match="environment 0: reset has no option 'strat'"):
        vec.reset(strat=1)
    assert vec.step([1, 1, 1]).obs == [1, 1, 1]


def test_a_refusal_is_told_to_whoever_waits_for_those_rows(vector):
    vec = vector(3)
    vec.reset()
    vec.send([[1]], [0])
    assert vec.step([1], ids=[1]).obs == [1]
    vec.step_async([[1]], ids=[2])
    assert vec.in_flight == [0, 2]
    with pytest.raises(InvalidActionError, match="environment 0: "):
        vec.recv(min_ready=1, timeout=10)
    assert vec.in_flight == [2]
    with pytest.raises(InvalidActionError, match="environment 2: "):
        vec.step_wait(timeout=10)
    assert vec.in_flight == []
    assert vec.step([1, 1, 1]).obs == [1, 2, 1]


def test_a_finished_environment_must_be_reset(vector):
    vec = vector(3)
    with pytest.raises(ResetNeededError, match=r"environment 0: .*not reset yet"):
        vec.step([1, 1, 1])
    vec.reset()
    assert vec.step([1, 5, 1]).done == [False, True, False]
    with pytest.raises(ResetNeededError, match="environment 1") as caught:
        vec.step([1, 1, 1])
    assert "ids=[1]" in caught.value.hint
    vec.reset(ids=[1])
    assert vec.step([1, 1, 1]).obs == [2, 1, 2]


def test_one_failure_costs_one_row_and_its_session_is_replaced(vector):
    vec = vector(3)
    vec.reset()
    batch = vec.step([1, "raise", 1])
    assert (batch.obs, batch.reward, batch.done) == ([1, 0, 1], [1.0, None, 1.0], [False, True, False])
    assert [r.reason for r in batch.requests[1] if r.kind == "episode_end"] == ["infra_error"]
    assert list(batch.failures) == [1]
    with pytest.raises(ResetNeededError):
        vec.step([1, 1, 1])
    assert vec.reset(ids=[1]).incarnations == [1]
    assert vec.step([1, 1, 1]).obs == [2, 1, 2]
    refused = vec.step([0, "refuse", 0])
    assert (refused.reward, refused.done) == ([0.0, None, 0.0], [False] * 3)
    assert refused.failures[1]["code"] == "usage.invalid_action"
    assert kinds(refused.requests[1]) == ["need_action"]


def test_autoreset_in_a_vector_goes_on_after_ends_and_failures(vector):
    vec = vector(2, autoreset=True)
    vec.reset()
    batch = vec.step([5, "raise"])
    assert (batch.obs, batch.reward, batch.done) == ([5, 0], [5.0, None], [True, True])
    for requests in batch.requests:
        assert kinds(requests) == ["episode_end", "autoreset_ready", "need_action"]
    after = vec.step([1, 1])
    assert (after.obs, after.steps, after.incarnations) == ([1, 1], [1, 1], [0, 1])


def test_rows_come_as_they_are_ready(vector):
    vec = vector(3)
    vec.reset()
    vec.send(["sleep 0.5", 1, 1])
    first = vec.recv(min_ready=2, timeout=10)
    assert (sorted(first.ids), vec.in_flight) == ([1, 2], [0])
    assert len(vec.recv(timeout=0)) == 0
    with pytest.raises(BusyError):
        vec.step([1, 1, 1])
    vec.send_reset([1], start=3)
    both = vec.recv(min_ready=2, timeout=10)
    assert dict(zip(both.ids, both.obs, strict=True)) == {0: 1, 1: 3}
    vec.step_async([0, 0, "sleep 0.3"])
    with pytest.raises(WaitTimeoutError):
        vec.step_wait(timeout=0.1)
    assert vec.step_wait(timeout=10).obs == [1, 3, 2]


def test_a_tool_call_of_a_vector_is_answered(vector):
    vec = vector(2)
    vec.reset()
    calls = [requests[0] for requests in vec.step(["search a", "search b"]).requests]
    with pytest.raises(UsageError, match="environment 0: tool call") as caught:
        vec.step([0, 0])
    assert "vector.respond(0, " in caught.value.hint
    assert vec.respond(0, calls[0].request_id, "found").obs == ["found"]
    vec.send_response(1, calls[1].request_id, "later")
    assert vec.recv(timeout=10).obs == ["later"]
    with pytest.raises(UsageError):
        vec.respond(0, "nobody", 1)


def test_a_connection_that_drops_costs_a_vector_nothing(network, vector):
    vec = vector(8, network.url)
    vec.reset()
    runs = vec.step([0] * 8).info[0]["runs"]
    later(0.1, network.cut)
    later(0.2, network.cut)
    batch = vec.step(["sleep 0.4"] + [1] * 7, timeout=20)
    assert batch.obs == [1] * 8
    assert max(info["runs"] for info in batch.info) <= runs + 8 + 1 + 8
    network.cut()
    assert vec.step([1] * 8, timeout=20).obs == [2] * 8


def test_sessions_that_are_lost_cost_their_rows_and_come_back_with_a_reset():
    first, second = Server(), Server()
    network = Network(first.url)
    with connect_vector(network.url, 3, connect_timeout_s=20) as vec:
        vec.reset()
        network._target = second.url.removeprefix("http://").split(":")
        first.stop()
        batch = vec.step([1, 1, 1], timeout=30)
        assert (batch.reward, batch.done) == ([None] * 3, [True] * 3)
        assert [requests[0].reason for requests in batch.requests] == ["infra_error"] * 3
        assert vec.reset().incarnations == [1, 1, 1]
        assert vec.step([1, 1, 1]).obs == [1, 1, 1]
    second.stop()
    network.close()


def test_closing_a_vector_closes_its_sessions_on_the_server():
    with running(max_sessions=4) as server:
        for _ in range(2):
            vec = connect_vector(server.url, 4)
            vec.reset()
            vec.send([1, "sleep 0.2", 1, 1])
            assert vec.close() == []
            assert vec.close() == []
            for call in (vec.reset, vec.recv, lambda vec=vec: vec.step([1] * 4)):
                with pytest.raises(ClosedError):
                    call()
        with pytest.raises(CapacityError):
            connect_vector(server.url, 5)
        connect_vector(server.url, 4).close()
