"""What is accepted as a policy."""

import asyncio

import pytest

from envweave.errors import InvalidReplyError, UsageError
from envweave.lm import LanguageModel
from envweave.lm.messages import Message
from envweave.lm.reply import Reply
from envweave.requests import NeedAction
from envweave.rollouts import Conversation, ModelPolicy, RandomPolicy, ScriptedPolicy
from envweave.rollouts.policies import CallablePolicy, FunctionPolicy, policies_of, policy_name, policy_of

HELLO = Conversation(messages=[{"role": "user", "content": "hello"}])


def text(policy, conversation=HELLO):
    return asyncio.run(policy_of(policy).reply(conversation)).text


async def shouting(conversation):
    return conversation.messages[-1]["content"].upper()


class Sync:
    def reply(self, conversation):
        return {"role": "assistant", "content": "sync"}


class Async:
    async def reply(self, conversation):
        return Reply(Message("assistant", "async"))


class Awaited:
    async def __call__(self, conversation):
        return "called"


def test_a_policy_may_be_a_function_or_an_object_sync_or_async():
    assert text(shouting) == "HELLO"
    assert text(Sync()) == "sync"
    assert text(Async()) == "async"
    assert text(Awaited()) == "called"


def test_a_script_is_said_from_its_beginning_and_its_last_reply_is_repeated():
    script = ScriptedPolicy(["one", "two"])
    conversation = Conversation(messages=list(HELLO.messages))
    said = []
    for _ in range(3):
        said.append(text(script, conversation))
        conversation.say(Reply(Message("assistant", said[-1])))
    assert said == ["one", "two", "two"]
    assert text(ScriptedPolicy(lambda messages: f"{len(messages)}")) == "1"
    for wrong in ("text", [], None):
        with pytest.raises(UsageError):
            ScriptedPolicy(wrong)


def test_plain_functions_take_the_observation_and_may_take_the_request():
    need = NeedAction(agent_id="agent")
    assert asyncio.run(policy_of(lambda observation: observation + 1).act(1, need)) == 2
    assert asyncio.run(policy_of(lambda observation, request: request.agent_id).act(1, need)) == "agent"

    async def both(observation, request):
        return observation * 2

    assert asyncio.run(policy_of(both).act(4, need)) == 8


def test_random_actions_fit_the_schema():
    need = NeedAction(agent_id="agent", action_schema={"type": "integer", "minimum": 3, "maximum": 3})
    assert asyncio.run(RandomPolicy(1).act(None, need)) == 3
    assert isinstance(policy_of("random"), RandomPolicy)


@pytest.mark.parametrize("wrong", [None, 3, "clever", Sync])
def test_what_is_not_a_policy_is_refused(wrong):
    with pytest.raises(UsageError):
        policy_of(wrong)


def test_policies_by_agent_are_of_one_kind():
    found = policies_of({"a": shouting, "b": Sync()})
    assert set(map(type, found.values())) == {CallablePolicy}
    assert type(policies_of({"a": len})["a"]) is FunctionPolicy
    for wrong in ({}, {"a": shouting, "b": len}):
        with pytest.raises(UsageError):
            policies_of(wrong)


def test_an_answer_that_is_no_reply_is_named():
    async def wrong(conversation):
        return 42

    with pytest.raises(InvalidReplyError, match="answered with 42"):
        text(wrong)


def test_a_copied_conversation_does_not_change_with_its_original():
    first = Conversation()
    first.hear([{"role": "user", "content": "a"}], [])
    twin = first.copy()
    first.say(Reply(Message("assistant", "b")))
    assert (len(first.messages), len(twin.messages), len(twin.new)) == (2, 1, 1)


def test_a_policy_is_named_by_its_model_its_function_or_its_class():
    with LanguageModel("small-7b", base_url="http://127.0.0.1:9/v1", api_key="secret") as model:
        named = {"alice": model, "bob": ModelPolicy(model, version=3), "carol": shouting, "dave": Sync()}
        assert policy_name(named) == "alice: small-7b, bob: small-7b, carol: shouting, dave: Sync"
    assert policy_name("random") == "random"
