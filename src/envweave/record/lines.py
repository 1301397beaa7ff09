"""What a line says of a result, a request or a reply of a model. See docs/record.md for all kinds and fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from envweave.lm.messages import Message
from envweave.lm.reply import Reply
from envweave.requests import KINDS, NeedAction, Request

_FIELDS = {cls: tuple(f.name for f in fields(cls) if f.name != "env_id") for cls in KINDS.values()}


def requests_data(requests: Iterable[Request], schemas: dict[str, Any]) -> list[dict[str, Any]]:
    """Requests without the name of the instance. The schema of an action is written only where it has changed.

    `schemas` holds the last schema of each agent, and is updated.
    """
    found = []
    for request in requests:
        if isinstance(request, NeedAction):
            data: dict[str, Any] = {"kind": "need_action", "agent_id": request.agent_id}
            if request.deadline is not None:
                data["deadline"] = request.deadline
            if request.action_schema != schemas.get(request.agent_id):
                data["action_schema"] = schemas[request.agent_id] = request.action_schema
        else:
            data = {name: getattr(request, name) for name in _FIELDS[type(request)]}
        found.append(data)
    return found


def reward_parts(result: Any) -> Mapping[str, Any] | None:
    """The contributions to the reward by name, from the metadata of an observation or from `info`."""
    observation = result.observation
    if isinstance(observation, Mapping):
        metadata = observation.get("metadata")
    else:
        metadata = getattr(observation, "metadata", None)
    for place in (metadata, result.info):
        parts = place.get("rewards") if isinstance(place, Mapping) else None
        if isinstance(parts, Mapping):
            return parts
    return None


def reply_data(reply: Reply) -> dict[str, Any]:
    """The fields of a `model` line that a reply has."""
    usage = reply.usage
    data: dict[str, Any] = {"model": reply.model, "message": message_data(reply.message)}
    data["finish"] = reply.finish_reason
    data["usage"] = {
        "prompt": usage.prompt_tokens,
        "completion": usage.completion_tokens,
        "cached": usage.cached_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    tokens = {"prompt_ids": reply.prompt_token_ids, "completion_ids": reply.token_ids, "logprobs": reply.logprobs}
    if any(value is not None for value in tokens.values()):
        data["tokens"] = {name: value for name, value in tokens.items() if value is not None}
    version = reply.policy_version
    return data if version is None else {**data, "policy_version": version}


def message_data(message: Message | Mapping[str, Any]) -> dict[str, Any]:
    """A message in OpenAI's form, with thoughts as `reasoning_content`."""
    if not isinstance(message, Message):
        return dict(message)
    data = message.to_dict()
    if message.reasoning:
        data["reasoning_content"] = message.reasoning
    return data
