"""Whole episodes of a language model, which is a script behind HTTP, through the chat interface of an environment.

The script sees only the conversation and the tools that it is sent, as any model does.
"""

import ast
import json
import re

import pytest

import envweave as ew
from envweave.envs.code_tasks import open_tasks
from envweave.examples.word_game import WordGame
from envweave.lm import FunctionCall, LanguageModel, Message, Reply
from envweave.testing import scripted_model
from envweave.testing.serving import running_server

TASK = open_tasks("programming")[0]


def last(messages):
    return messages[-1]["content"]


def guess_words(messages, model):
    """The first word that no clue excludes."""
    used = [message["content"] for message in messages if message["role"] == "assistant"]
    return next(task["word"] for task in WordGame.tasks if task["word"] not in used)


def fill_order(messages, model):
    """Look at a shelf, take what is wanted, ship."""
    wanted = ast.literal_eval(re.search(r"{.*?}", messages[1]["content"])[0])
    calls = [FunctionCall("0", "look", '{"shelf": "B"}')]
    if messages[-1]["role"] == "tool":
        assert set(wanted) <= set(json.loads(messages[3]["content"]))
        arguments = [{"shelf": "B", "item": item, "count": count} for item, count in wanted.items()]
        calls = [FunctionCall(f"take{i}", "take", json.dumps(each)) for i, each in enumerate(arguments)]
        calls.append(FunctionCall("ship", "ship", ""))
    return Reply(Message("assistant", None, tuple(calls)), "tool_calls")


def walk_to_the_goal(messages, model):
    goal = int(re.search(r"goal: (-?\d+)", last(messages))[1])
    return f'I walk: {{"move": {1 if goal > 0 else -1}}}'


def take_a_heap(messages, model):
    heaps = ast.literal_eval(re.search(r"\[.*\]", last(messages))[0])
    heap, count = max(enumerate(heaps), key=lambda each: each[1])
    return json.dumps({"heap": heap, "count": count})


def write_code(end):
    def write(messages, model):
        tried = sum(message["role"] == "assistant" for message in messages)
        code = "print(6 * 7)" if not tried else f"{TASK['solution']}\n{end}"
        assert not tried or "42" in last(messages)
        return f"I write code.\n```python\n{code}\n```"

    return write


CODE = {"tasks": "programming"}
PLAYS = {
    "codeact": ("codeact", CODE, write_code("submit()"), TASK.id, [0.0, 1.0]),
    "coding": ("coding", CODE, write_code("submit()"), TASK.id, [0.0, 1.0]),
    "repl": ("repl", CODE, write_code("FINAL('done')"), TASK.id, [0.0, 1.0]),
    "lineworld": ("lineworld", {}, walk_to_the_goal, None, [-0.01, -0.01, -0.01, -0.01, 1.0]),
    "nim": ("nim", {}, take_a_heap, None, [{"alice": 0.0, "bob": 0.0}] * 2 + [{"alice": 1.0, "bob": -1.0}]),
    "warehouse": ("pkg://envweave.examples.warehouse:Warehouse", {}, fill_order, "order-7", [0.0, 1.0]),
    "word game": ("pkg://envweave.examples.word_game:WordGame", {}, guess_words, "2", [0.0, 0.0, 1.0]),
}


def play(env, model, task):
    """All conversations of an episode by agent, and its rewards. A single one is called `agent`."""
    result = env.reset(task=task) if task else env.reset(seed=1)
    conversations = {agent: list(obs.messages) for agent, obs in by_agent(result.obs).items()}
    rewards = []
    while not result.done:
        replies = {}
        for agent in [request.agent_id for request in result.requests if request.kind == "need_action"]:
            tools = by_agent(result.obs)[agent].tools
            replies[agent] = model.reply(conversations[agent], tools=tools)
            conversations[agent].append(replies[agent].message.to_dict())
        result = env.step(replies.get("agent", replies))
        for agent, obs in by_agent(result.obs).items():
            conversations[agent] += obs.messages
        rewards.append(result.reward)
    return conversations, rewards, result.terminated


def by_agent(obs):
    return obs if isinstance(obs, dict) else {"agent": obs}


@pytest.mark.parametrize("name", PLAYS)
def test_a_model_plays_a_whole_episode_here_and_on_a_server(name):
    id, options, script, task, rewards = PLAYS[name]
    query = "?" + "&".join(f"{key}={value}" for key, value in options.items()) if options else ""
    with scripted_model(script) as endpoint, LanguageModel("any", base_url=endpoint.url) as model:
        with ew.make(id, chat=True, **options) as env:
            here = play(env, model, task)
        with running_server(id + query) as server, ew.make(server.url, chat=True) as env:
            there = play(env, model, task)
    assert there == here
    assert here[1] == rewards
    assert [message["role"] for message in next(iter(here[0].values()))[:3]] == ["system", "user", "assistant"]
    assert len(endpoint.requests) == 2 * len(rewards)
    assert all(asked.body.get("tools") != [] for asked in endpoint.requests)  # endpoints refuse an empty list
