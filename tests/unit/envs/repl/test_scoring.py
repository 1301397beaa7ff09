import pytest

from envweave.envs.repl.scoring import Rewards, exact_match, expected_text
from envweave.errors import UsageError


@pytest.mark.parametrize(
    ("expected", "answer", "score"),
    [
        ("Paris", " paris\n", 1.0),
        ("Paris", "Paris.", 0.0),
        ("", "", 1.0),
        ("", "x", 0.0),
        ("11", "11.0", 1.0),
        ("1e3", "1000", 0.0),
        ("+7", " 7", 1.0),
        ("1" * 400, "1" * 400, 1.0),
    ],
)
def test_two_answers_are_the_same_but_for_case_and_space(expected, answer, score):
    assert exact_match(expected, answer) == score


def test_an_answer_is_worth_its_part_of_the_reward():
    rewards = Rewards(on_success=10.0, metric=lambda expected, answer: 0.25)
    assert rewards.of_answer("a", "b") == (2.5, {})
    assert rewards.of_answer("a", None) == (10.0, {}), "nobody knows better"


@pytest.mark.parametrize("score", [None, float("nan"), "x", {}])
def test_a_metric_that_gives_no_number_is_no_score(score):
    reward, told = Rewards(metric=lambda expected, answer: score).of_answer("a", "b")
    assert reward is None
    assert bool(told) is (score is not None)


def test_a_step_is_worth_what_it_did():
    rewards = Rewards(on_iteration=0.01, on_error=-0.5)
    assert rewards.of_step(failed=False) == 0.01
    assert rewards.of_step(failed=True) == -0.5


@pytest.mark.parametrize(("given", "text"), [(None, None), ("", ""), ("x", "x"), (11, "11"), (1.5, "1.5")])
def test_an_expected_answer_is_text(given, text):
    assert expected_text(given) == text


@pytest.mark.parametrize("given", [["x"], {"a": 1}, b"x"])
def test_what_is_neither_text_nor_a_number_is_not_expected(given):
    with pytest.raises(UsageError, match="expected_answer"):
        expected_text(given)
