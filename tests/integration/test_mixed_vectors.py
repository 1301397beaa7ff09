"""Environments of this process and of servers in one vector."""

import os
import signal
import socket
import threading
from contextlib import contextmanager

import pytest

import envweave as ew
from envweave.envs.counter import CounterEnv, Increment
from envweave.envs.lineworld import LineWorldEnv
from envweave.errors import BusyError, InvalidActionError, ResetNeededError, UsageError
from envweave.testing.serving import running_server

RIGHT, ONE = {"move": 1}, {"delta": 1}


@pytest.fixture(scope="module")
def url():
    with running_server("lineworld?size=3") as server:
        yield server.url


@pytest.fixture(params=[{}, {"backend": "thread"}], ids=["inproc", "thread"])
def local(request):
    """Where the environments of this process run."""
    return request.param


class Fragile:
    """Does what the action says."""

    def reset(self):
        self.count = 0
        return 0

    def step(self, action: str):
        if action == "raise":
            raise OSError("as you say")
        if action == "refuse":
            raise InvalidActionError("not now")
        self.count += 1
        return self.count, 1.0, action == "end", False, {}


def test_rows_are_in_the_order_of_the_list(url, local):
    with ew.make_vector(["lineworld", url, "counter", url], **local) as vec:
        assert vec.ids == ["lineworld#0", "lineworld#1", "counter#2", "lineworld#3"]
        obs, info = vec.reset(seed=0)
        assert (len(obs), len(info)) == (4, 4)
        batch = vec.step([RIGHT, RIGHT, {"delta": 2}, RIGHT])
        assert (batch.ids, batch.steps) == ([0, 1, 2, 3], [1, 1, 1, 1])
        assert (batch.reward[0], batch.reward[1], batch.reward[3]) == (-0.01, -0.01, -0.01)
        assert batch.obs[2].value == 2
        assert batch.obs[1].pos == batch.obs[3].pos == 1
        assert [request.env_id for requests in batch.requests for request in requests] == vec.ids
        turned = vec.step({3: RIGHT, 2: ONE, 0: RIGHT})
        assert (turned.ids, turned.steps) == ([3, 2, 0], [2, 2, 2])


def test_ready_first_gives_every_row_once(url, local):
    with ew.make_vector(["counter", url, url], **local) as vec:
        vec.send_reset(seed=1)
        assert sorted(vec.recv(min_ready=3, timeout=60).ids) == [0, 1, 2]
        vec.send([ONE, RIGHT, RIGHT])
        with pytest.raises(BusyError):
            vec.send([RIGHT], [1])
        first = vec.recv(min_ready=2, max_ready=2, timeout=60)
        second = vec.recv(min_ready=1, timeout=60)
        assert sorted(first.ids + second.ids) == [0, 1, 2]
        assert vec.in_flight == []


def test_a_wrong_action_is_named_and_no_environment_has_changed(url, local):
    with ew.make_vector(["counter", url], **local) as vec:
        vec.reset()
        with pytest.raises(InvalidActionError, match="environment 0: "):
            vec.step([{"delta": "x"}, RIGHT])
        with pytest.raises(InvalidActionError, match="environment 1: "):
            vec.step([ONE, {1, 2}])
        assert vec.step([ONE, RIGHT]).steps == [1, 1]


def test_an_action_that_only_the_server_refuses_is_the_failure_of_its_row(url, local):
    with ew.make_vector(["counter", url, url], **local) as vec:
        vec.reset()
        batch = vec.step([ONE, RIGHT, {"move": 7}], timeout=60)
        assert batch.reward[0] == 1.0
        assert batch.reward[2] is None
        assert batch.failures[2]["code"] == "usage.invalid_action"
        assert batch.done == [False] * 3
        both = vec.step([ONE, RIGHT, RIGHT], timeout=60)
        assert (both.obs[0].value, both.failures) == (2, {})


def test_an_action_that_a_local_environment_refuses_is_the_failure_of_its_row(url, local):
    with ew.make_vector([Fragile, url], **local) as vec:
        vec.reset()
        batch = vec.step(["refuse", RIGHT])
        assert (batch.reward, list(batch.failures)) == ([None, -0.01], [0])
        assert vec.step(["go on", RIGHT]).steps == [1, 2]


def test_a_failure_affects_only_its_own_row(url, local):
    with ew.make_vector([Fragile, url, Fragile], **local) as vec:
        vec.reset()
        batch = vec.step(["raise", RIGHT, "go on"])
        assert (batch.reward, batch.done) == ([None, -0.01, 1.0], [True, False, False])
        with pytest.raises(ResetNeededError, match="environment 0"):
            vec.step(["go on", RIGHT, "go on"])
        assert vec.reset(ids=[0]).incarnations == [1]
        assert vec.step(["go on", RIGHT, "go on"]).steps == [1, 2, 2]


def test_episodes_of_both_kinds_begin_by_themselves(url, local):
    with ew.make_vector([Fragile, url], autoreset=True, **local) as vec:
        vec.reset()
        batch = vec.step(["end", RIGHT])
        for _ in range(20):
            if batch.done[1]:
                break
            batch = vec.step(["end", RIGHT])
        assert batch.done == [True, True]
        for requests in batch.requests:
            assert [request.kind for request in requests] == ["episode_end", "autoreset_ready", "need_action"]
        assert vec.step(["raise", RIGHT]).requests[0][-2].kind == "autoreset_ready"
        assert vec.step(["go on", RIGHT]).incarnations == [1, 0]


def test_names_classes_factories_instances_specs_and_urls_may_be_in_one_list(url, local):
    own = CounterEnv(done_at=5)
    sources = ["counter", CounterEnv, lambda: CounterEnv(done_at=9), own, ew.spec("counter"), LineWorldEnv, url]
    with ew.make_vector(sources, **local) as vec:
        vec.reset()
        batch = vec.step([Increment(1)] * 5 + [RIGHT] * 2)
        assert [observation.value for observation in batch.obs[:5]] == [1] * 5
        assert [observation.pos for observation in batch.obs[5:]] == [1, 1]
        assert [id.rpartition("#")[2] for id in vec.ids] == [str(number) for number in range(7)]


def test_an_instance_can_be_used_once_and_takes_no_arguments_and_no_server():
    own = CounterEnv()
    with pytest.raises(UsageError, match="one instance"):
        ew.make_vector([own, own])
    for wrong in ({"done_at": 3}, {"backend": "subprocess"}, {"backend": "nowhere"}):
        with pytest.raises(UsageError):
            ew.make_vector([own, CounterEnv()], **wrong)


def test_the_options_of_a_connection_are_not_for_the_environments_of_this_process():
    with running_server("lineworld", "--token", "secret") as server:
        with pytest.raises(ew.errors.UnauthorizedError):
            ew.make_vector(["counter", server.url])
        with ew.make_vector(["counter", server.url], token="secret") as vec:
            vec.reset()
            assert vec.step([ONE, RIGHT]).steps == [1, 1]


def test_a_server_that_cannot_be_reached_leaves_nothing_open():
    closed = []

    class Closes(CounterEnv):
        def close(self):
            closed.append(1)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ew.errors.TransportError):
        ew.make_vector([Closes, Closes, f"http://127.0.0.1:{port}"], connect_timeout_s=0.1)
    assert closed == [1, 1]


@contextmanager
def counting_proxy(url):
    """A way to the server that counts connections."""
    host, port = url.removeprefix("http://").split(":")
    accepted = []
    listener = socket.create_server(("127.0.0.1", 0))

    def copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        target.close()

    def serve():
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection((host, int(port)))
            accepted.append((client, server))
            for ends in ((client, server), (server, client)):
                threading.Thread(target=copy, args=ends, daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", accepted
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for pair in accepted:
            for end in pair:
                end.close()


def test_one_url_that_occurs_several_times_is_one_connection(url):
    with (
        counting_proxy(url) as (address, accepted),
        ew.make_vector(["counter", address, LineWorldEnv, address, address]) as vec,
    ):
        vec.reset()
        assert vec.step([ONE] + [RIGHT] * 4).steps == [1] * 5
        assert len(accepted) == 1


def test_when_one_of_two_servers_dies_the_rows_of_the_other_go_on(local):
    with (
        running_server("lineworld") as first,
        running_server("lineworld") as second,
        ew.make_vector(["counter", first.url, second.url, first.url], connect_timeout_s=1, **local) as vec,
    ):
        vec.reset()
        os.kill(first.pid, signal.SIGKILL)
        batch = vec.step([ONE] + [RIGHT] * 3, timeout=60)
        assert sorted(batch.failures) == [1, 3]
        assert {error["code"] for error in batch.failures.values()} == {"transport.session_lost"}
        for id in (1, 3):
            (end,) = batch.requests[id]
            assert (end.kind, end.reason, end.env_id) == ("episode_end", "infra_error", f"lineworld#{id}")
        assert vec.step({0: ONE, 2: RIGHT}).steps == [2, 2]
        again = vec.reset(ids=[1, 2, 3])
        assert sorted(again.failures) == [1, 3]
        assert vec.step({0: ONE, 2: RIGHT}).steps == [3, 1]
