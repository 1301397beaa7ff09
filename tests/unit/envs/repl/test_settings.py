import pytest

from envweave.envs.repl.settings import Settings, correctness, expected_text
from envweave.errors import UsageError


def test_what_is_given_comes_before_the_variable():
    environ = {"REPL_MAX_ITERATIONS": "7", "REPL_CONTEXT": "text"}
    assert Settings.read(environ, max_iterations=3).max_iterations == 3
    assert Settings.read(environ, max_iterations=None).max_iterations == 7
    assert Settings.read({}, max_iterations=None).max_iterations == 30
    assert Settings.read({"REPL_MAX_ITERATIONS": ""}).max_iterations == 30
    assert [Settings.read(environ, context=given).context for given in (None, "", "x")] == ["text", "", "x"]


def test_an_episode_may_ask_for_less_and_not_for_more():
    settings = Settings.read({}, rlm_max_depth=2)
    assert [settings.for_episode(rlm_max_depth=asked).rlm_max_depth for asked in (None, 0, 2)] == [2, 0, 2]
    with pytest.raises(UsageError, match="rlm_max_depth is 3, and the maximum here is 2"):
        settings.for_episode(rlm_max_depth=3)
    with pytest.raises(UsageError, match=r"rlm_max_depth: .* got 'x'"):
        settings.for_episode(rlm_max_depth="x")


@pytest.mark.parametrize(("given", "environ"), [({"max_iterations": 5}, {}), ({}, {"REPL_MAX_ITERATIONS": "5"})])
def test_iterations_are_bound_if_they_are_set(given, environ):
    assert Settings.read({}).for_episode(max_iterations=99).max_iterations == 99
    with pytest.raises(UsageError, match="max_iterations is 6, and the maximum here is 5"):
        Settings.read(environ, **given).for_episode(max_iterations=6)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("max_output_length", 8192),
        ("context_preview_length", 500),
        ("rlm_max_depth", 2),
        ("rlm_max_iterations", 30),
        ("rlm_max_children", 64),
    ],
)
def test_the_numbers_are_those_of_the_original(name, number):
    assert getattr(Settings.read({}), name) == number


@pytest.mark.parametrize("given", [0, -1, True, 1.5, "3", [3]])
def test_what_is_no_number_of_iterations_is_refused(given):
    with pytest.raises(UsageError, match=r"max_iterations: .* got"):
        Settings.read({}, max_iterations=given)


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "1e3", "0x10"])
def test_a_variable_that_is_no_number_is_named(text):
    with pytest.raises(UsageError, match="REPL_RLM_MAX_DEPTH is"):
        Settings.read({"REPL_RLM_MAX_DEPTH": text})


@pytest.mark.parametrize("name", ["rlm_max_depth", "rlm_max_iterations", "max_iterations"])
def test_nobody_gets_more_depth_or_iterations_than_there_are(name):
    with pytest.raises(UsageError, match=rf"{name}: .* got 1000000000"):
        Settings.read({}, **{name: 10**9})


@pytest.mark.parametrize("given", ["1", None, True, float("nan"), float("inf"), [1]])
def test_a_reward_is_a_number(given):
    with pytest.raises(UsageError, match=r"reward_on_error: .* got"):
        Settings.read({}, reward_on_error=given)


def test_a_function_is_not_data():
    assert Settings.read({}, metric=max).metric is max
    with pytest.raises(UsageError, match=r"metric: .* got 'len'"):
        Settings.read({}, metric="len")


# Scores.


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
    settings = Settings(reward_on_success=10.0, metric=lambda expected, answer: 0.25)
    assert settings.reward_of("a", "b") == (2.5, {})
    assert Settings().reward_of("b", "b") == (1.0, {})
    assert Settings(reward_on_success=0.0).reward_of("b", "b") == (0.0, {})


def test_an_answer_without_an_expected_one_is_not_scored_unless_the_operator_pays_for_any():
    assert Settings().reward_of("nonsense", None) == (None, {})
    assert Settings(reward_on_success=1.0).reward_of("nonsense", None) == (1.0, {})


@pytest.mark.parametrize("score", [None, float("nan"), "x", {}])
def test_a_metric_that_gives_no_number_is_no_score(score):
    reward, told = Settings(metric=lambda expected, answer: score).reward_of("a", "b")
    assert reward is None
    assert bool(told) is (score is not None)


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
