"""Requests, snapshots and forks."""

from __future__ import annotations

import pytest

from envweave.testing.suites.record import Recorder, ends, kinds
from envweave.testing.suites.transport.base import SCRIPTED, Same, TransportTests


class RequestTests(TransportTests):
    """The request stream."""

    def test_log_events_come_in_their_order(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(first={"log": ["a", "b"]})
            env.step({"log": ["c"]})
            env.step({"log": ["c"]})
            env.step({})
            env.step({"log": ["d", "e"], "end": "terminated"})

        said = same(SCRIPTED, script)
        assert kinds(said[0]) == ["log_event", "log_event", "need_action"]
        assert kinds(said[4]) == ["log_event", "log_event", "episode_end"]

    def test_the_authors_own_reason_ends_the_episode(self, same: Same) -> None:
        reasons = ["agent_left", "invalid_action", "timeout", "infra_error", "closed", "truncated"]

        def script(env: Recorder) -> None:
            for reason in reasons:
                env.reset()
                env.step({"end": reason, "log": ["bye"], "info": {"score": 3}})
                env.step({})

        assert [ends(line) for line in same(SCRIPTED, script)[1:-1:3]] == [[reason] for reason in reasons]

    def test_tool_calls_are_answered_one_after_the_other(self, same: Same) -> None:
        search = {"tool_name": "search", "arguments": {"q": "cats", "n": [1, {"x": None}]}}

        def script(env: Recorder) -> None:
            env.reset()
            env.step(
                {"ask": [search, {"tool_name": "read", "request_id": "mine", "agent_id": "agent"}], "log": ["asks"]}
            )
            env.step({})
            env.respond("stranger", 1)
            first, second = env.env.pending
            env.respond(second.request_id, None)
            env.respond(second.request_id, None)
            env.respond(first.request_id, {"reply": "found", "ask": [search], "reward": 0.5})
            env.respond(env.env.pending[0].request_id, [1, {"two": 2.0}])
            env.step({})
            env.step({"ask": [search]})
            env.reset()
            env.reset(first={"ask": [search]})
            env.respond(env.env.pending[0].request_id, {"end": "terminated", "reward": 2})
            env.step({})

        said = same(SCRIPTED, script)
        assert kinds(said[1]) == ["log_event", "tool_call", "tool_call"]
        assert [request["request_id"] for request in said[1]["pending"]][1] == "mine"

    def test_a_tool_call_and_an_action_may_be_open_together(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            env.step({"ask": [{"tool_name": "t"}], "need": {}})
            env.step({"reply": "acted first"})
            env.respond(env.env.pending[0].request_id, None)
            env.step({})

        said = same(SCRIPTED, script)
        assert kinds(said[1]) == ["tool_call", "need_action"]

    def test_two_tool_calls_of_one_name_are_the_authors_mistake(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            env.step({"ask": [{"tool_name": "t", "request_id": "a"}, {"tool_name": "t", "request_id": "a"}]})
            env.reset()

        assert same(SCRIPTED, script)[1]["error"]["class"] == "BadResultError"

    @pytest.mark.parametrize("autoreset", [False, True])
    def test_a_request_may_have_a_deadline_of_its_own_and_it_is_kept(self, same: Same, autoreset: bool) -> None:
        passed = 1e-9

        def script(env: Recorder) -> None:
            env.reset()
            env.step({"need": {"deadline": 3600.0}})
            env.step({"need": {"deadline": passed, "action_schema": {"type": "string"}}})
            env.step({"reply": "too late"})
            env.step({"reply": "after"})
            env.reset()
            env.step({"ask": [{"tool_name": "t", "deadline": passed}]})
            env.respond(env.env.pending[0].request_id, "too late")
            env.step({})

        said = same(SCRIPTED, script, autoreset=autoreset)
        assert ends(said[3]) == ends(said[7]) == ["timeout"]

    def test_a_deadline_for_every_action(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            env.step({"reply": "too late"})
            env.reset()

        assert ends(same(SCRIPTED, script, deadline=1e-9)[1]) == ["timeout"]
        assert same(SCRIPTED, script, deadline=1800.5)[0]["pending"][0]["deadline"] == 1800.5


class BranchTests(TransportTests):
    """Snapshots and forks."""

    def test_a_snapshot_is_gone_back_to_any_number_of_times(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(seed=3)
            env.step({"move": 1})
            here = env.snapshot()
            env.step({"move": 1})
            for _ in range(2):
                env.restore(here)
                env.step({"move": -1})
                env.state()
            env.reset(seed=4)
            env.restore(here)
            env.step({"move": 1})
            env.restore("something else")
            env.restore(None)
            for _ in range(20):
                env.step({"move": 1})
            env.restore(here)
            env.step({"move": 1})
            env.reset()

        same("lineworld", script)

    def test_snapshots_of_an_open_tool_call_and_of_a_finished_episode(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            empty = env.snapshot()
            env.reset(seed=1)
            env.step({"ask": [{"tool_name": "t"}]})
            asked = env.snapshot()
            env.respond(env.env.pending[0].request_id, {"end": "terminated"})
            over = env.snapshot()
            env.restore(asked)
            env.respond(env.env.pending[0].request_id, {"reply": "again"})
            env.restore(over)
            env.step({})
            env.restore(empty)
            env.step({})
            env.state()
            env.reset()
            env.step({"log": ["first call of its own"], "ask": [{"tool_name": "t"}]})

        same(SCRIPTED, script)

    def test_a_fork_goes_its_own_way(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.fork()
            env.reset(seed=3)
            env.step({"draw": 1})
            twin = env.fork()
            other = env.fork()
            for one in (twin, env, other, twin):
                one.step({})
                one.state()
            grandchild = twin.fork()
            grandchild.step({"ask": [{"tool_name": "t"}]})
            snapshot = twin.snapshot()
            env.restore(snapshot)
            env.step({})
            grandchild.close()
            twin.step({"end": "terminated"})
            twin.reset()
            twin.close()
            other.step({"raise": "plain"})
            other.close()
            env.step({})

        said = same(SCRIPTED, script)
        assert len({line["id"] for line in said}) == 4

    def test_an_environment_without_snapshots_is_copied(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset(seed=1)
            kept = env.snapshot()
            twin = env.fork()
            env.step({"alice": {"heap": 0, "count": 1}})
            twin.step({"alice": {"heap": 1, "count": 1}})
            env.restore(kept)
            env.step({"alice": {"heap": 2, "count": 1}})
            twin.close()

        said = same("nim", script)
        assert all("error" not in line for line in said)
        heaps = [line["answer"]["observation"]["alice"]["heaps"] for line in said if line["call"] == "step"]
        assert len({tuple(each) for each in heaps}) == 3

    def test_a_fork_has_the_limits_of_its_origin(self, same: Same) -> None:
        def script(env: Recorder) -> None:
            env.reset()
            env.step({})
            twin = env.fork()
            for one in (twin, env):
                for _ in range(4):
                    one.step({})
            twin.close()

        said = same(SCRIPTED, script, autoreset=True, max_episode_steps=2)
        assert any("autoreset_ready" in kinds(line) for line in said if line["id"].endswith(".1") and "answer" in line)
