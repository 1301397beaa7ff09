"""What follows a failure, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from envweave.errors import ResetNeededError
from envweave.testing.suites.vector.base import (
    STEERED_NAME,
    MakeVector,
    VectorTests,
)

TIMEOUT = 0.5
NEED = [("need_action", "")]
NEXT = [("autoreset_ready", ""), *NEED]
ENDED, FAILED = ("episode_end", "terminated"), ("episode_end", "infra_error")
NO_RESET = ("log_event", "reset_failed")
WENT_ON: tuple[Any, ...] = (0, 0, 1, 1, 1.0, False, False, {}, NEED)


def raised(what: str, message: str) -> dict[str, str]:
    return {"code": "env", "type": "EnvError", "message": f"{what} of {STEERED_NAME}#1 raised {message}"}


BY_STEP = raised("step", "ZeroDivisionError: as you say")
BY_RESET = raised("reset", "OSError: reset does not work")
REFUSED = {"code": "usage.invalid_action", "type": "InvalidActionError", "message": "not now"}


class VectorRecoveryTests(VectorTests):
    """A failure affects only its own row, and the environment is rebuilt."""

    def test_a_step_that_raises_ends_its_episode_and_the_environment_is_rebuilt_for_the_reset(
        self, vector: MakeVector, steered: str
    ) -> None:
        vec = vector(steered, 2)
        vec.reset()
        assert told(vec.step(acts("go on", "raise"))) == [WENT_ON, (1, 0, 0, 0, None, False, True, BY_STEP, [FAILED])]
        assert told(vec.reset(ids=[1])) == [(1, 1, 0, 0, None, False, False, {}, NEED)]
        assert [row[:4] for row in told(vec.step(acts("go on", "go on")))] == [(0, 0, 2, 2), (1, 1, 1, 1)]

    def test_a_step_that_raises_with_autoreset_is_followed_by_the_next_episode(
        self, vector: MakeVector, steered: str
    ) -> None:
        vec = vector(steered, 2, autoreset=True)
        vec.reset()
        row = told(vec.step(acts("go on", "raise")))[1]
        assert row == (1, 1, 0, 0, None, False, True, BY_STEP, [FAILED, *NEXT])
        assert told(vec.step(acts("end", "go on")))[0] == (0, 0, 0, 2, 1.0, True, False, {}, [ENDED, *NEXT])

    def test_a_reset_that_raises_once_is_tried_again_on_a_new_environment(
        self, vector: MakeVector, steered: str, files: Path
    ) -> None:
        vec = vector(steered, 1)
        (files / "reset").write_text("1")
        assert told(vec.reset()) == [(0, 1, 0, 0, None, False, False, {}, NEED)]
        (files / "reset").write_text("1")
        in_the_middle = told(vec.reset())
        assert in_the_middle == [(0, 2, 0, 0, None, False, False, {}, [("episode_end", "closed"), *NEED])]

    def test_a_reset_that_always_raises_is_a_row_with_the_reason_and_a_later_one_may_work(
        self, vector: MakeVector, steered: str, files: Path
    ) -> None:
        vec = vector(steered, 2)
        vec.reset()
        (files / "reset").write_text("-1")
        row = told(vec.reset(ids=[1]))
        assert row == [(1, 1, 0, None, None, False, False, BY_RESET, [("episode_end", "closed"), NO_RESET])]
        with pytest.raises(ResetNeededError, match="environment 1"):
            vec.step(acts("go on", "go on"))
        assert told(vec.step(acts("go on"), ids=[0])) == [WENT_ON]
        (files / "reset").unlink()
        assert told(vec.reset(ids=[1])) == [(1, 2, 0, 0, None, False, False, {}, NEED)]

    def test_with_autoreset_a_reset_that_always_raises_keeps_the_result_and_each_step_tries_again(
        self, vector: MakeVector, steered: str, files: Path
    ) -> None:
        vec = vector(steered, 2, autoreset=True)
        vec.reset()
        (files / "reset").write_text("-1")
        end = told(vec.step(acts("go on", "end")))
        assert end[0] == WENT_ON
        assert end[1][3:] == (1, 1.0, True, False, {}, [ENDED, NO_RESET, NO_RESET])  # two environments have tried it
        again = told(vec.step(acts("go on", "go on")))
        assert again[0][3:] == (2, 1.0, False, False, {}, NEED)
        assert again[1][3:] == (1, None, False, False, BY_RESET, [NO_RESET])
        (files / "reset").unlink()
        back = told(vec.step(acts("go on", "go on")))
        assert back[1][3:] == (1, None, False, False, {}, NEXT)
        assert told(vec.step(acts("go on", "go on")))[1][3:] == (1, 1.0, False, False, {}, NEED)

    def test_a_factory_that_fails_when_the_environment_is_rebuilt_is_a_row_and_a_later_reset_may_work(
        self, vector: MakeVector, steered: str, files: Path
    ) -> None:
        vec = vector(steered, 2)
        vec.reset()
        vec.step(acts("go on", "raise"))
        (files / "factory").write_text("-1")
        for _ in range(2):
            row = told(vec.reset(ids=[1]))[0]
            assert row[:7] == (1, 0, 0, None, None, False, False)
            assert "factory does not work" in row[7]["message"]
            assert row[8] == [NO_RESET]
        assert told(vec.step(acts("go on"), ids=[0]))[0][2:4] == (2, 2)
        (files / "factory").unlink()
        assert told(vec.reset(ids=[1])) == [(1, 1, 0, 0, None, False, False, {}, NEED)]

    @pytest.mark.parametrize("num_envs", [1, 2])
    @pytest.mark.parametrize("autoreset", [False, True])
    def test_an_action_that_the_environment_refuses_costs_the_score_of_its_row(
        self, vector: MakeVector, steered: str, num_envs: int, autoreset: bool
    ) -> None:
        vec = vector(steered, num_envs, autoreset=autoreset)
        vec.reset()
        refused = told(vec.step(acts(*["refuse"] * num_envs)))
        assert refused == [(id, 0, 0, 0, None, False, False, REFUSED, NEED) for id in range(num_envs)]
        assert told(vec.step(acts(*["go on"] * num_envs)))[0] == WENT_ON

    def test_a_close_that_raises_does_not_keep_an_environment_from_being_replaced(
        self, vector: MakeVector, steered: str, files: Path
    ) -> None:
        vec = vector(steered, 2)
        vec.reset()
        (files / "close").write_text("-1")
        assert told(vec.step(acts("go on", "raise")))[1][7:] == (BY_STEP, [FAILED])
        assert told(vec.reset(ids=[1])) == [(1, 1, 0, 0, None, False, False, {}, NEED)]
        assert vec.close() == []

    def test_a_step_that_hangs_is_given_up_and_its_environment_replaced(
        self, vector: MakeVector, steered: str, files: Path
    ) -> None:
        self.needs_timeouts()
        (files / "hang step").touch()
        vec = vector(steered, 2, step_timeout=TIMEOUT)
        vec.reset()
        rows = told(vec.step(acts("go on", "hang")))
        assert rows[0] == WENT_ON
        assert rows[1][3:7] == (0, None, False, True)
        assert rows[1][7]["type"] == "EnvError"
        assert rows[1][8] == [FAILED]
        assert told(vec.reset(ids=[1])) == [(1, 1, 0, 0, None, False, False, {}, NEED)]
        assert told(vec.step(acts("go on", "go on")))[1][:4] == (1, 1, 1, 1)

    def test_a_reset_that_hangs_after_an_end_does_not_lose_the_result(
        self, vector: MakeVector, steered: str, files: Path
    ) -> None:
        self.needs_timeouts()
        vec = vector(steered, 2, step_timeout=TIMEOUT, autoreset=True)
        vec.reset()
        (files / "hang reset").touch()
        rows = told(vec.step(acts("go on", "end")))
        assert rows[0] == WENT_ON
        assert rows[1][3:7] == (1, 1.0, True, False)
        assert rows[1][8][0] == ENDED
        (files / "hang reset").unlink()
        while not any(kind == "autoreset_ready" for kind, _ in rows[1][8]):
            rows = told(vec.step(acts("go on", "go on")))
        assert told(vec.step(acts("go on", "go on")))[1][2:5] == (1, 1, 1.0)


def told(batch: Any) -> list[tuple[Any, ...]]:
    """What a row says, without what differs from run to run."""
    return [
        (
            id,
            incarnation,
            step,
            None if result.observation is None else result.observation.count,
            result.reward,
            result.terminated,
            result.truncated,
            {key: error[key] for key in ("code", "type", "message")} if (error := result.info.get("error")) else {},
            [(request.kind, getattr(request, "reason", getattr(request, "name", ""))) for request in result.requests],
        )
        for id, incarnation, step, result in batch.rows()
    ]


def acts(*words: str) -> list[dict[str, str]]:
    return [{"do": word} for word in words]
