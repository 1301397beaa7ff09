"""Episodes of a rollout in a record: how they are written, and how a rollout that is resumed reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from envweave.lm.messages import FunctionCall, Message
from envweave.lm.reply import Reply, Usage
from envweave.record import Record, Recorder
from envweave.record.log import EpisodeLog
from envweave.record.reader import RecordedEpisode
from envweave.requests import DEFAULT_AGENT
from envweave.rollouts.episodes import FAILED, Episode, Turn, reward_parts


class EpisodeRecords:
    """Writes the episodes of one rollout. `header` has the fields that all of them share."""

    def __init__(self, recorder: Recorder, header: Mapping[str, Any], *, owned: bool) -> None:
        self._recorder = recorder
        self._header = dict(header)
        self._owned = owned

    def begin(self, episode: Episode, reset: Mapping[str, Any]) -> EpisodeLog:
        """The log of an attempt."""
        given = reset.get("task")
        task = {"id": episode.task_id, "given": dict(given) if isinstance(given, Mapping) else None}
        own = {name: value for name, value in reset.items() if name not in ("seed", "task")}
        return self._recorder.episode(
            **self._header,
            seed=episode.seed,
            **({"task": {k: v for k, v in task.items() if v is not None}} if episode.task_id is not None else {}),
            **({"reset": own} if own else {}),
            group=episode.group,
            sample=episode.number,
            attempt=episode.attempts,
        )

    @staticmethod
    def end(log: EpisodeLog, episode: Episode) -> None:
        """Write how an attempt ended."""
        returns = {_name(agent): value for agent, value in episode.returns.items() if value is not None}
        failure = episode.error
        log.end(
            episode.end or "cancelled",
            returns=returns,
            rewards=episode.rewards or None,
            error=None
            if failure is None
            else {"code": failure.code, "message": failure.message, "stage": failure.stage},
            usage={name: getattr(episode.usage, name) for name in Usage.__slots__},
            wall={"env": episode.env_seconds, "policy": episode.model_seconds},
        )

    def close(self) -> None:
        if self._owned:
            self._recorder.close()


def has_record(path: str | PathLike[str]) -> bool:
    """Whether there is a run to resume."""
    return (Path(path) / "run.json").exists()


def recorded_episodes(path: Any) -> dict[tuple[int, int], Episode]:
    """The episodes of a run that need not be played again, by group and number."""
    found: dict[tuple[int, int], Episode] = {}
    for recorded in Record(path):
        header, end = recorded.header, recorded.end
        group, sample = header.get("group"), header.get("sample")
        if end is None or not isinstance(group, int) or not isinstance(sample, int):
            continue
        if end.get("reason") not in (*FAILED, "unfinished"):
            found[group, sample] = read_episode(recorded)
    return found


def read_episode(recorded: RecordedEpisode) -> Episode:
    """An episode as its record has it."""
    header, end = recorded.header, recorded.end or {}
    episode = Episode(
        header.get("group", 0),
        header.get("sample", 0),
        task_id=(header.get("task") or {}).get("id"),
        seed=header.get("seed"),
        end=end.get("reason", "unfinished"),
        attempts=header.get("attempt", 1),
        is_recorded=True,
        unfinished_reward=None,
    )
    news: dict[str | None, list[dict[str, Any]]] = {}
    replies: dict[str | None, tuple[Reply, float]] = {}
    for event in recorded.events:
        match event.get("kind"):
            case "model":
                replies[event.get("agent")] = _reply(event), event.get("ms", 0.0) / 1000
            case "step":
                _add_turns(episode, event, news, replies)
                replies = {}
        if event.get("kind") in ("reset", "step"):
            for agent, messages in _messages(event.get("obs")).items():
                news[agent] = news.get(agent, []) + messages
    episode.last_messages = news
    for name, value in (end.get("return") or {}).items():
        episode.totals[_agent(name, episode)] = value
    return episode


def _add_turns(episode: Episode, event: dict[str, Any], news: dict[Any, Any], replies: dict[Any, Any]) -> None:
    reward = event.get("reward")
    acting = list(replies) or (list(event["action"]) if isinstance(reward, dict) else [None])
    for agent in acting:
        reply, seconds = replies.get(agent, (None, 0.0))
        turn = Turn(agent, episode.steps, news.pop(agent, []), reply, model_seconds=seconds)
        if reply is None:
            turn.action = event.get("action") if agent is None else event["action"].get(agent)
        turn.reward = reward.get(agent) if isinstance(reward, dict) else reward
        seen = event.get("obs")
        turn.rewards = reward_parts(seen if agent is None or not isinstance(seen, dict) else seen.get(agent))
        turn.info = dict(event.get("info") or {})
        turn.env_seconds = event.get("ms", 0.0) / 1000 / len(acting)
        episode.turns.append(turn)
    episode.steps += 1


def _messages(observation: Any) -> dict[str | None, list[dict[str, Any]]]:
    if not isinstance(observation, Mapping):
        return {}
    if isinstance(observation.get("messages"), list):
        return {None: observation["messages"]}
    by_agent = {agent: one.get("messages") for agent, one in observation.items() if isinstance(one, Mapping)}
    return {agent: messages for agent, messages in by_agent.items() if isinstance(messages, list)}


def _reply(event: Mapping[str, Any]) -> Reply:
    said = event.get("message") or {}
    calls = [
        FunctionCall(call.get("id", ""), call["function"]["name"], _text(call["function"].get("arguments")))
        for call in said.get("tool_calls") or ()
    ]
    message = Message("assistant", said.get("content"), tuple(calls), reasoning=said.get("reasoning_content"))
    tokens, usage = event.get("tokens") or {}, event.get("usage") or {}
    counts = {name: usage.get(name.removesuffix("_tokens"), usage.get(name, 0)) for name in Usage.__slots__}
    return Reply(
        message,
        event.get("finish"),
        Usage(**{**counts, "calls": counts["calls"] or 1}),
        _tuple(tokens.get("prompt_ids")),
        _tuple(tokens.get("completion_ids")),
        _tuple(tokens.get("logprobs")),
        model=event.get("model") or "",
        policy_version=event.get("policy_version"),
    )


def _text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _tuple(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else None


def _name(agent: str | None) -> str:
    return DEFAULT_AGENT if agent is None else agent


def _agent(name: str, episode: Episode) -> str | None:
    return None if name == DEFAULT_AGENT and all(turn.agent_id is None for turn in episode.turns) else name
