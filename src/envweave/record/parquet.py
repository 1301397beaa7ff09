"""Parquet: `episodes.parquet` has a row for each episode, `steps.parquet` one for each reset, reply and step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from envweave.core.lookup import load
from envweave.errors import RecordError
from envweave.record.index import seconds_since_1970
from envweave.record.reader import RecordedEpisode
from envweave.record.recorder import Recorder

BATCH = 4096
"""Rows that are written together."""

KINDS = ("reset", "model", "step", "respond")
"""Lines that are rows of `steps.parquet`."""

_JSON = ("action", "obs", "info", "message")
_TOKENS = ("prompt_ids", "completion_ids", "logprobs")


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
        "obs": text, "info": text, "message": text, "model": text,
        "prompt_ids": pa.list_(pa.int64()), "completion_ids": pa.list_(pa.int64()),
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
    task, policy, parent = (header.get(name) for name in ("task", "policy", "parent"))
    returns = episode.returns
    return {
        "episode": episode.id,
        "env": header.get("env"),
        "seed": _int64(header.get("seed")),
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
        "error": None if end.get("error") is None else json.dumps(end["error"], ensure_ascii=False),
        "header": json.dumps(header, ensure_ascii=False),
    }


def _step_rows(episode: RecordedEpisode) -> Iterator[dict[str, Any]]:
    for event in episode.events:
        if event.get("kind") not in KINDS:
            continue
        reward, done = event.get("reward"), {}
        for flag in ("terminated", "truncated"):
            value = event.get(flag)
            done[flag] = bool(value.get("__all__")) if isinstance(value, dict) else value
        tokens = event.get("tokens") or {}
        yield {
            **{name: event.get(name) for name in ("n", "kind", "agent", "t", "ms", "model")},
            "episode": episode.id,
            "reward": None if isinstance(reward, dict) else reward,
            "reward_by_agent": list(reward.items()) if isinstance(reward, dict) else None,
            **done,
            "rewards": list((event.get("rewards") or {}).items()),
            **{name: json.dumps(event[name], ensure_ascii=False) if name in event else None for name in _JSON},
            **{name: tokens.get(name) for name in _TOKENS},
        }


def import_parquet(folder: str | PathLike[str], run: Recorder) -> int:
    """Add the episodes of both files. Returns how many these are. Raises `RecordError` for other files.

    What the tables do not have, such as requests, is not in these episodes.
    """
    load("envweave.record.parquet:_schemas", extra="tasks")()
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        episodes = pq.read_table(Path(folder) / "episodes.parquet").to_pylist()
        lines: dict[str, list[dict[str, Any]]] = {row["episode"]: [] for row in episodes}
        for batch in pq.ParquetFile(Path(folder) / "steps.parquet").iter_batches(BATCH):
            for row in batch.to_pylist():
                lines[row["episode"]].append(_line(row))
        for row in episodes:
            run.add([json.loads(row["header"]), *lines[row["episode"]], _end(row)])
    except (OSError, pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{folder} is not an exported record: {error!r:.100}") from None
    return len(episodes)


def _line(row: dict[str, Any]) -> dict[str, Any]:
    line = {name: row[name] for name in ("kind", "n", "t", "ms", "agent", "model") if row[name] is not None}
    line |= {name: json.loads(row[name]) for name in _JSON if row[name] is not None}
    if row["kind"] in ("step", "respond"):
        by_agent = row["reward_by_agent"]
        line["reward"] = row["reward"] if by_agent is None else dict(by_agent)
        line |= {"terminated": row["terminated"], "truncated": row["truncated"]}
    if row["rewards"]:
        line["rewards"] = dict(row["rewards"])
    tokens = {name: row[name] for name in _TOKENS if row[name] is not None}
    return {**line, "tokens": tokens} if tokens else line


def _end(row: dict[str, Any]) -> dict[str, Any]:
    end = {"kind": "end", "n": row["steps"], "t": row["wall"], "reason": row["reason"], "return": dict(row["returns"])}
    if row["rewards"]:
        end["rewards"] = dict(row["rewards"])
    if row["error"] is not None:
        end["error"] = json.loads(row["error"])
    return end


def _int64(value: Any) -> int | None:
    """Larger numbers are in `header` only."""
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
