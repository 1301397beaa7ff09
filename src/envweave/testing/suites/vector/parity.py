"""Whatever a vector in this process says, another one says, to the byte after JSON."""

from __future__ import annotations

import pytest

from envweave.testing.suites.record import VectorRecorder
from envweave.testing.suites.vector.base import (
    SCRIPTED,
    SameRows,
    VectorTests,
)


class VectorParityTests(VectorTests):
    """Scripts that are played here and on the vector."""

    @pytest.mark.parametrize("autoreset", [False, True])
    def test_a_vector_steps_as_one_in_process(self, same_rows: SameRows, autoreset: bool) -> None:
        def script(vector: VectorRecorder) -> None:
            vector.reset(seed=7)
            for number in range(6):
                vector.step([{"move": 1 if (number + row) % 3 else -1} for row in range(3)])
            vector.step({0: {"move": 1}, 2: {"move": -1}})
            vector.step([{"move": 1}], ids=[1])
            vector.reset(ids=[1], seed=3)
            vector.step([{"move": 1}] * 3)
            for _ in range(22):
                vector.step([{"move": 1}] * 3)
            vector.reset(ids=[2, 0], seed=[5, 6])
            vector.step([{"move": 1}, {"move": 1}], ids=[0, 2])

        said = same_rows("lineworld", 3, script, autoreset=autoreset)
        assert [row["requests"][0]["env_id"] for row in said[1]["answer"]["results"]] == [
            f"lineworld#{n}" for n in range(3)
        ]

    def test_one_failing_row_costs_only_itself(self, same_rows: SameRows) -> None:
        def script(vector: VectorRecorder) -> None:
            vector.reset(seed=1)
            vector.step([{}, {"raise": "plain"}, {}])
            vector.step([{}, {}, {}])
            vector.step([{}, {}], ids=[0, 2])
            vector.reset(ids=[1], seed=2)
            vector.step([{}, {}, {"refuse": "no"}])
            vector.step([{}, {}, {}])

        said = same_rows(SCRIPTED, 3, script)
        assert said[2]["answer"]["results"][1]["reward"] is None

    def test_one_failing_row_with_autoreset_goes_on(self, same_rows: SameRows) -> None:
        def script(vector: VectorRecorder) -> None:
            vector.reset(seed=1)
            vector.step([{}, {"raise": "plain"}])
            vector.step([{"end": "terminated"}, {"reply": "again"}])
            vector.step([{}, {}])

        same_rows(SCRIPTED, 2, script, autoreset=True)

    def test_a_wrong_action_in_a_vector_is_refused_before_anything_steps(self, same_rows: SameRows) -> None:
        def script(vector: VectorRecorder) -> None:
            vector.reset(seed=1)
            vector.step([{"move": 1}, {"move": 7}, {"move": 1}])
            vector.step([{"move": 1}])
            vector.step({5: {"move": 1}})
            vector.reset(ids=[9])
            vector.reset(speed=1)
            vector.step([{"move": 1}] * 3)

        said = same_rows("lineworld", 3, script)
        assert next(line["error"]["class"] for line in said if "error" in line) == "InvalidActionError"
        assert said[-1]["answer"]["steps"] == [1, 1, 1]

    def test_ready_first_gives_every_row(self, same_rows: SameRows) -> None:
        def script(vector: VectorRecorder) -> None:
            vector.send_reset(seed=3)
            vector.recv(min_ready=3)
            for _ in range(5):
                vector.send([{"reply": 1}, {"log": ["x"]}, {}])
                vector.recv(min_ready=3)
            vector.send([{"ask": [{"tool_name": "t"}]}], ids=[1])
            call = vector.recv().requests[0][0]
            vector.step([{}, {}, {}])
            vector.respond(1, call.request_id, {"reply": "answered"})
            vector.step([{}, {}, {}])

        same_rows(SCRIPTED, 3, script)

    def test_several_agents_in_a_vector(self, same_rows: SameRows) -> None:
        hands = {"left": {"hand": "rock"}, "right": {"hand": "paper"}}

        def script(vector: VectorRecorder) -> None:
            vector.reset()
            for _ in range(7):
                vector.step([hands, {"left": {"hand": "paper"}, "right": {"hand": "paper"}}])
            vector.step([hands, {"left": {"hand": "paper"}}])

        same_rows("rock-paper-scissors", 2, script, autoreset=True)
