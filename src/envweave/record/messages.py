"""OpenAI messages in JSON lines, for supervised fine-tuning: `{"messages": […], "tools": […]}` for each episode."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from envweave.errors import RecordError, UnsupportedError
from envweave.record.conversation import conversation, message_of
from envweave.record.reader import RecordedEpisode
from envweave.record.recorder import Recorder
from envweave.requests import DEFAULT_AGENT


def export_messages(
    episodes: Iterable[RecordedEpisode],
    path: str | PathLike[str],
    *,
    min_reward: float | None = None,
    best_of_group: bool = False,
    weight: bool = False,
) -> int:
    """Write the episodes that were scored, one line each. Returns how many these are.

    `best_of_group` keeps the best of each group. With `weight` the messages of the assistant have `"weight": 1` and
    those after a reply that was cut off at its length 0.
    """
    rows = list(_rows(episodes, min_reward, weight))
    if best_of_group:
        best: dict[Any, tuple[float, Any, dict[str, Any]]] = {}
        for reward, group, row in rows:
            key = json.dumps(group) if group is not None else id(row)
            if key not in best or reward > best[key][0]:
                best[key] = reward, group, row
        rows = list(best.values())
    with Path(path).open("w", encoding="utf-8") as file:
        for _, _, row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return len(rows)


def _rows(
    episodes: Iterable[RecordedEpisode], min_reward: float | None, weight: bool
) -> Iterator[tuple[float, Any, dict[str, Any]]]:
    for episode in episodes:
        reward = episode.returns.get(DEFAULT_AGENT)
        if reward is None or (min_reward is not None and reward < min_reward):
            continue
        try:
            messages, tools = conversation(episode)
        except UnsupportedError:
            continue
        if weight:
            finished = [event.get("finish") for event in episode.history if event.get("kind") == "model"]
            _weigh(messages, finished)
        yield reward, episode.header.get("group"), {"messages": messages, **({"tools": tools} if tools else {})}


def _weigh(messages: list[dict[str, Any]], finished: list[Any]) -> None:
    replies = [message for message in messages if message["role"] == "assistant"]
    for number, message in enumerate(replies):
        message["weight"] = int(number >= len(finished) or finished[number] != "length")


def import_messages(path: str | PathLike[str], run: Recorder) -> int:
    """Add one episode for each line. Returns how many these are. Raises `RecordError` for a line of another form."""
    count = 0
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
                run.add(episode_of(row["messages"], row.get("tools"), {"env": "messages"}))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise RecordError(f"line {number} of {path} is not a conversation: {error!r:.80}") from None
            count += 1
    return count


def episode_of(
    messages: Iterable[Mapping[str, Any]], tools: Any, header: Mapping[str, Any], end: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The lines of an episode that is a conversation: each reply is a step, and what follows it is the observation."""
    events: list[dict[str, Any]] = [{"kind": "episode", **header, **({"tools": tools} if tools else {})}]
    last: dict[str, Any] = {"kind": "reset", "n": 0, "t": 0.0, "obs": {"messages": []}}
    events.append(last)
    n = 0
    for message in messages:
        if message["role"] == "assistant":
            n += 1
            events.append({"kind": "model", "n": n, "t": 0.0, "message": message_of(dict(message))})
            obs: dict[str, Any] = {"messages": []}
            last = {"kind": "step", "n": n, "t": 0.0, "action": None, "obs": obs, "reward": None}
            events.append(last | {"terminated": False, "truncated": False})
            last = events[-1]
        else:
            last["obs"]["messages"].append(dict(message))
    return [*events, {"kind": "end", "n": n, "t": 0.0, "reason": "closed", "return": {}, **(end or {})}]
