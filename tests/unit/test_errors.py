"""The error tree."""

import pickle

import pytest

from envweave import errors
from envweave.requests import EpisodeEnd


def classes():
    return [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]


@pytest.mark.parametrize("cls", classes(), ids=lambda cls: cls.__name__)
def test_every_error_survives_pickle_with_its_hint(cls):
    error = pickle.loads(pickle.dumps(cls("it broke", "mend it")))
    assert type(error) is cls
    assert str(error) == "it broke\nhint: mend it"


def test_every_error_is_drawn_in_the_tree_at_the_top_of_the_file_and_has_a_code_of_its_own():
    assert all(cls.__name__ in errors.__doc__ for cls in classes())
    codes = [cls.code for cls in classes()]
    assert len(set(codes)) == len(codes)


def test_the_code_of_a_subclass_begins_with_that_of_its_parent():
    for cls in classes():
        parent = cls.__mro__[1]
        if parent not in (Exception, errors.EnvWeaveError):
            assert cls.code.startswith(parent.code + ".")


def test_what_an_environment_had_still_to_say_survives_pickle_too():
    error = errors.EnvError("it broke")
    error.requests = (EpisodeEnd(env_id="e#0", reason="infra_error"),)
    assert pickle.loads(pickle.dumps(error)).requests == error.requests


def test_an_error_as_data_has_its_code_and_leaves_out_an_empty_hint():
    assert errors.BusyError("wait").to_data() == {"code": "usage.busy", "type": "BusyError", "message": "wait"}
