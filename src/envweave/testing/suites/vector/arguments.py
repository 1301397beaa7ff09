"""Wrong arguments, which are refused and change nothing."""

from __future__ import annotations

from typing import Any

import pytest

from envweave.errors import ClosedError, UsageError
from envweave.testing.suites.vector.base import (
    GO,
    WALK,
    MakeVector,
    VectorTests,
    counts,
)


class VectorArgumentTests(VectorTests):
    """Checked before any environment steps."""

    @pytest.mark.parametrize("actions", [[1], [1, 1, 1], "ab", 3, None])
    def test_the_wrong_number_of_actions_is_refused(self, vector: MakeVector, actions: Any) -> None:
        vec = vector(WALK, 2)
        vec.reset(start=0)
        with pytest.raises(UsageError):
            vec.step(actions)
        assert vec.step([0, 0]).obs == [0, 0]

    @pytest.mark.parametrize("ids", [[2], [-1], [0, 0]])
    def test_unknown_and_repeated_environments_are_refused(self, vector: MakeVector, ids: list[int]) -> None:
        vec = vector(WALK, 2)
        vec.reset(start=0)
        with pytest.raises(UsageError):
            vec.reset(ids=ids)
        with pytest.raises(UsageError):
            vec.send([0] * len(ids), ids)

    def test_a_vector_has_no_transform(self, vector: MakeVector) -> None:
        vec = vector(WALK, 2)
        assert not hasattr(vec, "transform")
        with pytest.raises(UsageError, match="no transform"):
            vec.transform = lambda observation: observation
        vec.reset(start=0)
        assert vec.step([1, 1]).reward == [1.0, 1.0]

    @pytest.mark.parametrize("timeout", ["soon", float("nan")])
    def test_a_wrong_timeout_is_refused_before_any_environment_steps(self, vector: MakeVector, timeout: Any) -> None:
        vec = vector(WALK, 2)
        vec.reset(start=0)
        with pytest.raises(UsageError):
            vec.step([1, 1], timeout=timeout)
        with pytest.raises(UsageError):
            vec.close(timeout=timeout)
        assert vec.step([1, 1]).obs == [1, 1]

    @pytest.mark.parametrize("counts", [{"max_ready": "x"}, {"max_ready": 0}, {"min_ready": 3, "max_ready": 2}])
    def test_counts_without_a_meaning_are_refused(self, vector: MakeVector, counts: dict[str, Any]) -> None:
        with pytest.raises(UsageError, match="ready"):
            vector(WALK, 2).recv(**counts)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"seed": [1, 2]},
            {"seed": [1, 2, "3"]},
            {"seed": [1, 2, 3.5]},
            {"seed": "123"},
            {"seed": {1, 2, 3}},
            {"seed": {0: 1, 1: 2, 2: 3}},
            {"options": [{}]},
            {"options": [{}, {}, 3]},
            {"options": "abc"},
            {"options": 3},
            {"episode_id": "the same for all"},
            {"episode_id": ["a", "b"]},
            {"episode_id": ["a", "b", 3]},
            {"episode_id": ["a", "b", "a"]},
            {"episode_id": 3},
        ],
    )
    def test_a_wrong_list_is_refused_and_nothing_has_changed(
        self, vector: MakeVector, steered: str, wrong: dict[str, Any]
    ) -> None:
        vec = vector(steered, 3)
        vec.reset()
        vec.step([GO] * 3)
        for reset in (vec.reset, vec.send_reset):
            with pytest.raises(UsageError, match=next(iter(wrong))):
                reset(**wrong)
        assert vec.in_flight == []
        assert counts(vec.step([GO] * 3)) == [2, 2, 2]

    @pytest.mark.parametrize("id", [2, -1, "x", None])
    def test_a_fork_of_an_environment_that_is_not_there_is_refused(
        self, vector: MakeVector, steered: str, id: Any
    ) -> None:
        vec = vector(steered, 2)
        vec.reset()
        with pytest.raises(UsageError):
            vec.fork(id)
        vec.close()
        with pytest.raises(ClosedError):
            vec.fork(0)
