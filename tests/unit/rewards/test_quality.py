"""Two metrics of code, each of them stated and visible."""

import pytest

import envweave as ew
from envweave.rewards import CodeQualityTransform


@pytest.mark.parametrize(
    ("code", "success", "concise", "syntax"),
    [
        ("21 * 2", True, 0.1, 0.0),
        ("x" * 100, True, 0.1, 0.0),
        (f"\n  {'x' * 100}  \n".replace("\n  ", "\n"), True, 0.1, 0.0),
        ("x" * 101, True, 0.0, 0.0),
        ("1 / 0", False, 0.0, 0.0),
        ("1 +", False, 0.0, -0.2),
        ("1 + \0", False, 0.0, -0.2),
        ("x = '\ud800'", False, 0.0, -0.2),
        ("", True, 0.0, 0.0),
        ("   ", True, 0.0, 0.0),
        ("await f()", True, 0.1, 0.0),
        ("x = '\\d'", True, 0.1, 0.0),
    ],
)
def test_each_metric_stands_by_its_name(ran, code, success, concise, syntax):
    seen = CodeQualityTransform()(ran(code=code, success=success))
    assert seen.metadata["rewards"] == {"code_quality.concise": concise, "code_quality.syntax": syntax}
    assert seen.reward == concise + syntax


def test_the_bonuses_and_the_length_can_be_chosen(ran):
    quality = CodeQualityTransform(concise_bonus=0.5, max_length_threshold=3, syntax_penalty=-1.0, name="form")
    assert quality(ran(code="abc")).metadata["rewards"] == {"form.concise": 0.5, "form.syntax": 0.0}
    assert quality(ran(code="abcd")).reward == 0.0
    assert quality(ran(code="(", success=False)).reward == -1.0


def test_the_bonus_is_paid_once_in_an_episode(ran):
    first = CodeQualityTransform()(ran(code="0"))
    assert (first.reward, first.metadata["style_paid"]) == (0.1, 0.1)
    later = ran(code="0")
    later.metadata["style_paid"] = first.metadata["style_paid"]
    assert CodeQualityTransform()(later).reward == 0.0
    assert "style_paid" not in CodeQualityTransform()(ran(code="1 / 0", success=False)).metadata


def test_without_code_or_without_a_result_there_is_no_score(ran):
    for observation in (ew.Observation(), ew.Observation(metadata={"last_code": "1"})):
        seen = CodeQualityTransform()(observation)
        assert (seen.reward, seen.metadata["rewards"]) == (None, {"code_quality": None})
        assert seen.metadata["error"]["hint"]


@pytest.mark.parametrize("code", ["-" * 100_000 + "1", "x=1\n" * 100_000], ids=["deep", "long"])
def test_code_that_cannot_be_read_is_no_way_around_the_penalty(ran, code):
    for success in (True, False):
        assert CodeQualityTransform()(ran(code=code, success=success)).reward == -0.2


def test_code_that_ran_although_it_is_not_python_here_is_not_scored(ran):
    seen = CodeQualityTransform()(ran(code="print 1", success=True))
    assert seen.reward is None
    assert "the code ran" in seen.metadata["error"]["message"]
