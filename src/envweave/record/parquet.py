"""Parquet: `episodes.parquet` with a row for each episode and `steps.parquet` with a row for each step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from envweave.core.lookup import load
from envweave.record.index import seconds_since_1970
from envweave.record.reader import RecordedEpisode

BATCH = 4096
"""Rows that are written together."""


def export_parquet(episodes: Iterable[RecordedEpisode], folder: str | PathLike[str]) -> int:
    """Write both files to a folder. Returns the number of episodes. Raises `UnavailableError` without pyarrow."""
    load("envweave.record.parquet:_schemas", extra="tasks")()
    import pyarrow.parquet as pq

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    about_episodes, about_steps = _schemas()
    count = 0
    with (
        pq.ParquetWriter(target / "episodes.parquet", about_episodes, compression="snappy") as first,
        pq.ParquetWriter(target / "steps.parquet", about_steps, compression="snappy") as second,
    ):
        rows: list[dict[str, Any]] = []
        steps: list[dict[str, Any]] = []
        for episode in episodes:
            rows.append(_episode_row(episode))
            steps += _step_rows(episode)
            count += 1
            if len(steps) >= BATCH or len(rows) >= BATCH:
                _flush(first, rows, about_episodes)
                _flush(second, steps, about_steps)
        _flush(first, rows, about_episodes)
        _flush(second, steps, about_steps)
    return count


def _schemas() -> tuple[Any, Any]:
    import pyarrow as pa

    text, number, parts = pa.string(), pa.float64(), pa.map_(pa.string(), pa.float64())
    episodes = {
        "episode": text, "env": text, "seed": pa.int64(), "task": text, "group": text, "sample": pa.int64(),
        "attempt": pa.int64(), "policy": text, "parent": text, "started": number, "wall": number, "steps": pa.int64(),
        "reason": text, "return": number, "returns": parts, "rewards": parts, "error": text, "header": text,
    }  # fmt: skip
    steps = {
        "episode": text, "n": pa.int64(), "kind": text, "agent": text, "t": number, "ms": number, "reward": number,
        "reward_by_agent": parts, "terminated": pa.bool_(), "truncated": pa.bool_(), "rewards": parts, "action": text,
        "obs": text, "prompt_ids": pa.list_(pa.int64()), "completion_ids": pa.list_(pa.int64()),
        "logprobs": pa.list_(number),
    }  # fmt: skip
    return pa.schema(episodes.items()), pa.schema(steps.items())


def _flush(writer: Any, rows: list[dict[str, Any]], schema: Any) -> None:
    import pyarrow as pa

    if rows:
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))
        rows.clear()


def _episode_row(episode: RecordedEpisode) -> dict[str, Any]:
    header, end = episode.header, episode.end or {}
    task, policy, parent, error = (header.get(name) for name in ("task", "policy", "parent", "error"))
    error = end.get("error")
    returns = episode.returns
    return {
        "episode": episode.id,
        "env": header.get("env"),
        "seed": header.get("seed"),
        "task": _text(task.get("id") if isinstance(task, dict) else task),
        "group": _text(header.get("group")),
        "sample": header.get("sample"),
        "attempt": header.get("attempt"),
        "policy": _text(policy.get("name") if isinstance(policy, dict) else policy),
        "parent": parent.get("episode") if isinstance(parent, dict) else None,
        "started": seconds_since_1970(header.get("started")),
        "wall": end.get("t"),
        "steps": end.get("n"),
        "reason": end.get("reason"),
        "return": sum(returns.values()) / len(returns) if returns else None,
        "returns": list(returns.items()),
        "rewards": list((end.get("rewards") or {}).items()),
        "error": _text(error),
        "header": json.dumps(header, ensure_ascii=False),
    }


def _step_rows(episode: RecordedEpisode) -> Iterator[dict[str, Any]]:
    tokens: dict[str, Any] = {}
    for event in episode.events:
        if event.get("kind") == "model":
            tokens = event.get("tokens") or {}
        if event.get("kind") not in ("reset", "step", "respond"):
            continue
        reward, done = event.get("reward"), {}
        for flag in ("terminated", "truncated"):
            value = event.get(flag)
            done[flag] = bool(value.get("__all__")) if isinstance(value, dict) else value
        yield {
            **{name: event.get(name) for name in ("n", "kind", "agent", "t", "ms")},
            "episode": episode.id,
            "reward": None if isinstance(reward, dict) else reward,
            "reward_by_agent": list(reward.items()) if isinstance(reward, dict) else None,
            **done,
            "rewards": list((event.get("rewards") or {}).items()),
            "action": json.dumps(event.get("action"), ensure_ascii=False),
            "obs": json.dumps(event.get("obs"), ensure_ascii=False),
            **{name: tokens.get(name) for name in ("prompt_ids", "completion_ids", "logprobs")},
        }
        tokens = {}


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
