"""Environments as a model sees them, in this process."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

import envweave as ew
from envweave.chat import ChatObservation
from envweave.errors import InvalidActionError, UsageError
from envweave.examples.warehouse import Warehouse
from envweave.examples.word_game import WordGame
from envweave.tools import CallTool


def call(name, arguments="{}", id="1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*some):
    return {"role": "assistant", "content": None, "tool_calls": list(some)}


def contents(observation):
    return [message["content"] for message in observation.messages]


def reasons(result):
    return [request.reason for request in result.requests if request.kind == "episode_end"]


def test_an_episode_with_text_actions():
    with ew.make(WordGame, chat=True) as env:
        first = env.reset(task=1)
        assert isinstance(first.obs, ChatObservation)
        assert [message["role"] for message in first.obs.messages] == ["system", "user"]
        assert first.info["task_id"] == "1"  # not the word
        result = env.step("melon")
        assert contents(result.obs) == ["marks: +=+==\nguesses_left: 5"]
        assert (result.reward, result.done) == (0.0, False)
        result = env.step({"role": "assistant", "content": "lemon", "refusal": None})
        assert (result.reward, result.terminated) == (1.0, True)


def test_a_reply_that_cannot_be_read_changes_nothing_and_then_ends_the_episode():
    with ew.make("lineworld", chat={"nudges": 1}) as env:
        env.reset(seed=1)
        told = env.step("left, I think")
        assert "no JSON" in contents(told.obs)[0]
        assert '"enum": [-1, 1]' in contents(told.obs)[0]
        assert (told.reward, told.done, told.info["unreadable"]) == (0.0, False, "the reply has no JSON")
        assert env.step('{"move": 1}').obs.messages == [{"role": "user", "content": "pos: 1\ngoal: -5\nt: 1"}]
        ended = env.step('{"move": 7}')
        assert (ended.reward, ended.terminated, reasons(ended)) == (0.0, True, ["invalid_action"])
        assert "move" in ended.info["unreadable"]
        env.reset(seed=1)
        assert not env.step("left").done  # counted anew


def test_the_environment_sets_the_reward_of_an_unreadable_reply():
    class Strict(WordGame):
        unreadable_reward = -1.0

    with ew.make(Strict, chat={"nudges": 0}) as env:
        env.reset(task=1)
        result = env.step("")
        assert (result.reward, result.done) == (-1.0, True)


def test_authors_say_what_a_model_sees_and_how_it_replies():
    @dataclass
    class Bid(ew.Action):
        price: int

    class Auction(ew.Environment[Bid, ew.Observation]):
        system_prompt = "You bid."

        def reset(self) -> ew.Observation:
            return ew.Observation()

        def step(self, action: Bid) -> ew.Observation:
            return ew.Observation(reward=float(action.price), done=True)

        def to_messages(self, observation: ew.Observation) -> Any:
            return [{"role": "user", "content": "sold" if observation.done else "your bid?"}]

        def read_reply(self, reply: Any) -> Bid:
            return Bid(int(reply.content.removeprefix("€")))

    with ew.make(Auction, chat=True) as env:
        assert env.reset().obs.messages == [
            {"role": "system", "content": "You bid."},
            {"role": "user", "content": "your bid?"},
        ]
        assert "invalid literal" in contents(env.step("a lot").obs)[0]
        result = env.step("€30")
        assert (result.reward, contents(result.obs)) == (30.0, ["sold"])


@pytest.mark.parametrize("reply", ['{"mvoe": 1}', "[1]", "3", {"role": "assistant", "content": None}])
def test_whatever_an_author_s_reader_raises_is_a_reply_that_cannot_be_read(reply):
    class Reader:
        unreadable_reward = -1.0

        def reset(self):
            return ""

        def step(self, action: int):
            return action, 1.0, True, False, {}

        def read_reply(self, message):
            return json.loads(message.content)["move"]

    with ew.make(Reader, chat={"nudges": 1}) as env:
        assert contents(env.reset().obs) == ["The episode begins."]  # endpoints refuse empty messages
        told = env.step(reply)
        assert told.info["unreadable"].startswith("the reply cannot be read: ")
        assert contents(told.obs) == [told.info["unreadable"]]
        assert env.step(reply).reward == -1.0
        env.reset()
        assert env.step('{"move": 4}').reward == 1.0


def test_of_several_tool_calls_those_before_a_refused_one_count():
    class Steps:
        tools = ()

        def reset(self):
            return "go"

        def step(self, action: CallTool):
            if action.tool_name == "jump":
                raise InvalidActionError("too high")
            reward = {"walk": 1.0, "rest": None}[action.tool_name]
            return action.tool_name, reward, False, False, {}

    with ew.make(Steps, chat={"nudges": 0}) as env:
        env.reset()
        told = env.step(calls(call("walk", id="a"), call("jump", id="b"), call("walk", id="c")))
        assert contents(told.obs) == ["walk", "not run: too high", "not run: too high"]
        assert (told.reward, told.done) == (1.0, False)
        assert env.step(calls(call("rest"), call("walk"))).reward == 1.0  # only the last step has to be scored
        assert env.step(calls(call("walk"), call("rest"))).reward is None
        assert env.step(calls(call("jump"))).terminated


@pytest.mark.parametrize(
    ("observation", "told"),
    [
        ("How many?", "How many?"),
        ("Now: How many?\nGo.", "Now: How many?\nGo."),
        ("Go.", "How many?\n\nGo."),
        ("", "How many?"),
    ],
)
def test_the_prompt_of_the_task_is_told_once(observation, told):
    class Asking:
        tasks = ew.Tasks([{"prompt": "How many?"}])

        def reset(self, *, task):
            return observation

        def step(self, action: str):
            return "", 1.0, True, False, {}

    with ew.make(Asking, chat=True) as env:
        assert contents(env.reset().obs) == [told]


def test_a_fork_knows_the_tools_that_were_listed():
    class Listing:
        def list(self):
            return [{"name": "look", "inputSchema": {"type": "object"}}]

    class Listed:
        tools = Listing()

        def reset(self):
            return "go"

        def step(self, action: CallTool):
            return action.tool_name, 0.0, False, False, {}

        def fork(self):
            return Listed()

    with ew.make(Listed, chat=True) as env:
        first = env.reset()
        with env.fork() as fork:
            assert fork.step(calls(call("look"))).obs.tools == first.obs.tools != []


def test_agents_see_messages_of_their_own():
    with ew.make("nim", chat=True, heaps=[1, 2]) as env:
        first = env.reset()
        assert first.obs["bob"].messages[0]["content"].count("You are bob.") == 1
        env.step({"alice": '{"heap": 1, "count": 1}'})
        told = env.step({"bob": "hm"})
        assert (told.obs["alice"].messages, told.reward) == ([], {"alice": 0.0, "bob": 0.0})
        assert "no JSON" in contents(told.obs["bob"])[0]
        told = env.step({"bob": '{"heap": 0, "count": 7}'})
        assert "cannot take 7" in contents(told.obs["bob"])[0]
        ended = env.step({"bob": "hm"})
        assert ended.done
        assert ended.reward == {"alice": None, "bob": 0.0}


def test_of_agents_that_act_at_once_only_the_unreadable_one_is_asked_again():
    with ew.make("rock-paper-scissors", chat=True) as env:
        first = env.reset(seed=0)
        one, other = first.obs
        schema = first.obs[one].messages[0]["content"]
        field = schema.partition('"properties": {"')[2].partition('"')[0]
        value = schema.partition('"enum": ["')[2].partition('"')[0]
        reply = f'{{"{field}": "{value}"}}'
        told = env.step({one: reply, other: "hm"})
        assert told.obs[one].messages == []
        assert [request.agent_id for request in env.pending] == [other]
        result = env.step({other: reply})
        assert set(result.reward) == {one, other}
        assert all(reward is not None for reward in result.reward.values())


def test_several_tool_calls_are_steps_in_order_and_end_with_the_episode():
    with ew.make(Warehouse, chat=True) as env:
        first = env.reset(task="order-3")
        assert [tool["function"]["name"] for tool in first.obs.tools] == ["look", "take", "ship"]
        told = env.step(calls(call("look", '{"shelf": "B"}', "a"), call("lock", "{}", "b"), call("look", "[1]", "c")))
        assert [message["tool_call_id"] for message in told.obs.messages] == ["a", "b", "c"]
        assert "did you mean 'look'?" in contents(told.obs)[1]
        assert contents(told.obs)[2] == "error: look: the arguments are '[1]', not a JSON object"
        assert told.reward == pytest.approx(-0.2)
        ended = env.step(calls(call("ship", "", "d"), call("look", '{"shelf": "A"}', "e")))
        assert contents(ended.obs) == ["shipped", "not run: the episode is over"]
        assert (ended.reward, ended.done) == (0.0, True)


def test_a_filled_order_earns_one():
    with ew.make(Warehouse, chat=True) as env:
        env.reset(task=3)
        wanted = Warehouse.tasks[3]["wanted"]
        takes = [call("take", f'{{"shelf": "B", "item": "{item}", "count": {n}}}', item) for item, n in wanted.items()]
        assert env.step(calls(*takes)).reward == 0.0
        assert env.step(calls(call("ship"))).reward == 1.0


def test_forks_snapshots_and_copies_keep_the_conversation_apart():
    for source in ("lineworld", WordGame, "codeact"):
        with ew.make(source, chat={"nudges": 1}) as env:
            env.reset(seed=1)
            env.step("")  # the only nudge
            with env.fork() as fork:
                assert fork.step("").done
            snapshot = env.snapshot()
            assert env.step("").done
            env.restore(snapshot)
            assert env.step("").done


def test_the_state_counts_the_steps_of_a_conversation():
    with ew.make(WordGame, chat=True) as env:
        env.reset(task=1)
        env.step("melon")
        assert env.state().step_count == 1
        assert env.state().episode_id


def test_a_vector_of_chats():
    with ew.make_vector(WordGame, 3, chat=True) as vec:
        vec.reset(task=[0, 1, 2])
        batch = vec.step(["crane", "lemon", "x"])
        assert batch.reward == [1.0, 1.0, 0.0]


def test_the_environment_s_transform_sees_the_environment_s_observations():
    def halved(observation):
        observation.reward = 0.5 if observation.marks == "=====" else 0.0
        return observation

    with ew.make(WordGame, chat=True) as env:
        env.transform = halved
        env.reset(task=1)
        assert env.step("lemon").reward == 0.5


async def _play_async():
    class Waiting(ew.AsyncEnvironment):
        async def reset(self):
            return "say something"

        async def step(self, action):
            return ew.StepResult(f"you said {action}", 1.0, terminated=True)

    async with await ew.aio.make(Waiting, chat=True) as env:
        first = await env.reset()
        result = await env.step("hello")
        return first.obs.messages, result.obs.messages, result.reward


def test_an_async_environment():
    import asyncio

    first, last, reward = asyncio.run(_play_async())
    assert first[-1]["content"] == "say something"
    assert (last, reward) == ([{"role": "user", "content": "you said hello"}], 1.0)


@pytest.mark.parametrize("wrong", [{"nudge": 1}, {"nudges": -1}, {"nudges": "2"}, 3, {"format": None}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(UsageError, match="chat"):
        ew.make("lineworld", chat=wrong)


def test_a_driver_that_passes_no_message_is_told():
    with ew.make("lineworld", chat=True) as env:
        env.reset()
        with pytest.raises(UsageError, match="not a message"):
            env.step(3)
