"""What users of OpenEnv's client write works with ours, on a server of ours."""

import asyncio

import pytest

import envweave as ew
from envweave.client import EnvClient
from envweave.envs.echo import EchoAction, EchoEnv
from envweave.errors import ClosedError, TransportError
from envweave.testing import running_server


@pytest.fixture(scope="module")
def url():
    with running_server("echo") as server:
        yield server.url


def test_a_client_is_connected_by_await(url):
    async def play():
        client = await EchoEnv(url).connect()
        assert client.connected
        result = await client.aio.reset()
        await client.aio.close()
        return result

    assert asyncio.run(play()).observation.echoed_message


def test_connecting_in_a_coroutine_without_await_leaves_it_to_the_first_call(url):
    async def play():
        client = EchoEnv(url).connect()
        assert not client.connected
        async with client.aio as env:
            await env.reset()
        return client.connected

    assert asyncio.run(play())


def test_timeouts_and_the_size_of_messages_are_given_as_in_openenv(url):
    client = EchoEnv(url, 3.0, 4.0, 0.01)
    limits = (client.endpoint.connect_timeout_s, client.endpoint.message_timeout_s, client.endpoint.max_message_bytes)
    assert limits == (3.0, 4.0, 10485)
    with EchoEnv(url, max_message_size_mb=0.01) as env:
        env.reset()
        with pytest.raises(TransportError, match="too big"):
            env.step(EchoAction("x" * 20_000))


def test_a_server_whose_greeting_is_too_big_is_named_as_such(url):
    with pytest.raises(TransportError, match="too big"):
        EchoEnv(url, max_message_size_mb=0.001).connect()


def test_a_new_session_has_an_episode_of_its_own_and_ends_with_its_parent(url):
    with EchoEnv(url) as parent:
        child = parent.new_session()
        assert isinstance(child, EchoEnv)
        parent.reset(episode_id="parent")
        child.reset(episode_id="child")
        assert (parent.state().episode_id, child.state().episode_id) == ("parent", "child")
    with pytest.raises(ClosedError):
        child.reset()


def test_a_connection_that_failed_can_be_tried_again(url):
    client = EnvClient("http://127.0.0.1:1", connect_timeout_s=0.1)
    for _ in range(2):
        with pytest.raises(TransportError, match="cannot reach"):
            client.connect()
    client.close()


def test_from_env_is_from_hub():
    with pytest.raises(ew.UsageError, match="Space"):
        EchoEnv.from_env("not a space")
    with pytest.raises(ew.UsageError, match="Space"):
        EchoEnv.from_hub("not a space")
