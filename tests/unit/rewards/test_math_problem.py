"""A right answer is 1.0, a wrong or unreadable one 0.0, and where nothing was run there is no score."""

import sys

import pytest

import envweave as ew
from envweave.core.jsonable import to_json
from envweave.rewards import MathProblemTransform


def judge(observation, expected, **options):
    seen = MathProblemTransform(expected, **options)(observation)
    to_json(seen.metadata)
    return seen.reward, seen.metadata["answer"]["verdict"]


RIGHT, WRONG, INVALID = (1.0, "right"), (0.0, "wrong"), (0.0, "invalid")


@pytest.mark.parametrize(
    ("value", "expected", "judged"),
    [
        (42, 42, RIGHT), ("The answer is 42.", 42, RIGHT), (41, 42, WRONG), ("41", 42, WRONG), (True, 1, INVALID),
        ("x ≠ 42", 42, INVALID), ([42], 42, RIGHT), ("yes", True, RIGHT), ([2, 1], [1, 2], WRONG),
        ("paris", "Paris", RIGHT), (5, "five", WRONG),
    ],
)  # fmt: skip
def test_a_value_is_compared_with_what_is_expected(ran, value, expected, judged):
    assert judge(ran(value), expected) == judged


@pytest.mark.parametrize(
    ("value", "done"), [(42, True), (41, True), ("41 or 42", False), (None, False), ("x ≤ 42", False), ("41", True)]
)
def test_the_first_answer_right_or_wrong_ends_the_episode(ran, value, done):
    seen = MathProblemTransform(42)(ran(value))
    assert (seen.done, seen.metadata["answer"]["verdict"] == "invalid") == (done, not done)
    assert not MathProblemTransform(42)(ran(42, success=False)).done


def test_the_count_of_a_write_is_not_the_answer(ran):
    code = "import sys\nsys.stdout.write('42\\n')"
    assert judge(ran(3, stdout="42\n", code=code), 42) == RIGHT
    assert judge(ran(3, stdout="42\n", code=code), 3) == WRONG
    assert judge(ran(3, stdout="42\n", code="open('f').write('x')\n3"), 3) == RIGHT
    coding = {"stdout": "42\n3\n", "stderr": "", "exit_code": 0, "metadata": {"last_code": code}}
    assert MathProblemTransform(42)(coding)["reward"] == 1.0
    assert MathProblemTransform(3)(coding)["reward"] == 0.0


def test_an_expected_answer_that_cannot_be_compared_leaves_the_step_unscored(ran, monkeypatch):
    monkeypatch.setitem(sys.modules, "math_verify", None)
    seen = MathProblemTransform("x + 1")(ran("1 + x"))
    assert (seen.reward, seen.done, seen.metadata["answer"]["verdict"]) == (None, False, "undecided")
    assert MathProblemTransform("x + 1")(ran("$x+1$.")).reward == 1.0


def test_without_a_value_the_last_line_that_was_printed_is_the_answer(ran):
    assert judge(ran(stdout="41\n42\n\n  \n"), 42) == RIGHT
    assert judge(ran(stdout="42\n41"), 42) == WRONG
    assert judge(ran(41, stdout="42"), 42) == WRONG
    assert judge(ran(stdout="42\r\n"), 42) == RIGHT
    assert judge(ran(), 42) == INVALID
    assert judge(ran(stdout="no\n" * 100_000 + "42"), 42) == RIGHT


def test_code_that_failed_has_no_answer_whatever_it_printed(ran):
    seen = MathProblemTransform(42)(ran(stdout="42", success=False))
    assert (seen.reward, seen.metadata["answer"]) == (0.0, {"verdict": "invalid", "reason": "the code failed"})


def test_what_was_read_and_why_it_is_invalid_are_shown_but_not_what_was_expected(ran):
    seen = MathProblemTransform(777)(ran("between 41 and 42"))
    assert seen.metadata["answer"]["read"] == "between 41 and 42"
    assert "several numbers" in seen.metadata["answer"]["reason"]
    assert "777" not in str(to_json(seen.metadata))
    assert len(MathProblemTransform(1)(ran("x" * 100_000)).metadata["answer"]["read"]) == 200
    assert "too large" in MathProblemTransform(1)(ran(10**20000)).metadata["answer"]["read"]
    assert to_json(MathProblemTransform(1)(ran("\ud800")).metadata)["answer"]["read"] == "\\ud800"


def test_a_tolerance_is_how_far_off_an_answer_may_be(ran):
    assert judge(ran(42.4), 42, tolerance=0.5) == RIGHT
    assert judge(ran(42.6), 42, tolerance=0.5) == WRONG
    assert judge(ran("[1.1, 2]"), [1, 2], tolerance=0.2) == RIGHT


@pytest.mark.parametrize("tolerance", [-1, float("nan"), float("inf")])
def test_a_tolerance_without_a_meaning_is_refused(tolerance):
    with pytest.raises(ew.UsageError, match="tolerance is"):
        MathProblemTransform(42, tolerance=tolerance)


@pytest.mark.parametrize(
    "expected", [None, "", "  ", float("nan"), float("inf"), {"a": 1}, [1, [2]], ["x"], [True], object()]
)
def test_an_expected_answer_that_nothing_could_match_is_refused(expected):
    with pytest.raises(ew.UsageError, match="expected_answer is") as caught:
        MathProblemTransform(expected)
    assert caught.value.hint


def test_the_reward_and_the_name_can_be_chosen(ran):
    seen = MathProblemTransform(42, reward=5.0, name="right")(ran(42))
    assert (seen.reward, seen.metadata["rewards"]) == (5.0, {"right": 5.0})


@pytest.mark.parametrize(
    "observation",
    [
        ew.Observation(),
        ew.Observation(metadata={"last_code": "21 * 2"}),
        {"execution_result": None},
        {"execution_result": {"stdout": "42"}},
        {"execution_result": "42"},
        {"stdout": 42, "exit_code": 0},
    ],
)
def test_where_nothing_was_run_there_is_no_score(observation):
    seen = MathProblemTransform(42)({"metadata": {}, **observation} if isinstance(observation, dict) else observation)
    reward, metadata = (seen["reward"], seen["metadata"]) if isinstance(seen, dict) else (seen.reward, seen.metadata)
    assert reward is None
    assert "no result of a run" in metadata["error"]["message"]


@pytest.mark.parametrize(
    "observation",
    [
        {"execution_result": {"return_value": 42, "success": True}},
        {"execution_result": {"stdout": "42\n", "exit_code": 0}},
        {"stdout": "42\n", "stderr": "", "exit_code": 0},
    ],
)
def test_a_result_is_read_from_the_wire_and_from_the_coding_environment_too(observation):
    assert MathProblemTransform(42)(observation)["reward"] == 1.0


def test_the_exit_code_of_the_coding_environment_says_whether_it_failed():
    seen = MathProblemTransform(42)({"stdout": "42\n", "stderr": "boom", "exit_code": 1})
    assert (seen["reward"], seen["metadata"]["answer"]["reason"]) == (0.0, "the code failed")
