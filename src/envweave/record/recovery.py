"""Episodes of writers that are gone become episodes like all others, with the end `unfinished` if they had none."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from envweave.errors import RecordError
from envweave.record.encoding import decode, encode
from envweave.record.segments import SegmentWriter
from envweave.record.totals import Totals
from envweave.record.writers import dead_writers


def recover_unfinished(folder: Path) -> int:
    """Move what killed processes left in `live/` to their segments. Returns how many episodes these are.

    Episodes of writers that live are not touched. A folder that cannot be written is left as it is.
    """
    live = folder / "live"
    count = 0
    try:
        with dead_writers(live) as writers:
            for writer in writers:
                count += _recover(folder, writer, sorted(live.glob(f"{writer}.*.jsonl")))
    except OSError:
        return count
    return count


def _recover(folder: Path, writer: str, paths: list[Path]) -> int:
    segment = SegmentWriter(folder, writer)
    count = 0
    try:
        last = segment.resume()
        for path in paths:
            fd = os.open(path, os.O_RDWR | os.O_APPEND)
            try:
                found = _completed(path, fd)
                if found is not None and encode(found.end) + b"\n" != last:  # else it was moved, and not removed
                    segment.append(fd, found.size, found.header, found.end)
                    count += 1
            finally:
                os.close(fd)
            path.unlink()
    finally:
        segment.close()
    return count


class _Unfinished(NamedTuple):
    """An episode that is complete now."""

    header: dict[str, Any]
    end: dict[str, Any]
    size: int


def _completed(path: Path, fd: int) -> _Unfinished | None:
    """Cut what is torn, and write the end if it is missing. None if there is no first line."""
    totals, before, size = Totals(), hashlib.sha256(), 0
    header: dict[str, Any] = {}
    event: dict[str, Any] = {}
    with path.open("rb") as file:
        for line in file:
            parsed = event_of(line)
            if parsed is None:
                break
            event = parsed
            size += len(line)
            header = header or event
            if event.get("kind") == "end":
                break
            totals.add(event)
            before.update(line)
    if header.get("kind") != "episode":
        return None
    os.ftruncate(fd, size)
    if event.get("kind") == "end":
        return _Unfinished(header, event, size)
    end = {"kind": "end", "n": totals.steps, "t": totals.seconds, "reason": "unfinished", "return": totals.returns}
    end["sha256"] = before.hexdigest()
    return _Unfinished(header, end, size + os.write(fd, encode(end) + b"\n"))


def event_of(line: bytes) -> dict[str, Any] | None:
    """A line as data; None if it is torn or damaged."""
    try:
        event = decode(line) if line.endswith(b"\n") else None
    except RecordError:
        return None
    return event if isinstance(event, dict) else None


def whole_events(lines: Iterable[bytes]) -> list[dict[str, Any]]:
    """The lines as data, up to the first that is torn or damaged."""
    found = []
    for line in lines:
        event = event_of(line)
        if event is None:
            break
        found.append(event)
    return found
