"""Errors on the wire: the same class comes out at the other end."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from envweave.core.jsonable import to_json
from envweave.errors import (
    BatchRefusedError,
    CapacityError,
    EnvError,
    EnvWeaveError,
    InvalidActionError,
    ProtocolError,
    SessionLostError,
    TransportError,
    UnauthorizedError,
)
from envweave.requests import Request, request_from_data

OPENENV_CODES: Mapping[type[EnvWeaveError], str] = {
    InvalidActionError: "VALIDATION_ERROR",
    ProtocolError: "VALIDATION_ERROR",
    CapacityError: "CAPACITY_REACHED",
    SessionLostError: "SESSION_ERROR",
    UnauthorizedError: "SESSION_ERROR",
}
"""What OpenEnv calls our errors; all others are EXECUTION_ERROR."""

OUR_CLASSES: Mapping[str, type[EnvWeaveError]] = {
    "INVALID_JSON": ProtocolError,
    "UNKNOWN_TYPE": ProtocolError,
    "VALIDATION_ERROR": InvalidActionError,
    "EXECUTION_ERROR": EnvError,
    "CAPACITY_REACHED": CapacityError,
    "FACTORY_ERROR": EnvError,
    "SESSION_ERROR": SessionLostError,
}
"""What we make of the code of an OpenEnv server."""


def fault_to_data(error: EnvWeaveError, code: str = "", *, debug: bool = False) -> dict[str, Any]:
    """The `data` of an error message; with `debug` it holds the traceback of the cause."""
    own: dict[str, Any] = {key: _crossable(text) for key, text in error.to_data().items()}
    if debug:
        own["traceback"] = _crossable("".join(traceback.format_exception(error.__cause__ or error)))
    data: dict[str, Any] = {
        "message": own["message"],
        "code": code or OPENENV_CODES.get(type(error), "EXECUTION_ERROR"),
        "error": own,
    }
    if isinstance(error, InvalidActionError):
        data["errors"] = [{"type": "value_error", "loc": [], "msg": own["message"]}]
    if error.by_environment:
        data["by_environment"] = True
    if error.requests:
        data["requests"] = to_json(error.requests, where="requests")
    return data


def _crossable(text: str) -> str:
    """The text without lone surrogates, which no JSON has: an error must not get lost over its own words."""
    return text.encode(errors="backslashreplace").decode()


def fault_from_data(data: Any) -> EnvWeaveError:
    """The error to raise for the `data` of an error message, from our server or from OpenEnv's."""
    if not isinstance(data, Mapping):
        return TransportError(f"the server replied with an error that has no meaning: {data!r:.200}")
    own = data.get("error")
    if isinstance(own, Mapping):
        cls = _BY_CODE.get(str(own.get("code")), TransportError)
        error = cls(str(own.get("message", "")), str(own.get("hint", "")))
        if "traceback" in own:
            error.add_note(str(own["traceback"]))
    else:
        cls = OUR_CLASSES.get(str(data.get("code")), TransportError)
        error = cls(_openenv_message(data))
    error.by_environment = data.get("by_environment") is True
    error.requests = requests_from_data(data.get("requests", ()))
    return error


def requests_from_data(data: Any) -> tuple[Request, ...]:
    return tuple(request_from_data(one) for one in data)


def _openenv_message(data: Mapping[str, Any]) -> str:
    """The message, and where OpenEnv says only "Invalid message" what its list of errors says."""
    message = str(data.get("message", data.get("detail", "")))
    found = data.get("errors")
    if not isinstance(found, list):
        return message
    parts = [f"{'.'.join(map(str, one.get('loc', ())))}: {one.get('msg')}" for one in found if isinstance(one, Mapping)]
    return f"{message}: {'; '.join(parts[:3])}" if parts else message


def _tree(cls: type[EnvWeaveError]) -> Iterator[type[EnvWeaveError]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _tree(sub)


_BY_CODE = {cls.code: cls for cls in _tree(EnvWeaveError) if cls.__module__ == BatchRefusedError.__module__}
