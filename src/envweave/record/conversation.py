"""An episode as a conversation: messages in OpenAI's form, whoever or whatever acted."""

from __future__ import annotations

import json
from typing import Any

from envweave.errors import UnsupportedError
from envweave.record.reader import RecordedEpisode


def conversation(episode: RecordedEpisode) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The messages and the tools. Raises `UnsupportedError` for an episode of several agents."""
    if episode.header.get("agents"):
        raise UnsupportedError(f"episode {episode.id} has several agents", "export it to ATIF or parquet")
    messages: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = list(episode.header.get("tools") or [])
    answered = False
    for event in episode.history:
        kind = event.get("kind")
        if kind == "model":
            messages.append(message_of(event["message"]))
            answered = True
        elif kind in ("reset", "step", "respond"):
            if kind == "step" and not answered:
                messages.append(message_of(event.get("action")))
            messages += told(event)
            answered = False
            seen = event.get("obs")
            if isinstance(seen, dict) and seen.get("tools"):
                tools = seen["tools"]
    return messages, tools


def told(event: dict[str, Any]) -> list[dict[str, Any]]:
    """What the agent was told by a line: the messages of a chat observation, else the observation as text."""
    observation = event.get("obs")
    if isinstance(observation, dict) and isinstance(observation.get("messages"), list):
        return [dict(message) for message in observation["messages"]]
    if observation is None:
        return []
    content = text_of(observation)
    if event.get("from"):
        return [{"role": "tool", "tool_call_id": event["from"], "content": content}]
    return [{"role": "user", "content": content}]


def message_of(action: Any) -> dict[str, Any]:
    """The message of an assistant, from a reply, a message or any other action."""
    if isinstance(action, dict) and isinstance(action.get("message"), dict) and "role" in action["message"]:
        action = action["message"]
    if not (isinstance(action, dict) and "role" in action):
        return {"role": "assistant", "content": action if isinstance(action, str) else text_of(action)}
    message = {"role": action["role"], "content": action.get("content")}
    calls = [_call_of(call) for call in action.get("tool_calls") or ()]
    if calls:
        message["tool_calls"] = calls
    thoughts = action.get("reasoning_content") or action.get("reasoning")
    return {**message, "reasoning_content": thoughts} if thoughts else message


def _call_of(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {"name": call.get("name"), "arguments": call.get("arguments")}
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return {"id": call.get("id") or "", "type": "function", "function": {"name": function["name"], "arguments": text}}


def text_of(value: Any) -> str:
    """A text as it is, the only text of an observation, or JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
