"""What most people want, as the issue states it."""

import pytest

import envweave as ew
from envweave.rewards import CompositeTransform, create_math_env_transform, create_safe_env_transform


def test_the_right_answer_gives_one_and_the_stated_bonuses(ran):
    seen = create_math_env_transform(expected_answer=42)(ran(42, code="21 * 2"))
    assert seen.reward == 1.1
    assert seen.metadata["rewards"] == {"math_problem": 1.0, "code_quality.concise": 0.1, "code_quality.syntax": 0.0}


def test_a_wrong_answer_earns_the_bonus_only_and_a_failure_nothing(ran):
    assert create_math_env_transform(42)(ran(41, code="41")).reward == 0.1
    assert create_math_env_transform(42)(ran(code="1 / 0", success=False)).reward == 0.0
    assert create_math_env_transform(42)(ran(code="1 +", success=False)).reward == -0.2
    assert create_math_env_transform(42, tolerance=2)(ran(41, code="41")).reward == 1.1


def test_dangerous_code_is_punished_and_harmless_code_is_not(ran):
    transform = create_safe_env_transform()
    assert isinstance(transform, CompositeTransform)
    assert transform(ran(code="print('open(')")).reward == 0.1
    seen = transform(ran(code="import os"))
    assert seen.reward == pytest.approx(-0.9)
    assert seen.metadata["safety_violation"] == "import os (line 1)"
    assert create_safe_env_transform(penalty=-5.0)(ran(code="import os")).reward == pytest.approx(-4.9)


def test_an_observation_without_code_is_not_scored_at_all():
    for transform in (create_math_env_transform(42), create_safe_env_transform()):
        seen = transform(ew.Observation())
        assert seen.reward is None
        assert set(seen.metadata["rewards"].values()) == {None}


def test_it_works_in_an_environment_from_step_to_info(ran):
    class Calculator(ew.Environment[str, ew.Observation]):
        def __init__(self):
            self.transform = create_math_env_transform(expected_answer=42)

        def reset(self, *, seed=None):
            return ran()

        def step(self, action):
            return ran(eval(action, {}), code=action)

    env = ew.adapt(Calculator())
    env.reset()
    result = env.step("21 * 2")
    assert (result.reward, result.info["rewards"]["math_problem"]) == (1.1, 1.0)
    assert result.terminated
    env.reset()
    assert env.step("20 * 2").info["answer"]["verdict"] == "wrong"
