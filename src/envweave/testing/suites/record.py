"""Scripts that are played twice: each call and its answer become a line of JSON, and the lines are compared."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from envweave.core.jsonable import to_json
from envweave.errors import EnvWeaveError

EPISODE_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""IDs differ from run to run; a record has numbers in their place."""


class Recorder:
    """Drives a handle and writes down all that is said, errors included."""

    def __init__(self, env: Any, lines: list[str] | None = None, episodes: dict[str, str] | None = None) -> None:
        self.env = env
        self.lines: list[str] = [] if lines is None else lines
        self.episodes: dict[str, str] = {} if episodes is None else episodes

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            try:
                answer = getattr(self.env, name)(*arguments, **options)
            except EnvWeaveError as error:
                self.write(name, error=error_data(error))
                return error
            self.write(name, answer=None if name in ("snapshot", "fork") else answer)
            return Recorder(answer, self.lines, self.episodes) if name == "fork" else answer

        return call

    def write(self, name: str, **said: Any) -> None:
        line = {"id": self.env.id, "call": name, **said, "pending": self.env.pending}
        self.lines.append(numbered(json.dumps(to_json(line), ensure_ascii=False), self.episodes))


class VectorRecorder:
    """Drives a vector and writes down all that is said, errors included."""

    def __init__(self, vector: Any) -> None:
        self.vector = vector
        self.lines = [json.dumps({"ids": vector.ids})]
        self.episodes: dict[str, str] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            answer: Any
            said: dict[str, Any]
            try:
                answer = getattr(self.vector, name)(*arguments, **options)
            except EnvWeaveError as error:
                said = {"error": error_data(error)}
                answer = error
            else:
                said = {"answer": _sorted_rows(answer) if name == "recv" else answer}
            self.lines.append(numbered(json.dumps(to_json({"call": name, **said}), ensure_ascii=False), self.episodes))
            return answer

        return call


def played(make: Callable[[], Any], script: Callable[[Recorder], Any]) -> list[str]:
    """The record of a script, with that of the close."""
    with make() as env:
        recorder = Recorder(env)
        script(recorder)
        recorder.close()
    return recorder.lines


def vector_played(vector: Any, script: Callable[[VectorRecorder], Any]) -> list[str]:
    """The record of a script on a vector, which is closed."""
    with vector:
        recorder = VectorRecorder(vector)
        script(recorder)
    return recorder.lines


def compared(found: list[str], expected: list[str]) -> list[dict[str, Any]]:
    """The lines as data, if both records are the same."""
    for theirs, ours in zip(found, expected, strict=False):
        assert theirs == ours
    assert len(found) == len(expected)
    return [json.loads(line) for line in expected]


def numbered(text: str, episodes: dict[str, str]) -> str:
    """The text with a number in place of each episode ID, in the order in which they came."""
    return EPISODE_ID.sub(lambda found: episodes.setdefault(found[0], f"episode {len(episodes)}"), text)


def error_data(error: EnvWeaveError) -> dict[str, Any]:
    said = {"class": type(error).__name__, "code": error.code, "message": error.message, "hint": error.hint}
    return {**said, "retryable": error.retryable, "requests": error.requests}


def kinds(line: dict[str, Any]) -> list[str]:
    """The kinds of the requests of an answer."""
    return [request["kind"] for request in answer(line)["requests"]]


def ends(line: dict[str, Any]) -> list[str]:
    """The reasons of the episodes that ended with an answer."""
    return [request["reason"] for request in answer(line)["requests"] if request["kind"] == "episode_end"]


def answer(line: dict[str, Any]) -> Any:
    """What a call returned, or the error that it raised."""
    found = line.get("answer", line.get("error"))
    return {"requests": found} if isinstance(found, list) else found


def _sorted_rows(batch: Any) -> list[Any]:
    """Answers come in any order; a row is the same whenever it comes."""
    rows = zip(batch.ids, batch.incarnations, batch.steps, batch.results, strict=True)
    return sorted(rows, key=lambda row: row[0])
