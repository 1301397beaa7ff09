"""Requests as data."""

import pytest

from envweave.core.jsonable import to_json
from envweave.requests import AutoresetReady, EpisodeEnd, LogEvent, NeedAction, ToolCall, request_from_data


@pytest.mark.parametrize(
    "request_",
    [
        NeedAction(env_id="e#0", agent_id="a", action_schema={"type": "integer"}, deadline=2.5),
        EpisodeEnd(env_id="e#0", reason="timeout", agent_id="a", final_info={"x": 1}, episode_id="e#0/1"),
        AutoresetReady(env_id="e#0", initial_obs=[1, 2], initial_info={"y": 2}, episode_id="e#0/2"),
        ToolCall(env_id="e#0", request_id="r1", tool_name="search", arguments={"q": "x"}),
        LogEvent(env_id="e#0", name="progress", payload={"done": 0.5}),
    ],
    ids=lambda request_: request_.kind,
)
def test_a_request_comes_back_from_json_equal(request_):
    data = to_json(request_)
    assert data["kind"] == request_.kind
    assert request_from_data(data) == request_


def test_a_kind_of_a_newer_version_becomes_a_log_event_that_holds_all_of_it():
    event = request_from_data({"kind": "telepathy", "env_id": "e#0", "strength": 9})
    assert event == LogEvent(
        env_id="e#0", name="telepathy", payload={"kind": "telepathy", "env_id": "e#0", "strength": 9}
    )


def test_a_field_of_a_newer_version_is_left_out():
    assert request_from_data({"kind": "log_event", "name": "n", "colour": "red"}) == LogEvent(name="n")


def test_a_request_is_short_in_print_and_still_compares_all_of_its_fields():
    need = NeedAction(env_id="e#0", action_schema={"type": "object", "properties": {"text": {"type": "string"}}})
    assert repr(need) == "NeedAction(agent_id='agent', deadline=None)"
    assert need != NeedAction(env_id="e#0")
    assert need != NeedAction(action_schema=need.action_schema)
    assert repr(LogEvent(env_id="e#0", name="n")) == "LogEvent(name='n', payload={})"
