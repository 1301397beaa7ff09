"""Environments as a model sees them, on servers: the same messages, rewards and ends as in this process."""

import httpx
import pytest

import envweave as ew
from envweave.chat import ChatObservation
from envweave.client import EnvClient, HTTPEnvClient
from envweave.examples.word_game import WordGame
from envweave.lm import Message, Reply
from envweave.testing.serving import running_server

WORDS, GOODS = "pkg://envweave.examples.word_game:WordGame", "pkg://envweave.examples.warehouse:Warehouse"


def call(name, arguments="{}"):
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]}


EPISODES = {
    WORDS: ({"task": 1}, ["melon", "", "lemon"]),
    GOODS: ({"task": 3}, [call("look", '{"shelf": "A"}'), call("lok"), call("look", "[]"), "hi", call("ship")]),
    "lineworld": ({"seed": 1}, ['{"move": 1}', "left", '```json\n{"move": -1}\n```', "?", "?"]),
    "nim": ({"seed": 1}, [{"alice": '{"heap": 0, "count": 1}'}, {"bob": "?"}, {"bob": '{"heap": 0, "count": 7}'}]),
    "codeact": ({"seed": 1}, ["```python\nx = 6\n```", "x", "```python\nx * 7\n```"]),
}


def told(result):
    """What a driver sees of a result, without what differs from run to run."""
    observations = result.obs if isinstance(result.obs, dict) else {"": result.obs}
    seen = {agent: ([strip(one) for one in obs.messages], obs.tools) for agent, obs in observations.items()}
    ends = [request.reason for request in result.requests if request.kind == "episode_end"]
    return seen, result.reward, result.done, result.info.get("unreadable"), ends


def strip(message):
    return {**message, "content": message["content"].partition('"duration"')[0]}


def play(env, id):
    options, replies = EPISODES[id]
    return [told(env.reset(**options)), *(told(env.step(reply)) for reply in replies)]


@pytest.mark.parametrize("id", EPISODES)
@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_conversation_is_the_same_on_a_server(id, isolation):
    with ew.make(id, chat=True) as env:
        here = play(env, id)
    with running_server(id, "--isolation", isolation) as server, EnvClient(server.url, chat=True) as env:
        assert play(env, id) == here


def test_a_conversation_is_the_same_over_plain_http():
    with ew.make(WORDS, chat=True) as env:
        here = play(env, WORDS)
    with running_server(WORDS) as server, HTTPEnvClient(server.url, chat=True) as env:
        assert play(env, WORDS) == here


def test_one_server_has_chats_and_plain_sessions_side_by_side():
    with running_server(WORDS) as server, ew.make(server.url) as plain, ew.make(server.url, chat={"nudges": 0}) as chat:
        plain.reset(task=0)
        chat.reset(task=0)
        assert plain.step({"word": "crane"}).reward == 1.0
        assert chat.step("").done
        assert plain.action_schema()["required"] == ["word"]


def test_a_vector_on_a_server_holds_conversations():
    with running_server(WORDS) as server, ew.make_vector(server.url, 3, chat=True) as vec:
        reset = vec.reset(task=[0, 1, 2])
        assert [obs.messages[0]["role"] for obs in reset.obs] == ["system"] * 3
        assert vec.step(["crane", "lemon", "x"]).reward == [1.0, 1.0, 0.0]


THOUGHT = Reply(Message("assistant", "lemon", reasoning="It is a fruit."), "stop", token_ids=(1, 2, 3))


class Thoughtful(WordGame):
    """Reads what a model thought."""

    def read_reply(self, message):
        assert message.reasoning == "It is a fruit."
        return {"word": message.content}


@pytest.mark.parametrize("how", ["websocket", "http", "vector"])
def test_a_reply_of_a_model_crosses_with_its_reasoning(how):
    with running_server(f"pkg://{__file__}:Thoughtful") as server:
        if how == "vector":
            with ew.make_vector(server.url, 2, chat=True) as vec:
                vec.reset(task=1)
                assert vec.step([THOUGHT, THOUGHT]).reward == [1.0, 1.0]
            return
        with (EnvClient if how == "websocket" else HTTPEnvClient)(server.url, chat=True) as env:
            assert type(env.reset(task=1).obs) is ChatObservation
            assert env.step(THOUGHT).reward == 1.0


@pytest.mark.parametrize("wrong", [None, 3, {"content": 3}, {"tool_calls": [3]}])
def test_a_driver_that_sends_no_message_is_told(wrong):
    with running_server(WORDS) as server, ew.make(server.url, chat=True) as env:
        env.reset(task=1)
        with pytest.raises(ew.InvalidActionError):
            env.step(wrong)
        assert env.step("lemon").reward == 1.0


def test_a_call_over_mcp_is_a_step_of_a_chat_too():
    with running_server(GOODS) as server, EnvClient(server.url, chat=True) as env:
        env.reset(task=3)
        params = {"name": "ship", "arguments": {}, "session_id": env.backend.session.opened.session_id}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = httpx.post(f"{server.url}/mcp", json=asked).json()
        assert answer["result"]["data"] == "shipped"
        assert env.state().step_count == 1
        with pytest.raises(ew.UsageError, match="over"):
            env.step(call("look", '{"shelf": "A"}'))


def test_an_opening_with_a_wrong_chat_is_refused():
    with running_server(WORDS) as server, pytest.raises(ew.UsageError, match="chat"):
        ew.make(server.url, chat={"nudges": -1})
