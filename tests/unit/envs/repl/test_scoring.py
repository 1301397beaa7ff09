import pytest

from envweave.envs.repl.scoring import Rewards, correctness, expected_text
from envweave.errors import UsageError


@pytest.mark.parametrize(
    ("expected", "answer", "score"),
    [
        ("Paris", " paris.\n", 1.0),
        ("11", "22/2", 1.0),
        ("11", "not 11", 0.0),
        ("Paris", "London", 0.0),
        (" ", "x", None),
    ],
)
def test_an_answer_is_graded_as_everywhere(expected, answer, score):
    assert correctness(expected, answer) == score


def test_an_answer_is_worth_its_part_of_the_reward():
    rewards = Rewards(on_success=10.0, metric=lambda expected, answer: 0.25)
    assert rewards.of_answer("a", "b") == (2.5, {})
    assert Rewards().of_answer("b", "b") == (1.0, {})
    assert Rewards(on_success=0.0).of_answer("b", "b") == (0.0, {})


def test_an_answer_without_an_expected_one_is_not_scored_unless_the_operator_pays_for_any():
    assert Rewards().of_answer("nonsense", None) == (None, {})
    assert Rewards(on_success=1.0).of_answer("nonsense", None) == (1.0, {})


@pytest.mark.parametrize("score", [None, float("nan"), "x", {}])
def test_a_metric_that_gives_no_number_is_no_score(score):
    reward, told = Rewards(metric=lambda expected, answer: score).of_answer("a", "b")
    assert reward is None
    assert bool(told) is (score is not None)


def test_a_step_is_worth_what_it_did():
    rewards = Rewards(on_iteration=0.01, on_error=-0.5)
    assert rewards.of_step(failed=False) == 0.01
    assert rewards.of_step(failed=True) == -0.5


@pytest.mark.parametrize(
    ("given", "text"),
    [(None, None), ("", None), (" ", None), ("x", "x"), (11, "11"), (-3, "-3"), (1.5, "1.5"), (True, "True")],
)
def test_an_expected_answer_is_text(given, text):
    assert expected_text(given) == text


def test_an_expected_integer_may_have_any_number_of_digits_up_to_a_bound():
    assert expected_text(10**5000) == "1" + "0" * 5000
    with pytest.raises(UsageError, match="expected_answer"):
        expected_text(1 << 400_001)


@pytest.mark.parametrize("given", [["x"], {"a": 1}, b"x"])
def test_what_is_neither_text_nor_a_number_is_not_expected(given):
    with pytest.raises(UsageError, match="expected_answer"):
        expected_text(given)
