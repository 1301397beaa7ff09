"""`Record`: the episodes of a run, for reading. A run may be read while others write to it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, overload

from envweave.errors import RecordError
from envweave.record.blobs import Blobs
from envweave.record.index import IndexRow, key_of
from envweave.record.recovery import recover_unfinished, whole_events
from envweave.record.segments import Segment, segments


class RecordedEpisode:
    """One episode of a run: its lines, read when they are needed."""

    def __init__(self, lines: bytes, blobs: Blobs, record: Record | None = None) -> None:
        """`record` has the episodes that this one was forked from."""
        self.lines = lines
        """As they are in the file."""
        self._record = record
        self._blobs = blobs

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """All lines in order, as data, with large values in their places. Unknown kinds and fields are kept."""
        events = whole_events(self.lines.splitlines(keepends=True))
        if not events or events[0].get("kind") != "episode":
            raise RecordError("an episode of the record is damaged: it has no first line", "was the file changed?")
        if b'"$blob"' in self.lines:
            events = [self._blobs.resolved(event) for event in events]
        return events

    @property
    def header(self) -> dict[str, Any]:
        """The `episode` line."""
        return self.events[0]

    @property
    def id(self) -> str:
        return str(self.header.get("episode"))

    @property
    def end(self) -> dict[str, Any] | None:
        """The `end` line; None while the episode runs."""
        last = self.events[-1]
        return last if last.get("kind") == "end" else None

    @property
    def parent(self) -> tuple[RecordedEpisode, int] | None:
        """The episode that this one was forked from, and the number of its last step before. Raises `RecordError`."""
        parent = self.header.get("parent")
        if not parent:
            return None
        if self._record is None or parent["episode"] not in self._record:
            raise RecordError(f"episode {self.id} is a fork of {parent['episode']}, which is not in the record")
        return self._record[parent["episode"]], parent["n"]

    @property
    def history(self) -> list[dict[str, Any]]:
        """The events of a fork after those of the episodes that it was forked from; of others, the events."""
        if self.parent is None:
            return self.events
        ancestor, last = self.parent
        before = [event for event in ancestor.history[1:] if event.get("kind") != "end" and event.get("n", 0) <= last]
        return [self.header, *before, *self.events[1:]]

    @property
    def is_intact(self) -> bool:
        """Whether the lines are those that were written: the `end` has the SHA-256 of the lines before it."""
        before, _, _ = self.lines.removesuffix(b"\n").rpartition(b"\n")
        return self.end is not None and self.end.get("sha256") == hashlib.sha256(before + b"\n").hexdigest()

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The lines of kind `step` and `respond`."""
        return [event for event in self.events if event.get("kind") in ("step", "respond")]

    @property
    def returns(self) -> dict[str, float]:
        """The return of each agent that was scored."""
        found = self.end.get("return") if self.end else None
        return dict(found) if isinstance(found, Mapping) else {}

    def __repr__(self) -> str:
        end = self.end or {"reason": "running"}
        return f"<RecordedEpisode {self.id} {self.header.get('env')} {end['reason']}>"


class Record(Sequence[RecordedEpisode]):
    """The finished episodes of a run, in the order of their writers and then of their ends.

        for episode in Record("runs/x"): ...
        Record("runs/x")[3], Record("runs/x")["018f…"]

    Episodes of killed processes are recovered first, where the folder can be written. `refresh` looks for episodes that
    were added since.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        """Raises `RecordError` if there is no run in the folder."""
        self.path = Path(path)
        if not self.path.is_dir() or not ((self.path / "run.json").exists() or segments(self.path)):
            raise RecordError(f"there is no record in {str(self.path)!r}", "a record is a folder with a run.json")
        self._blobs = Blobs(self.path / "blobs")
        recover_unfinished(self.path)
        self.refresh()

    def refresh(self) -> None:
        """See what was written since."""
        self._rows: list[tuple[Segment, IndexRow]] = []
        self._texts: dict[Segment, list[str]] = {}
        self._keys: dict[int, list[int]] = {}
        for segment in segments(self.path):
            rows, self._texts[segment] = segment.rows()
            for row in rows:
                self._keys.setdefault(row.key, []).append(len(self._rows))
                self._rows.append((segment, row))

    @property
    def description(self) -> dict[str, Any]:
        """What `run.json` says: versions, environments, writers."""
        try:
            found = json.loads((self.path / "run.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def rows(self) -> list[IndexRow]:
        """The index: one row for each episode."""
        return [row for _, row in self._rows]

    def names(self, index: int) -> dict[str, str]:
        """The texts of an index row: `env`, and `task`, `group`, `policy` and `parent` where the episode has them."""
        segment, row = self._rows[index]
        texts = self._texts[segment]
        return {name: texts[number] for name, number in row.strings.items() if number < len(texts)}

    def running(self) -> list[RecordedEpisode]:
        """Episodes that are not finished yet, as far as they are written."""
        found = []
        for path in sorted((self.path / "live").glob("*.jsonl")):
            try:
                data = path.read_bytes()
            except FileNotFoundError:  # it ended meanwhile
                continue
            if b"\n" in data:
                found.append(RecordedEpisode(data, self._blobs, self))
        return found

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int | str) -> RecordedEpisode: ...

    @overload
    def __getitem__(self, index: slice) -> list[RecordedEpisode]: ...

    def __getitem__(self, index: int | str | slice) -> RecordedEpisode | list[RecordedEpisode]:
        """By number, by episode ID or the beginning of one. Raises `RecordError` for an ID that is not there."""
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        if isinstance(index, str):
            return self._find(index)
        segment, row = self._rows[index]
        return RecordedEpisode(segment.read(row.offset, row.length), self._blobs, self)

    def __iter__(self) -> Iterator[RecordedEpisode]:
        return (self[number] for number in range(len(self)))

    def __contains__(self, item: object) -> bool:
        return isinstance(item, str) and any(self._id(number) == item for number in self._keys.get(key_of(item), ()))

    def _id(self, number: int) -> str:
        """Empty if the episode is damaged."""
        try:
            return self[number].id
        except RecordError:
            return ""

    def _find(self, id: str) -> RecordedEpisode:
        for number in reversed(self._keys.get(key_of(id), [])):
            if self._id(number) == id:
                return self[number]
        begin = [number for number in range(len(self)) if self._id(number).startswith(id)] if id else []
        if len(begin) == 1:
            return self[begin[0]]
        problem = f"{len(begin)} episodes begin with" if begin else "no episode has the ID"
        raise RecordError(f"{problem} {id!r} in {str(self.path)!r}", "give the whole ID, or a number")
