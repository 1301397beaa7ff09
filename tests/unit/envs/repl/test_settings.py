import pytest

from envweave.envs.repl import settings
from envweave.errors import UsageError


def test_what_is_given_comes_before_the_variable():
    environ = {"REPL_MAX_ITERATIONS": "7"}
    assert settings.number("max_iterations", 3, environ) == 3
    assert settings.number("max_iterations", None, environ) == 7
    assert settings.number("max_iterations", None, {}) == 30
    assert settings.number("max_iterations", None, {"REPL_MAX_ITERATIONS": ""}) == 30


def test_an_episode_may_ask_for_less_and_not_for_more():
    assert [settings.within("rlm_max_depth", asked, 2) for asked in (None, 0, 2)] == [2, 0, 2]
    with pytest.raises(UsageError, match="rlm_max_depth is 3, and the maximum here is 2"):
        settings.within("rlm_max_depth", 3, 2)
    with pytest.raises(UsageError, match="rlm_max_depth is 'x'"):
        settings.within("rlm_max_depth", "x", 2)


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
    assert settings.number(name, None, environ={}) == number


@pytest.mark.parametrize("given", [0, -1, True, 1.5, "3", [3]])
def test_what_is_no_number_of_iterations_is_refused(given):
    with pytest.raises(UsageError, match="max_iterations is"):
        settings.number("max_iterations", given)


@pytest.mark.parametrize("text", ["x", "-1", "1.5", "1e3", "0x10"])
def test_a_variable_that_is_no_number_is_named(text):
    with pytest.raises(UsageError, match="REPL_RLM_MAX_DEPTH is"):
        settings.number("rlm_max_depth", None, environ={"REPL_RLM_MAX_DEPTH": text})


@pytest.mark.parametrize("name", ["rlm_max_depth", "rlm_max_iterations", "max_iterations"])
def test_nobody_gets_more_depth_or_iterations_than_there_are(name):
    with pytest.raises(UsageError, match=f"{name} is 1000000000"):
        settings.number(name, 10**9)


@pytest.mark.parametrize("given", ["1", None, True, float("nan"), float("inf"), [1]])
def test_a_reward_is_a_number(given):
    with pytest.raises(UsageError, match="reward_on_error is"):
        settings.real("reward_on_error", given)


def test_a_function_is_not_data():
    settings.functions(metric=len, transform=None)
    with pytest.raises(UsageError, match="metric is 'len'"):
        settings.functions(metric="len")
