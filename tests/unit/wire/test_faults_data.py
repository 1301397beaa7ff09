"""Errors as data."""

import pytest

from envweave import errors
from envweave.errors import CapacityError, EnvError, InvalidActionError, ProtocolError, SessionLostError, TransportError
from envweave.requests import EpisodeEnd, LogEvent
from envweave.wire.codec import decode, encode
from envweave.wire.faults import OPENENV_CODES, OUR_CLASSES, fault_from_data, fault_to_data

CLASSES = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.EnvWeaveError)]
END = EpisodeEnd(env_id="e#0", reason="infra_error", final_info={"error": {"code": "env"}}, episode_id="e#0/1")


def crossed(error, **options):
    return fault_from_data(decode(encode(fault_to_data(error, **options))))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("hint", ["", "mend it"])
def test_every_error_comes_out_as_the_class_that_went_in(cls, hint):
    error = cls("it broke", hint)
    error.requests = (LogEvent(env_id="e#0", name="last words", payload={"n": 1}), END)
    found = crossed(error)
    assert type(found) is cls
    assert (found.message, found.hint, str(found)) == (error.message, error.hint, str(error))
    assert (found.code, found.retryable, found.requests) == (error.code, error.retryable, error.requests)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_has_a_code_that_openenv_knows(cls):
    data = fault_to_data(cls("it broke"))
    assert data["code"] == OPENENV_CODES.get(cls, "EXECUTION_ERROR")
    assert data["code"] in OUR_CLASSES
    assert data["message"] == "it broke"
    assert "requests" not in data


@pytest.mark.parametrize(
    ("cls", "code"),
    [
        (InvalidActionError, "VALIDATION_ERROR"),
        (ProtocolError, "VALIDATION_ERROR"),
        (CapacityError, "CAPACITY_REACHED"),
        (SessionLostError, "SESSION_ERROR"),
        (EnvError, "EXECUTION_ERROR"),
        (errors.ResetNeededError, "EXECUTION_ERROR"),
    ],
)
def test_openenv_is_told_by_its_own_codes(cls, code):
    assert fault_to_data(cls("it broke"))["code"] == code


def test_a_code_that_was_chosen_stands_in_place_of_the_usual_one():
    data = fault_to_data(ProtocolError("invalid JSON: no"), "INVALID_JSON")
    assert (data["code"], data["error"]["code"]) == ("INVALID_JSON", "transport.protocol")
    assert type(fault_from_data(data)) is ProtocolError


def test_an_action_that_does_not_fit_comes_with_the_list_that_openenv_clients_read():
    assert fault_to_data(InvalidActionError("too big"))["errors"] == [
        {"type": "value_error", "loc": [], "msg": "too big"}
    ]


@pytest.mark.parametrize(("code", "cls"), OUR_CLASSES.items())
def test_an_error_of_an_openenv_server_becomes_one_of_ours(code, cls):
    found = fault_from_data({"message": "it broke", "code": code})
    assert (type(found), found.message, found.requests) == (cls, "it broke", ())


def test_what_openenv_found_wrong_is_part_of_the_message():
    listed = [{"loc": ["data", "n"], "msg": "not a number", "type": "int"}, {"loc": [], "msg": "and more"}, "odd"]
    found = fault_from_data({"message": "Invalid message", "code": "VALIDATION_ERROR", "errors": listed})
    assert found.message == "Invalid message: data.n: not a number; : and more"


@pytest.mark.parametrize("code", ["NEW_CODE", None, 7, ["x"]])
def test_a_code_that_nobody_knows_is_a_transport_error(code):
    assert type(fault_from_data({"message": "it broke", "code": code})) is TransportError
    assert type(fault_from_data({"message": "it broke", "error": {"code": code, "message": "no"}})) is TransportError


@pytest.mark.parametrize("data", [None, "no", 7, ["no"]])
def test_an_error_that_says_nothing_is_a_transport_error(data):
    found = fault_from_data(data)
    assert type(found) is TransportError
    assert repr(data) in found.message


def test_only_with_debug_the_traceback_of_the_cause_crosses():
    def failed():
        try:
            raise ValueError("deep inside")
        except ValueError as cause:
            error = EnvError("step raised")
            error.__cause__ = cause
            return error

    assert "traceback" not in fault_to_data(failed())["error"]
    assert not hasattr(crossed(failed()), "__notes__")
    (note,) = crossed(failed(), debug=True).__notes__
    assert "ValueError: deep inside" in note
