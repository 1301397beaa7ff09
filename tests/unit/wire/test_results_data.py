"""Results as data."""

import pytest

from envweave.client.codec import Codec
from envweave.client.remote import RemoteEpisode
from envweave.errors import NotJSONableError, ProtocolError
from envweave.requests import AutoresetReady, EpisodeEnd, LogEvent, NeedAction, ToolCall
from envweave.results import ResetResult, StepResult
from envweave.types import Observation
from envweave.wire.codec import decode, encode
from envweave.wire.faults import requests_from_data
from envweave.wire.results import open_requests, openenv_data, openenv_result, result_to_data

NEED = NeedAction(env_id="e#0", action_schema={"type": "integer"})
TOOL = ToolCall(env_id="e#0", request_id="r1", tool_name="search", arguments={"q": "x"})
END = EpisodeEnd(env_id="e#0", reason="terminated", final_info={"won": True}, episode_id="e#0/1")

STEPS = {
    "plain": StepResult({"x": 1}),
    "scored": StepResult([1, 2.5, None], 0.5, False, False, {"note": "n"}, (NEED,)),
    "terminated": StepResult("over", 1.0, True, False, {}, (END,)),
    "truncated": StepResult(None, None, False, True, {}, (END,)),
    "both": StepResult(0, -1, True, True, {}, (END, AutoresetReady(env_id="e#0", initial_obs=[0]), NEED)),
    "waiting": StepResult({}, 0, requests=(LogEvent(name="l", payload={"a": [1]}), TOOL)),
    "agents": StepResult(
        {"a": 1, "b": 2}, {"a": 0.5, "b": None}, {"a": True, "b": False, "__all__": False}, {"a": False, "b": False}
    ),
    "agents done": StepResult({"a": 1}, {"a": 1.0}, {"a": True}, {"a": False}),
    "metadata and no info": StepResult({"metadata": {"step": 1}}),
    "metadata that is text": StepResult({"metadata": "of the image"}),
    "metadata and another info": StepResult({"metadata": {"step": 1}}, info={"step": 2}),
    "metadata and an equal info": StepResult({"metadata": {"step": 1}}, info={"step": 1}),
}


def step_from_data(data, known=()):
    episode = RemoteEpisode("e#0", multi_agent=False)
    episode._known = known
    return episode.read_step(data, Codec(), 1)


def reset_from_data(data):
    return RemoteEpisode("e#0", multi_agent=False).read_reset(data, Codec())


def crossed(data):
    return decode(encode(data))


@pytest.mark.parametrize("result", STEPS.values(), ids=STEPS)
def test_a_step_comes_back_equal(result):
    data = crossed(result_to_data(result))
    assert data["done"] is result.done
    assert step_from_data(data) == result


@pytest.mark.parametrize(
    "result",
    [
        ResetResult({"x": 1}),
        ResetResult(None, {"seed": 3}, (NEED,)),
        ResetResult({"done": True, "reward": 2}, {}, (NEED, TOOL)),
    ],
)
def test_a_reset_comes_back_equal(result):
    assert reset_from_data(crossed(result_to_data(result))) == result


def test_what_is_as_usual_is_left_out():
    known = (NEED,)
    data = result_to_data(StepResult(1, 0.0, requests=(NEED,)), known, known)
    assert data == {"observation": 1, "reward": 0.0, "done": False}
    assert step_from_data(data, known).requests == known


def test_requests_that_have_gone_are_said_to_be_gone():
    data = crossed(result_to_data(StepResult(1), (), (NEED,)))
    assert data["requests"] == []
    assert step_from_data(data, (NEED,)).requests == ()


@pytest.mark.parametrize("pending", [(), (NEED,), (TOOL, NEED)])
@pytest.mark.parametrize("requests", [(), (NEED,), (LogEvent(name="l"), TOOL), (END,)])
def test_what_the_environment_waits_for_can_be_known_on_the_other_side(requests, pending):
    data = crossed(result_to_data(StepResult(1, requests=requests), pending))
    assert ("pending" in data) is (pending != open_requests(requests))
    read = requests_from_data(data["pending"]) if "pending" in data else open_requests(step_from_data(data).requests)
    assert read == pending


@pytest.mark.parametrize(
    ("result", "field"),
    [
        (StepResult({"a": [0, object()]}), "observation.a[1]"),
        (StepResult(0, float("nan")), "reward"),
        (StepResult(0, info={"k": {1, 2}}), "info.k"),
        (StepResult(0, requests=(LogEvent(name="l", payload={"p": b""}),)), "requests[0].payload.p"),
        (StepResult(0, terminated={"a": object()}), "terminated.a"),
    ],
)
def test_the_field_that_cannot_cross_is_named(result, field):
    with pytest.raises(NotJSONableError) as caught:
        result_to_data(result)
    assert caught.value.message.startswith(f"{field} is")


# OpenEnv's form.


def test_openenv_gets_done_and_reward_beside_the_observation():
    observation = {"x": 1, "done": True, "reward": 3, "metadata": {"k": 1}}
    assert openenv_data(StepResult(observation, 0.5, True)) == {
        "observation": {"x": 1, "metadata": {"k": 1}}, "reward": 0.5, "done": True, "metadata": {"k": 1},
    }  # fmt: skip
    assert observation["done"] is True  # the author's own is as it was


def test_openenv_gets_the_reward_that_the_first_observation_has():
    assert openenv_data(ResetResult({"x": 1, "reward": 0.25})) == {
        "observation": {"x": 1}, "reward": 0.25, "done": False,
    }  # fmt: skip


def test_agents_that_are_called_done_and_reward_stay():
    result = StepResult({"done": 1, "reward": 2}, {"done": 0.0}, {"done": False}, {"done": False})
    assert openenv_data(result)["observation"] == {"done": 1, "reward": 2}


@pytest.mark.parametrize(
    ("data", "terminated", "truncated"),
    [
        ({"observation": 1, "done": True}, True, False),
        ({"observation": 1, "done": False}, False, False),
        ({"observation": 1}, False, False),
        ({"observation": 1, "done": True, "metadata": {"truncated": True}}, False, True),
        ({"observation": 1, "done": True, "metadata": {"truncated": "yes"}}, True, False),
        ({"observation": 1, "done": True, "metadata": None}, True, False),
    ],
)
def test_a_step_of_an_openenv_server_is_read(data, terminated, truncated):
    result = openenv_result(data)
    assert (result.terminated, result.truncated, result.reward) == (terminated, truncated, None)
    assert (result.info, result.requests) == (data.get("metadata") or {}, ())


@pytest.mark.parametrize("data", [None, [], "x", {}, {"reward": 1}])
def test_what_is_not_a_result_is_a_protocol_error(data):
    for read in (step_from_data, reset_from_data, openenv_result):
        with pytest.raises(ProtocolError, match="is not a result"):
            read(data)


def test_a_result_of_an_openenv_server_whose_end_is_not_a_flag_is_a_protocol_error():
    with pytest.raises(ProtocolError, match="is not a result"):
        openenv_result({"observation": 1, "done": "no"})


def test_an_info_that_is_the_observation_s_metadata_is_sent_once():
    said = Observation(metadata={"step": 1})
    data = crossed(result_to_data(StepResult(said, info=said.metadata)))
    assert "info" not in data
    assert step_from_data(data).info == {"step": 1}
