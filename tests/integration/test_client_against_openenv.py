"""Our client and an unmodified OpenEnv server, which runs in a process of its own."""

import asyncio
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import pydantic
import pytest

import envweave as ew
from envweave.client import EnvClient, HTTPEnvClient, connect, connect_vector
from envweave.errors import (
    CapacityError,
    ClosedError,
    InvalidActionError,
    ProtocolError,
    ResetNeededError,
    SessionLostError,
    TransportError,
    UnsupportedError,
    UsageError,
)

SCRIPT = Path(__file__).parent / "openenv_peer" / "server.py"


class Peer:
    """An OpenEnv server. `stop` it."""

    def __init__(self, sessions=64):
        environment = {**os.environ, "PEER_SESSIONS": str(sessions)}
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"
        end = time.monotonic() + 60
        while True:
            try:
                assert httpx.get(f"{self.url}/health").status_code == 200
                return
            except httpx.TransportError:
                assert time.monotonic() < end, "the server does not start"
                time.sleep(0.05)

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def url():
    peer = Peer()
    yield peer.url
    peer.stop()


@dataclass
class Say(ew.Action):
    message: str


@dataclass
class Heard(ew.Observation):
    echoed_message: str
    message_length: int


class PeerEnv(EnvClient[Say, Heard, ew.State]):
    pass


def kinds(requests):
    return [request.kind for request in requests]


def test_an_episode_with_types(url):
    with PeerEnv(url) as env:
        reset = env.reset(seed=7, episode_id="mine")
        assert reset.observation == Heard("ready", 0, reward=0.0)
        assert kinds(reset.requests) == ["need_action"]
        assert reset.requests[0].action_schema["required"] == ["message"]
        result = env.step(Say("hello"))
        assert result.observation == Heard("hello", 5, reward=0.5, metadata={"step": 1, "truncated": False})
        assert (result.reward, result.done, result.info["step"]) == (0.5, False, 1)
        assert env.state() == ew.State(episode_id="mine", step_count=1)
        last = env.step(Say("stop"))
        assert (last.terminated, last.truncated, last.observation.done) == (True, False, True)
        assert [request.reason for request in last.requests] == ["terminated"]
        with pytest.raises(ResetNeededError):
            env.step(Say("again"))
        assert env.close() == ()


def test_an_episode_without_types(url):
    with connect(url, max_episode_steps=2) as env:
        obs, info = env.reset(episode_id="mine", greeting="good morning")
        assert (obs.echoed_message, obs.reward, obs.done, info) == ("good morning", 0.0, False, {})
        obs, reward, terminated, truncated, info = env.step({"message": "hi"})
        assert (obs.message_length, reward, terminated, truncated) == (2, 0.2, False, False)
        assert env.state() == ew.State(episode_id="mine", step_count=1)
        assert env.action_schema()["title"] == "Say"
        result = env.step({"message": "hi"})
        assert (result.terminated, result.truncated) == (False, True)
        assert [request.reason for request in result.requests] == ["truncated"]
        env.reset()
        assert [request.reason for request in env.close()] == ["closed"]
        assert env.close() == ()
        with pytest.raises(ClosedError):
            env.reset()


def test_a_model_talks_to_an_openenv_server(url):
    with connect(url, chat=True) as env:
        first = {"role": "user", "content": "echoed_message: ready\nmessage_length: 0"}
        assert env.reset().obs.messages == [first]
        result = env.step({"role": "assistant", "content": "hello"})
        assert result.obs.messages == [{"role": "user", "content": "echoed_message: hello\nmessage_length: 5"}]
        assert result.reward == 0.5
        assert "empty" in env.step("").info["unreadable"]


def test_an_episode_with_await(url):
    async def play():
        async with PeerEnv(url) as env:
            await env.reset()
            return [(await env.step(Say("x" * n))).reward for n in range(4)]

    assert asyncio.run(play()) == [0.0, 0.1, 0.2, 0.3]


def test_many_sessions_on_one_loop_do_not_mix_up_their_answers(url):
    async def one(number):
        async with EnvClient(url).aio as env:
            await env.reset(episode_id=f"episode-{number}")
            for step in range(10):
                result = await env.step({"message": f"{number}-{step}"})
                assert result.observation.echoed_message == f"{number}-{step}"
            return (await env.state()).episode_id

    async def play():
        return await asyncio.gather(*(one(number) for number in range(16)))

    assert asyncio.run(play()) == [f"episode-{number}" for number in range(16)]


def test_one_client_works_from_sync_code_and_from_any_loop(url):
    client = PeerEnv(url)
    client.reset()

    async def use():
        assert (await client.aio.step(Say("await"))).observation.echoed_message == "await"

    asyncio.run(use())
    assert client.sync().step(Say("sync")).info["step"] == 2
    client.close()


def test_a_sync_call_inside_the_clients_own_loop_is_refused_instead_of_hanging(url):
    async def use():
        client = PeerEnv(url)
        async with client as env:
            await env.reset()
            with pytest.raises(UsageError, match="event loop"):
                client.step(Say("x"))
            assert (await env.step(Say("x"))).info["step"] == 1

    asyncio.run(use())


def test_hooks_written_for_openenv_work(url):
    class OwnResult:
        def __init__(self, observation, reward, done):
            self.observation, self.reward, self.done = observation, reward, done

    class OwnObservation(pydantic.BaseModel):
        echoed_message: str
        message_length: int
        metadata: dict = {}
        reward: float | None = None
        done: bool = False

    class OwnEnv(EnvClient):
        def _step_payload(self, action):
            return {"message": action.upper()}

        def _parse_result(self, payload):
            observation = OwnObservation(
                **payload["observation"], reward=payload.get("reward"), done=payload.get("done", False)
            )
            return OwnResult(observation, payload.get("reward"), payload.get("done", False))

        def _parse_state(self, payload):
            return payload["step_count"]

    with OwnEnv(url, autoreset=True) as env:
        assert env.reset().observation == OwnObservation(echoed_message="ready", message_length=0, reward=0.0)
        result = env.step("loud")
        assert (result.observation.echoed_message, result.reward, env.state()) == ("LOUD", 0.4, 1)
        assert kinds(result.requests) == ["need_action"]


def test_pydantic_models_that_forbid_unknown_keys_can_be_observations(url):
    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        echoed_message: str
        reward: float | None = None

    with EnvClient(url, observation_type=Strict) as env:
        env.reset()
        assert env.step({"message": "hi"}).observation == Strict(echoed_message="hi", reward=0.2)


def test_an_observation_that_does_not_fit_the_type_is_named(url):
    @dataclass
    class Other(ew.Observation):
        board: list[int]

    with EnvClient(url, observation_type=Other) as env, pytest.raises(ProtocolError, match="board"):
        env.reset()


def test_an_error_in_a_hook_is_raised_as_it_is(url):
    class Broken(EnvClient):
        def _parse_result(self, payload):
            raise KeyError("mine")

    with Broken(url) as env, pytest.raises(KeyError, match="mine"):
        env.reset()


def test_an_action_that_does_not_fit_is_refused_by_client_and_server_and_the_episode_goes_on(url):
    with PeerEnv(url) as typed, EnvClient(url) as plain:
        typed.reset()
        with pytest.raises(InvalidActionError, match="message"):
            typed.step({"massage": "x"})
        plain.reset()
        with pytest.raises(InvalidActionError, match="Field required"):
            plain.step({"massage": "x"})
        with pytest.raises(InvalidActionError, match="cannot be sent"):
            plain.step({"message": {1, 2}})
        assert plain.step({"message": "x"}).info["step"] == 1


def test_an_environment_that_raises_ends_the_episode_once_and_can_be_reset(url):
    with PeerEnv(url) as env:
        env.reset()
        with pytest.raises(ew.EnvError, match="fell over") as caught:
            env.step(Say("boom"))
        assert [request.reason for request in caught.value.requests] == ["infra_error"]
        with pytest.raises(ResetNeededError):
            env.step(Say("x"))
        with pytest.raises(ew.EnvError, match="no reset today"):
            env.reset(greeting="boom")
        assert kinds(env.reset().requests) == ["need_action"]
        assert env.step(Say("x")).info["step"] == 1


def test_autoreset_is_ours_and_keeps_the_last_observation(url):
    with PeerEnv(url, autoreset=True) as env:
        env.reset()
        for message, reason in (("stop", "terminated"), ("cut", "truncated")):
            result = env.step(Say(message))
            assert result.observation.echoed_message == message
            assert kinds(result.requests) == ["episode_end", "autoreset_ready", "need_action"]
            assert result.requests[0].reason == reason
            assert result.requests[1].initial_obs == Heard("ready", 0, reward=0.0)
        assert env.step(Say("x")).info["step"] == 1


def test_every_episode_ends_exactly_once(url):
    ends = []

    def note(requests):
        ends.extend(request.reason for request in requests if request.kind == "episode_end")

    with PeerEnv(url, message_timeout_s=1.0) as env:
        note(env.reset().requests)
        note(env.reset().requests)
        note(env.step(Say("stop")).requests)
        note(env.reset().requests)
        with pytest.raises(SessionLostError) as caught:
            env.step(Say("sleep 2"))
        note(caught.value.requests)
        note(env.reset().requests)
        note(env.close())
    assert ends == ["closed", "terminated", "infra_error", "closed"]


def test_a_step_that_takes_too_long_costs_the_session_and_never_answers_a_later_call(url):
    with PeerEnv(url, message_timeout_s=1.0) as env:
        env.reset()
        began = time.monotonic()
        with pytest.raises(SessionLostError, match="within 1 s"):
            env.step(Say("sleep 2"))
        assert time.monotonic() - began < 1.9
        env.reset()
        assert env.step(Say("x")).observation.echoed_message == "x"


def test_a_cancelled_step_never_answers_a_later_call(url):
    async def play():
        async with PeerEnv(url) as env:
            await env.reset()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(env.step(Say("sleep 1")), 0.1)
            assert kinds((await env.reset()).requests) == ["episode_end", "need_action"]
            return (await env.step(Say("x"))).observation.echoed_message

    assert asyncio.run(play()) == "x"


def test_an_action_after_its_deadline_ends_the_episode(url):
    with PeerEnv(url, deadline=0.05) as env:
        env.reset()
        time.sleep(0.1)
        assert [request.reason for request in env.step(Say("x")).requests] == ["timeout"]


def test_a_full_server_refuses_with_its_reason_and_takes_the_client_later():
    peer = Peer(sessions=1)
    try:
        with PeerEnv(peer.url) as first, PeerEnv(peer.url) as second:
            first.reset()
            with pytest.raises(CapacityError, match="capacity"):
                second.reset()
            first.close()
            end = time.monotonic() + 10
            while True:
                try:
                    second.reset()
                    break
                except CapacityError:
                    assert time.monotonic() < end
                    time.sleep(0.02)
            assert second.step(Say("x")).info["step"] == 1
    finally:
        peer.stop()


@pytest.mark.parametrize("how", ["killed", "exits"])
def test_a_server_that_dies_costs_the_episode_and_is_not_waited_for(how):
    peer = Peer()
    try:
        with PeerEnv(peer.url, connect_timeout_s=0.5) as env:
            env.reset()
            if how == "killed":
                peer.stop()
            began = time.monotonic()
            with pytest.raises(SessionLostError) as caught:
                env.step(Say("exit"))
            assert [request.reason for request in caught.value.requests] == ["infra_error"]
            with pytest.raises(ResetNeededError):
                env.step(Say("x"))
            with pytest.raises(TransportError, match="cannot reach"):
                env.reset()
            assert time.monotonic() - began < 10
            assert env.close() == ()
    finally:
        if how == "exits":
            peer.stop()


def test_what_an_openenv_server_cannot_do_is_refused(url):
    with PeerEnv(url) as env:
        env.reset()
        for call in (env.render, env.snapshot, env.fork, env.last):
            with pytest.raises(UnsupportedError):
                call()
    with pytest.raises(UnsupportedError, match="arguments"):
        connect(url, arguments={"size": 3})
    with pytest.raises(UnsupportedError, match="EnvClient") as caught, HTTPEnvClient(url):
        pass
    assert "WebSocket" in caught.value.hint


def test_many_environments_of_an_openenv_server_are_a_vector(url):
    with connect_vector(url, 4, autoreset=True) as vec:
        assert [obs.echoed_message for obs in vec.reset().obs] == ["ready"] * 4
        batch = vec.step([{"message": "a"}, {"message": "stop"}, {"message": "boom"}, {"message": "d"}])
        assert batch.reward == [0.1, 0.4, None, 0.1]
        assert batch.done == [False, True, True, False]
        assert kinds(batch.requests[1]) == kinds(batch.requests[2]) == ["episode_end", "autoreset_ready", "need_action"]
        assert vec.step([{"message": "x"}] * 4).steps == [2, 1, 1, 2]
