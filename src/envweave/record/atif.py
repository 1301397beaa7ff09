"""ATIF v1.7, the Agent Trajectory Interchange Format of Harbor: one JSON file for each episode.

ATIF has no reward, seed or end of an episode. These are in `extra.envweave` of the trajectory and of its steps, so that
what was exported can be imported again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from envweave.errors import RecordError, UnsupportedError
from envweave.record.conversation import message_of, text_of, told
from envweave.record.messages import episode_of
from envweave.record.reader import RecordedEpisode
from envweave.record.recorder import Recorder

VERSION = "ATIF-v1.7"
_NOTED = ("n", "ms", "reward", "rewards", "terminated", "truncated", "action")
_KEPT = ("env", "args", "seed", "task", "group", "sample", "attempt", "env_digest")


def export_atif(episodes: Iterable[RecordedEpisode], folder: str | PathLike[str]) -> int:
    """Write `<episode>.json` for each episode. Returns how many these are."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    count = 0
    for episode in episodes:
        text = json.dumps(to_atif(episode), indent=1, ensure_ascii=False)
        (target / f"{episode.id}.json").write_text(text, encoding="utf-8")
        count += 1
    return count


def to_atif(episode: RecordedEpisode) -> dict[str, Any]:
    """The trajectory of an episode. Raises `UnsupportedError` for an episode of several agents."""
    header, end = episode.header, episode.end or {}
    if header.get("agents"):
        raise UnsupportedError(f"episode {episode.id} has several agents", "export it to parquet")
    policy = header.get("policy") or {}
    policy = policy if isinstance(policy, dict) else {"name": policy}
    agent: dict[str, Any] = {"name": str(policy.get("name") or "unknown"), "version": str(policy.get("version") or "0")}
    steps = _Steps()
    for event in episode.history:
        steps.take(event)
    if steps.tools or header.get("tools"):
        agent["tool_definitions"] = steps.tools or header["tools"]
    if steps.model:
        agent["model_name"] = steps.model
    outcome = {"reason": end.get("reason"), "return": end.get("return"), "rewards": end.get("rewards")}
    final: dict[str, Any] = {**steps.usage, "total_steps": len(steps.found)}
    final["extra"] = {"reward": (end.get("return") or {}).get("agent"), "end_reason": end.get("reason")}
    own = {name: header[name] for name in _KEPT if header.get(name) is not None}
    return {
        "schema_version": VERSION,
        "session_id": str(header.get("group") or episode.id),
        "trajectory_id": episode.id,
        "agent": agent,
        "steps": steps.found or [{"step_id": 1, "source": "user", "message": ""}],
        "final_metrics": final,
        "extra": {"envweave": {**own, "end": {**outcome, "error": end.get("error")}}},
    }


class _Steps:
    """The steps of a trajectory, from the lines of an episode."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.tools: list[dict[str, Any]] = []
        self.usage: dict[str, int] = {}
        self.model = ""
        self._reply: dict[str, Any] | None = None

    def take(self, event: dict[str, Any]) -> None:
        kind = event.get("kind")
        if kind == "model":
            self._take_reply(event)
        elif kind == "reset":
            self._add_told(told(event))
        elif kind in ("step", "respond"):
            self._take_step(event)
        seen = event.get("obs")
        if isinstance(seen, dict) and isinstance(seen.get("tools"), list) and seen["tools"]:
            self.tools = seen["tools"]

    def _add(self, **fields: Any) -> dict[str, Any]:
        self.found.append({"step_id": len(self.found) + 1, **fields})
        return self.found[-1]

    def _add_told(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            source = "system" if message.get("role") == "system" else "user"
            self._add(source=source, message=_content(message.get("content")))

    def _take_reply(self, event: dict[str, Any]) -> None:
        self._reply = self._agent_step(message_of(event["message"]), calls=1)
        self.model = event.get("model") or self.model
        usage, tokens = event.get("usage") or {}, event.get("tokens") or {}
        names = {"prompt": "prompt_tokens", "completion": "completion_tokens", "cached": "cached_tokens"}
        metrics: dict[str, Any] = {new: usage[old] for old, new in names.items() if usage.get(old) is not None}
        for old, new in (("prompt_tokens", "total_prompt_tokens"), ("completion_tokens", "total_completion_tokens")):
            self.usage[new] = self.usage.get(new, 0) + metrics.get(old, 0)
        pairs = {"prompt_ids": "prompt_token_ids", "completion_ids": "completion_token_ids", "logprobs": "logprobs"}
        metrics |= {new: tokens[old] for old, new in pairs.items() if tokens.get(old) is not None}
        if metrics:
            self._reply["metrics"] = metrics

    def _agent_step(self, message: dict[str, Any], *, calls: int) -> dict[str, Any]:
        step = self._add(source="agent", message=_content(message.get("content")), llm_call_count=calls)
        if message.get("reasoning_content") and calls:
            step["reasoning_content"] = message["reasoning_content"]
        if message.get("tool_calls"):
            step["tool_calls"] = [_tool_call(call, number) for number, call in enumerate(message["tool_calls"])]
        return step

    def _take_step(self, event: dict[str, Any]) -> None:
        step, self._reply = self._reply, None
        if step is None:
            action = event.get("action")
            if isinstance(action, dict) and "role" in action:
                step = self._agent_step(message_of(action), calls=0)
            else:
                arguments = action if isinstance(action, dict) else {"action": action}
                step = self._add(source="agent", message="", llm_call_count=0)
                call = {"tool_call_id": f"step-{event.get('n')}", "function_name": "step", "arguments": arguments}
                step["tool_calls"] = [call]
        step["extra"] = {"envweave": {name: event[name] for name in _NOTED if event.get(name) is not None}}
        answers = told(event)
        ids = [call["tool_call_id"] for call in step.get("tool_calls", ())]
        results = []
        for message in answers:
            source = message.get("tool_call_id")
            source = source if source in ids else (ids[0] if len(ids) == 1 and len(answers) == 1 else None)
            results.append({"source_call_id": source, "content": _content(message.get("content"))})
            results[-1]["extra"] = {"role": message.get("role")}
        if results:
            step["observation"] = {"results": results}


def _content(content: Any) -> Any:
    """A text, or parts of a message. Parts that ATIF does not have become text."""
    if not isinstance(content, list) or not content:
        return text_of(content or "")
    known = {"text": "text", "image": "source"}
    return [
        part
        if isinstance(part, dict) and known.get(part.get("type", "")) in part
        else {"type": "text", "text": text_of(part)}
        for part in content
    ]


def _tool_call(call: dict[str, Any], number: int) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        arguments = {"text": function["arguments"]}
    arguments = arguments if isinstance(arguments, dict) else {"value": arguments}
    return {
        "tool_call_id": call.get("id") or f"call-{number}",
        "function_name": function["name"],
        "arguments": arguments,
    }


def import_atif(path: str | PathLike[str], run: Recorder) -> int:
    """Add the trajectory in a file, or all those in the `.json` files of a folder. Returns how many these are."""
    place = Path(path)
    files = sorted(place.rglob("*.json")) if place.is_dir() else [place]
    count = 0
    for file in files:
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RecordError(f"{file} cannot be read: {error}") from None
        if isinstance(data, dict) and str(data.get("schema_version", "")).startswith("ATIF"):
            run.add(from_atif(data))
            count += 1
        elif not place.is_dir():
            raise RecordError(f"{file} is not a trajectory of ATIF", "its schema_version begins with ATIF")
    return count


def from_atif(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of an episode, from a trajectory of any version 1."""
    own = (data.get("extra") or {}).get("envweave") or {}
    agent = data.get("agent") or {}
    policy = {"name": agent.get("name"), "version": agent.get("version")}
    header = {"env": "atif", **{name: own[name] for name in _KEPT if name in own}, "policy": policy}
    if data.get("trajectory_id"):
        header["episode"] = data["trajectory_id"]
    if data.get("session_id") and "group" not in header:
        header["group"] = data["session_id"]
    messages = [message for step in data.get("steps", ()) for message in _messages(step)]
    end = {name: value for name, value in (own.get("end") or {}).items() if value is not None}
    events = episode_of(messages, agent.get("tool_definitions"), header, end)
    replies = [step for step in data.get("steps", ()) if step.get("source") == "agent"]
    models = [event for event in events if event["kind"] == "model"]
    steps = [event for event in events if event["kind"] == "step"]
    for source, model, step in zip(replies, models, steps, strict=True):
        noted = ((source.get("extra") or {}).get("envweave")) or {}
        step.update({name: value for name, value in noted.items() if name in _NOTED})
        _restore_metrics(source, model, agent)
    scripted = {id(m) for source, m in zip(replies, models, strict=True) if source.get("llm_call_count") == 0}
    return [event for event in events if id(event) not in scripted]


def _messages(step: dict[str, Any]) -> list[dict[str, Any]]:
    content = step.get("message")
    if step.get("source") != "agent":
        return [{"role": "system" if step.get("source") == "system" else "user", "content": content}]
    message: dict[str, Any] = {"role": "assistant", "content": content or (None if step.get("tool_calls") else "")}
    if step.get("reasoning_content"):
        message["reasoning_content"] = step["reasoning_content"]
    calls = step.get("tool_calls") or ()
    if calls:
        message["tool_calls"] = [
            {"id": call["tool_call_id"], "name": call["function_name"], "arguments": call.get("arguments")}
            for call in calls
        ]
    found = [message]
    for result in (step.get("observation") or {}).get("results", ()):
        source = result.get("source_call_id")
        role = (result.get("extra") or {}).get("role") or ("tool" if source else "user")
        told_by = {"role": role, "content": result.get("content")}
        found.append({**told_by, "tool_call_id": source} if role == "tool" else told_by)
    return found


def _restore_metrics(source: dict[str, Any], model: dict[str, Any], agent: dict[str, Any]) -> None:
    metrics = source.get("metrics") or {}
    model["model"] = source.get("model_name") or agent.get("model_name") or ""
    names = {"prompt": "prompt_tokens", "completion": "completion_tokens", "cached": "cached_tokens"}
    model["usage"] = {old: metrics[new] for old, new in names.items() if metrics.get(new) is not None}
    pairs = {"prompt_ids": "prompt_token_ids", "completion_ids": "completion_token_ids", "logprobs": "logprobs"}
    tokens = {old: metrics[new] for old, new in pairs.items() if metrics.get(new) is not None}
    if tokens:
        model["tokens"] = tokens
