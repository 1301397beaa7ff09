"""Steps and resets, all at once or as they become ready."""

from __future__ import annotations

import random
from typing import Any

import pytest

from envweave.errors import BusyError, ClosedError, InvalidActionError, ResetNeededError, UsageError
from envweave.requests import EpisodeEnd
from envweave.testing.suites.vector.base import (
    WALK,
    WALK_NAME,
    MakeVector,
    VectorTests,
)


class VectorStepTests(VectorTests):
    """Rows that step together or one by one."""

    def test_a_barrier_step_gives_lists_as_long_as_the_vector(self, vector: MakeVector) -> None:
        vec = vector(WALK, 3)
        obs, info = vec.reset(seed=7)
        assert len(obs) == len(info) == 3
        batch = vec.step([1, 2, 3])
        obs, reward, terminated, truncated, info = batch
        assert reward == [1.0, 2.0, 3.0]
        assert (terminated, truncated, batch.done) == ([False] * 3, [False] * 3, [False] * 3)
        assert (batch.ids, batch.incarnations, batch.steps) == ([0, 1, 2], [0, 0, 0], [1, 1, 1])
        assert [request.env_id for requests in batch.requests for request in requests] == vec.ids
        assert vec.ids == [f"{WALK_NAME}#{number}" for number in range(3)]

    def test_environment_i_gets_the_seed_plus_i(self, vector: MakeVector) -> None:
        expected = [random.Random(7 + i).randrange(1000) / 1000 for i in range(4)]
        vec = vector(WALK, 4)
        assert vec.reset(seed=7).obs == expected
        assert vec.reset(seed=7, ids=[2, 1]).obs == [expected[2], expected[1]]
        assert vec.reset(seed=[10, 7], ids=[3, 0]).obs[1] == expected[0]

    def test_a_partial_reset_leaves_the_others_in_their_episode(self, vector: MakeVector) -> None:
        vec = vector(WALK, 3)
        vec.reset(start=0)
        vec.step([1, 1, 1])
        reset = vec.reset(ids=[1], start=0)
        assert (reset.ids, reset.obs, reset.steps) == ([1], [0], [0])
        assert vec.step([1, 1, 1]).obs == [2, 1, 2]

    def test_a_subset_can_be_stepped(self, vector: MakeVector) -> None:
        vec = vector(WALK, 3)
        vec.reset(start=0)
        assert vec.step([1, 2], ids=[2, 0]).obs == [1, 2]
        assert vec.step({1: 3}).obs == [3]
        turned = vec.step({2: 0, 0: 1, 1: 0})
        assert (turned.ids, turned.obs) == ([2, 0, 1], [1, 3, 3])
        assert vec.step([0, 0, 0]).obs == [3, 3, 1]

    def test_a_finished_environment_must_be_reset_and_the_refusal_names_it_before_anything_steps(
        self, vector: MakeVector
    ) -> None:
        vec = vector(WALK, 3)
        vec.reset(start=0)
        assert vec.step([1, 5, 1]).done == [False, True, False]
        with pytest.raises(ResetNeededError, match="environment 1") as caught:
            vec.step([1, 1, 1])
        assert "ids=[1]" in caught.value.hint
        vec.reset(ids=[1], start=0)
        assert vec.step([1, 1, 1]).obs == [2, 1, 2]

    def test_an_invalid_action_is_refused_before_any_environment_steps(self, vector: MakeVector) -> None:
        vec = vector(WALK, 3)
        vec.reset(start=0)
        with pytest.raises(InvalidActionError, match=r"environment 2: .*integer"):
            vec.step([1, 1, "x"])
        assert vec.step([0, 0, 0]).obs == [0, 0, 0]

    @pytest.mark.parametrize("action", [13, 14])
    def test_one_failure_costs_one_row_and_the_slot_is_rebuilt_for_its_reset(
        self, vector: MakeVector, action: int
    ) -> None:
        vec = vector(WALK, 3)
        vec.reset(start=0)
        batch = vec.step([1, action, 1])
        assert batch.obs == [1, 0, 1]
        assert batch.reward == [1.0, None, 1.0]
        assert batch.done == [False, True, False]
        assert reasons(batch.requests[1]) == ["infra_error"]
        assert list(batch.failures) == [1]
        with pytest.raises(ResetNeededError):
            vec.step([1, 1, 1])
        reset = vec.reset(ids=[1], start=0)
        assert reset.incarnations == [1]
        after = vec.step([1, 1, 1])
        assert after.obs == [2, 1, 2]
        assert after.incarnations == [0, 1, 0]

    def test_a_failure_with_autoreset_is_followed_by_the_next_episode_on_a_new_environment(
        self, vector: MakeVector
    ) -> None:
        vec = vector(WALK, 2, autoreset=True)
        vec.reset(start=0)
        batch = vec.step([1, 13])
        assert batch.reward == [1.0, None]
        assert [request.kind for request in batch.requests[1]] == ["episode_end", "autoreset_ready", "need_action"]
        assert batch.requests[1][1].episode_id != batch.requests[1][0].episode_id
        assert vec.step([1, 1]).reward == [1.0, 1.0]

    def test_an_action_the_environment_refuses_costs_the_row_its_score_and_the_episode_goes_on(
        self, vector: MakeVector
    ) -> None:
        vec = vector(WALK, 2)
        vec.reset(start=0)
        batch = vec.step([1, 15])
        assert (batch.obs, batch.reward, batch.done) == ([1, 0], [1.0, None], [False, False])
        assert batch.failures[1]["code"] == "usage.invalid_action"
        assert [request.kind for request in batch.requests[1]] == ["need_action"]
        assert vec.step([1, 1]).obs == [2, 1]

    def test_an_end_with_autoreset_keeps_the_last_observation(self, vector: MakeVector) -> None:
        vec = vector(WALK, 2, autoreset=True)
        vec.reset(start=0)
        batch = vec.step([5, 1])
        assert (batch.obs, batch.done) == ([5, 1], [True, False])
        assert [request.kind for request in batch.requests[0]] == ["episode_end", "autoreset_ready", "need_action"]
        assert vec.step([0, 1]).steps == [1, 2]

    def test_ready_first_delivers_every_step_once_and_in_order(self, vector: MakeVector) -> None:
        vec = vector(WALK, 8)
        vec.reset(start=-1000)
        sent = dict.fromkeys(range(8), 0)
        vec.send([1] * 8)
        seen: dict[int, list[int]] = {id: [] for id in range(8)}
        while sum(map(len, seen.values())) < 200:
            batch = vec.recv(min_ready=2, timeout=30)
            assert len(set(batch.ids)) == len(batch)
            for id, step, observation in zip(batch.ids, batch.steps, batch.obs, strict=True):
                seen[id].append(step)
                assert observation == -1000 + step
            vec.send([1] * len(batch), batch.ids)
            for id in batch.ids:
                sent[id] += 1
        assert all(steps == list(range(1, len(steps) + 1)) for steps in seen.values())

    def test_recv_without_anything_in_flight_returns_at_once(self, vector: MakeVector) -> None:
        vec = vector(WALK, 2)
        assert len(vec.recv(min_ready=2)) == 0
        vec.reset(start=0)
        assert len(vec.recv()) == 0

    def test_max_ready_leaves_the_rest_for_later(self, vector: MakeVector) -> None:
        vec = vector(WALK, 4)
        vec.reset(start=0)
        vec.send([1, 1, 1, 1])
        first = vec.recv(min_ready=3, max_ready=3, timeout=30)
        assert len(first) == 3
        assert len(vec.in_flight) == 1
        second = vec.recv(min_ready=1, timeout=30)
        assert sorted(first.ids + second.ids) == [0, 1, 2, 3]
        assert vec.in_flight == []

    def test_resets_can_be_sent_too(self, vector: MakeVector) -> None:
        vec = vector(WALK, 2)
        vec.send_reset(start=0)
        batch = vec.recv(min_ready=2, timeout=30)
        assert (batch.obs, batch.reward, batch.done, batch.steps) == ([0, 0], [None, None], [False, False], [0, 0])
        vec.send([1], [0])
        vec.send_reset([1], start=3)
        both = vec.recv(min_ready=2, timeout=30)
        assert dict(zip(both.ids, both.obs, strict=True)) == {0: 1, 1: 3}

    def test_nothing_can_be_sent_to_an_environment_that_has_not_answered(self, vector: MakeVector) -> None:
        vec = vector(WALK, 2)
        vec.reset(start=0)
        vec.send([1], [0])
        with pytest.raises(BusyError):
            vec.send([1], [0])
        with pytest.raises(BusyError):
            vec.reset(ids=[0])
        with pytest.raises(BusyError):
            vec.step([1, 1])
        assert vec.step([1], ids=[1]).obs == [1]
        assert vec.recv(timeout=30).obs == [1]

    def test_step_async_and_step_wait_are_a_step_in_two_halves(self, vector: MakeVector) -> None:
        vec = vector(WALK, 2)
        vec.reset(start=0)
        with pytest.raises(UsageError):
            vec.step_wait()
        vec.step_async([1, 2])
        with pytest.raises(BusyError):
            vec.step_async([1, 2])
        assert len(vec.recv(timeout=0)) == 0
        assert vec.step_wait(timeout=30).obs == [1, 2]

    def test_unknown_reset_options_are_refused_before_any_environment_resets(self, vector: MakeVector) -> None:
        vec = vector(WALK, 2)
        vec.reset(start=0)
        vec.step([1, 1])
        with pytest.raises(UsageError, match="environment 0: reset has no option 'strat'"):
            vec.reset(strat=1)
        assert vec.step([1, 1]).obs == [2, 2]

    def test_close_closes_every_environment_and_twice_is_harmless(self, vector: MakeVector) -> None:
        vec = vector(WALK, 3)
        vec.reset(start=0)
        vec.send([1, 1, 1])
        assert vec.close() == []
        assert vec.close() == []
        for call in (vec.reset, vec.recv, lambda: vec.step([1, 1, 1])):
            with pytest.raises(ClosedError):
                call()

    def test_multi_agent_environments_are_vectorized(self, vector: MakeVector) -> None:
        vec = vector("rock-paper-scissors", 2, autoreset=True)
        vec.reset()
        hands = {"left": {"hand": "rock"}, "right": {"hand": "paper"}}
        for _ in range(7):
            batch = vec.step([hands, hands])
            assert batch.reward == [{"left": -1.0, "right": 1.0}] * 2

    def test_a_tool_call_in_a_vector_is_answered(self, vector: MakeVector, steered: str) -> None:
        vec = vector(steered, 2)
        vec.reset()
        calls = [requests[0] for requests in vec.step([{"do": "ask"}, {"do": "ask"}]).requests]
        with pytest.raises(UsageError, match="environment 0: tool call") as caught:
            vec.step([{"do": "go on"}, {"do": "go on"}])
        assert "vector.respond(0, " in caught.value.hint
        assert vec.respond(0, calls[0].request_id, 5).obs[0].start == 5
        vec.send_response(1, calls[1].request_id, "fail")
        failed = vec.recv(timeout=30)
        assert (failed.ids, failed.reward, list(failed.failures)) == ([1], [None], [1])
        with pytest.raises(UsageError):
            vec.respond(0, "nobody", 1)


def reasons(requests: Any) -> list[str]:
    return [request.reason for request in requests if isinstance(request, EpisodeEnd)]
