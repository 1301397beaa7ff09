"""Results on the wire, as envweave writes them and as OpenEnv does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from envweave.core.jsonable import to_json
from envweave.errors import ProtocolError
from envweave.requests import NeedAction, Request, ToolCall
from envweave.results import ResetResult, StepResult

Result: TypeAlias = ResetResult[Any] | StepResult[Any]


def result_to_data(
    result: Result, pending: tuple[Request, ...] | None = None, known: tuple[Request, ...] | None = None
) -> dict[str, Any]:
    """The extended form. What the other side has is left out: the requests if they are those of the result before
    (`known`), and the info if it is the observation's `metadata`.

    Raises `NotJSONableError` naming the field that has no JSON form.
    """
    observation, info, requests = result.observation, result.info, result.requests
    data: dict[str, Any] = {
        "observation": to_json(observation, where="observation"),
        "reward": to_json(result.reward, where="reward"),
        "done": result.done,
    }
    if result.terminated is not False:
        data["terminated"] = to_json(result.terminated, where="terminated")
    if result.truncated is not False:
        data["truncated"] = to_json(result.truncated, where="truncated")
    sent = data["observation"]
    metadata = sent.get("metadata") if sent.__class__ is dict else None
    if info if metadata is None else info is not getattr(observation, "metadata", None):
        data["info"] = to_json(info, where="info")
    if requests is not known and requests != known:
        data["requests"] = to_json(requests, where="requests")
    if pending is not None and pending is not requests and pending != open_requests(requests):
        data["pending"] = to_json(pending, where="pending")
    return data


def openenv_data(result: Result) -> dict[str, Any]:
    """OpenEnv's form: `done` and `reward` are beside the observation, not in it."""
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
    if "task_id" in result.info:  # the one key of `info` that OpenEnv's form has a place for
        data["metadata"] = {**(data.get("metadata") or {}), "task_id": to_json(result.info["task_id"], where="task_id")}
    return data


def openenv_result(data: Any) -> StepResult[Any]:
    """A result in OpenEnv's form, with the whole observation. Raises `ProtocolError`.

    OpenEnv has `done` only: that is `terminated`, unless the metadata say `truncated`.
    """
    if not isinstance(data, Mapping) or "observation" not in data or not isinstance(data.get("done", False), bool):
        raise not_a_result(data)
    observation, done, metadata = data["observation"], data.get("done", False), data.get("metadata")
    if isinstance(observation, dict):
        metadata = metadata or observation.get("metadata")
        observation = {**observation, "reward": data.get("reward"), "done": done}
    info = metadata if isinstance(metadata, dict) else {}
    truncated = done and info.get("truncated") is True
    return StepResult(observation, data.get("reward"), done and not truncated, truncated, info)


def open_requests(requests: tuple[Request, ...]) -> tuple[Request, ...]:
    """Those that wait for an answer."""
    return tuple(request for request in requests if isinstance(request, NeedAction | ToolCall))


def not_a_result(data: Any) -> ProtocolError:
    return ProtocolError(f"the server's reply is not a result: {data!r:.200}")
