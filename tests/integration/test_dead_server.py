"""A server that dies is found out about once, however many environments it had."""

import os
import signal

import pytest

import envweave as ew
from envweave.client import EnvClient, HTTPEnvClient
from envweave.errors import SessionLostError
from envweave.testing.serving import running_server

pytestmark = pytest.mark.timeout(60)
SEARCH = 2.0
"""Seconds that a client looks for its server. 64 searches, one after the other, would take longer than a test may."""

RIGHT = {"move": 1}


def killed(server):
    os.kill(server.pid, signal.SIGKILL)
    server.process.wait()


def is_transport_failure(batch):
    return all(error["code"].startswith("transport") for error in batch.failures.values())


@pytest.mark.parametrize("num_envs", [1, 64])
def test_a_reset_fails_in_all_rows_after_one_search(num_envs):
    with running_server("lineworld") as server, ew.make_vector(server.url, num_envs, connect_timeout_s=SEARCH) as vec:
        vec.reset()
        killed(server)
        batch = vec.reset()
        assert sorted(batch.failures) == list(range(num_envs))
        assert is_transport_failure(batch)
        ends = [request for requests in batch.requests for request in requests if request.kind == "episode_end"]
        assert [end.env_id for end in ends] == vec.ids
        assert vec.close() == []


@pytest.mark.parametrize("client", [EnvClient, HTTPEnvClient])
def test_a_reset_of_one_handle_looks_for_the_server_once(client):
    with running_server("lineworld") as server, client(server.url, connect_timeout_s=1.0) as env:
        env.reset()
        killed(server)
        with pytest.raises(SessionLostError):  # a second search, for a new session, would raise TransportError
            env.reset()


def test_a_step_with_autoreset_fails_in_all_rows_and_so_does_the_next_one():
    options = {"autoreset": True, "connect_timeout_s": SEARCH}
    with running_server("lineworld") as server, ew.make_vector(server.url, 64, **options) as vec:
        vec.reset()
        killed(server)
        for number in range(2):
            batch = vec.step([RIGHT] * 64)
            assert len(batch.failures) == 64
            assert is_transport_failure(batch)
            kinds = [[request.kind for request in requests] for requests in batch.requests]
            assert kinds == [["log_event"] if number else ["episode_end", "log_event"]] * 64


def test_rows_come_back_when_the_server_does():
    with running_server("lineworld") as first:
        port = first.url.rpartition(":")[2]
        vec = ew.make_vector(first.url, 8, connect_timeout_s=1)
        vec.reset()
        killed(first)
        assert len(vec.step([RIGHT] * 8).failures) == 8
        assert len(vec.reset().failures) == 8
    with running_server("lineworld", "--port", port), vec:
        reset = vec.reset()
        assert (reset.failures, reset.incarnations) == ({}, [1] * 8)
        for number in range(1, 3):
            batch = vec.step([RIGHT] * 8)
            assert (batch.steps, batch.failures) == ([number] * 8, {})


def test_a_server_that_is_replaced_unseen_costs_the_episodes_and_the_reset_works():
    with running_server("lineworld") as first:
        port = first.url.rpartition(":")[2]
        vec = ew.make_vector(first.url, 8, connect_timeout_s=60)
        vec.reset()
        vec.step([RIGHT] * 8)
        killed(first)
        with running_server("lineworld", "--port", port), vec:
            reset = vec.reset()
            assert (reset.failures, reset.incarnations, reset.steps) == ({}, [1] * 8, [0] * 8)
            assert [requests[0].kind for requests in reset.requests] == ["episode_end"] * 8
            assert vec.step([RIGHT] * 8).steps == [1] * 8
