"""Results on the wire, as envweave writes them and as OpenEnv does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from envweave.core.jsonable import to_json
from envweave.errors import ProtocolError
from envweave.requests import NeedAction, Request, ToolCall
from envweave.results import ResetResult, StepResult
from envweave.wire.faults import requests_from_data

Result: TypeAlias = ResetResult[Any] | StepResult[Any]


def result_to_data(
    result: Result, pending: tuple[Request, ...] | None = None, told: tuple[Request, ...] | None = None
) -> dict[str, Any]:
    """The extended form. What the other side knows already (`told`) or can see for itself is left out.

    Raises `NotJSONableError` naming the field that cannot cross.
    """
    data: dict[str, Any] = {
        "observation": to_json(result.observation, where="observation"),
        "reward": to_json(result.reward, where="reward"),
        "done": result.done,
    }
    if isinstance(result, StepResult):
        if result.terminated is not False:
            data["terminated"] = to_json(result.terminated, where="terminated")
        if result.truncated is not False:
            data["truncated"] = to_json(result.truncated, where="truncated")
    if result.info:
        data["info"] = to_json(result.info, where="info")
    requests = result.requests
    if requests is not told and requests != told:
        data["requests"] = to_json(requests, where="requests")
    if pending is not None and pending is not requests and pending != open_requests(requests):
        data["pending"] = to_json(pending, where="pending")
    return data


def openenv_data(result: Result) -> dict[str, Any]:
    """OpenEnv's form: `done` and `reward` stand beside the observation, not in it."""
    observation = to_json(result.observation, where="observation")
    data: dict[str, Any] = {
        "observation": observation,
        "reward": to_json(result.reward, where="reward"),
        "done": result.done,
    }
    if observation.__class__ is dict:
        if result.__class__ is ResetResult:
            data["reward"] = observation.get("reward")
        if result.terminated.__class__ is bool:  # with several agents these keys would be agents
            observation.pop("reward", None)
            observation.pop("done", None)
        metadata = observation.get("metadata")
        if metadata:
            data["metadata"] = metadata
    return data


def step_from_data(data: Any, told: tuple[Request, ...] = ()) -> StepResult[Any]:
    """A step's result from either form. `told` are the requests of the result before.

    OpenEnv knows `done` only: that is `terminated`, unless the metadata say `truncated`.
    """
    data = _checked(data)
    info = data.get("info")
    if "terminated" in data or "truncated" in data or not data["done"]:
        terminated, truncated = data.get("terminated", False), data.get("truncated", False)
    else:
        metadata = data.get("metadata")
        cut = isinstance(metadata, dict) and metadata.get("truncated") is True
        terminated, truncated = not cut, cut
    return StepResult(data["observation"], data.get("reward"), terminated, truncated, info or {}, _requests(data, told))


def reset_from_data(data: Any, told: tuple[Request, ...] = ()) -> ResetResult[Any]:
    data = _checked(data)
    return ResetResult(data["observation"], data.get("info") or {}, _requests(data, told))


def pending_from_data(data: Mapping[str, Any], requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """What the environment waits for after a result with these requests."""
    return requests_from_data(data["pending"]) if "pending" in data else open_requests(requests)


def open_requests(requests: tuple[Request, ...]) -> tuple[Request, ...]:
    return tuple(request for request in requests if isinstance(request, NeedAction | ToolCall))


def _requests(data: Mapping[str, Any], told: tuple[Request, ...]) -> tuple[Request, ...]:
    return requests_from_data(data["requests"]) if "requests" in data else told


def _checked(data: Any) -> Mapping[str, Any]:
    if isinstance(data, Mapping) and "observation" in data and isinstance(data.get("done", False), bool):
        return data if "done" in data else {**data, "done": False}
    raise ProtocolError(f"the server replied with what is not a result: {data!r:.200}")
