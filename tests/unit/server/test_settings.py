"""What an operator can choose."""

import pytest

from envweave.errors import UsageError
from envweave.server.settings import Settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_sessions", 0),
        ("idle_timeout", -1.0),
        ("step_timeout", float("nan")),
        ("close_timeout", None),
        ("max_threads", "many"),
        ("resume_within", -0.1),
        ("isolation", "vm"),
        ("token", ""),
        ("token", "  "),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_by_name(name, value):
    with pytest.raises(UsageError, match=name):
        Settings(**{name: value})


def test_no_limit_is_none_and_no_resuming_is_zero():
    chosen = Settings(max_sessions=None, idle_timeout=None, step_timeout=None, resume_within=0)
    assert chosen.idle_timeout is None


def test_a_setting_that_there_is_not_has_a_suggestion():
    with pytest.raises(UsageError, match="no setting 'max_session'") as caught:
        Settings.chosen({"max_session": 3})
    assert caught.value.hint == "did you mean 'max_sessions'?"
    with pytest.raises(UsageError) as caught:
        Settings.chosen({"zzz": 3})
    assert "isolation" in caught.value.hint
