"""Which replies end an episode, and why."""

import json

import pytest

from envweave.server.host import Reply
from envweave.server.outcomes import end_reasons
from envweave.wire.protocol import ERROR, RESULT


def reply(type, data, episode=None):
    return Reply(type, json.dumps(data, separators=(",", ":")).encode(), episode)


def end(reason, **fields):
    return {"kind": "episode_end", "reason": reason, "agent_id": None, **fields}


def told(*requests):
    return {"observation": 0, "reward": 1.0, "done": True, "requests": list(requests)}


def test_the_reason_is_that_of_the_reply():
    assert end_reasons("step", "e1", reply(RESULT, told(end("timeout")))) == ["timeout"]
    assert end_reasons("step", "e1", reply(ERROR, {"requests": [end("infra_error")]})) == ["infra_error"]
    assert end_reasons("close", "e1", reply("closed", {"requests": [end("agent_left")]})) == ["agent_left"]


def test_an_episode_that_ends_with_its_reset_is_counted():
    assert end_reasons("reset", None, reply(ERROR, {"requests": [end("infra_error")]})) == ["infra_error"]


def test_an_agent_that_leaves_does_not_end_the_episode():
    left = told(end("agent_left", agent_id="anna"))
    assert end_reasons("step", "e1", reply(RESULT, left, episode="e1")) == []


def test_the_next_episode_may_have_begun():
    begun = {"kind": "autoreset_ready", "initial_obs": 0}
    assert end_reasons("step", "e1", reply(RESULT, told(end("terminated"), begun), "e2")) == ["terminated"]


@pytest.mark.parametrize(
    ("call", "data", "reason"),
    [
        ("step", {"observation": {}, "done": True}, "terminated"),
        ("step", {"observation": {}, "done": True, "metadata": {"truncated": True}}, "truncated"),
        ("reset", {"observation": {}, "done": False}, "closed"),
    ],
)
def test_of_openenvs_form_the_reason_is_concluded(call, data, reason):
    assert end_reasons(call, "e1", reply(RESULT, data)) == [reason]


def test_a_close_that_fails_ends_the_episode_too():
    assert end_reasons("close", "e1", reply(ERROR, {"message": "no close today"})) == ["closed"]
    assert end_reasons("close", None, reply(ERROR, {"message": "no close today"})) == []


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("state", reply("state", {"requests": [end("terminated")]})),
        ("step", reply(ERROR, {"message": "reset first"})),
        ("step", reply(RESULT, {"observation": ["episode_end"], "requests": []}, "e1")),
        ("step", reply(RESULT, {"observation": [end("terminated")], "done": False}, "e1")),
    ],
)
def test_what_only_looks_like_an_end_is_none(call, answer):
    assert end_reasons(call, answer.episode, answer) == []


@pytest.mark.parametrize("reason", ["boredom", "", 7, None, ["closed"], {"closed": 1}])
def test_a_reason_that_is_none_of_ours_makes_no_label_of_its_own(reason):
    assert end_reasons("step", "e1", reply(RESULT, told(end(reason)))) == ["unknown"]


@pytest.mark.parametrize("body", [b'"episode_end"', b'{"episode_end"', b'{"requests":7,"x":"episode_end"}'])
def test_a_body_that_is_no_result_is_counted_as_an_end_without_a_reason_of_its_own(body):
    assert end_reasons("step", "e1", Reply(RESULT, body)) == ["terminated"]
