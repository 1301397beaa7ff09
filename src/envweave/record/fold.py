"""Episodes of writers that are gone become episodes like all others, with the end `unfinished` if they had none."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from envweave.errors import RecordError
from envweave.record.encoding import decode, encode
from envweave.record.segments import SegmentWriter
from envweave.record.totals import Totals
from envweave.record.writers import dead_writers


def fold_unfinished(folder: Path) -> int:
    """Move what killed processes left in `live/` to their segments. Returns how many episodes these are.

    Episodes of writers that live are not touched. A folder that cannot be written is left as it is.
    """
    live = folder / "live"
    count = 0
    try:
        with dead_writers(live) as writers:
            for writer in writers:
                count += _fold(folder, writer, sorted(live.glob(f"{writer}.*.jsonl")))
    except OSError:
        return count
    return count


def _fold(folder: Path, writer: str, paths: list[Path]) -> int:
    segment = SegmentWriter(folder, writer)
    count = 0
    try:
        last = segment.resume()
        for path in paths:
            lines = _completed(path)
            if lines and b"".join(lines) != last:  # else it was moved, and only not removed here
                segment.append(b"".join(lines), decode(lines[0]), decode(lines[-1]))
                count += 1
            path.unlink()
    finally:
        segment.close()
    return count


def _completed(path: Path) -> list[bytes]:
    """The lines of an episode with an end, which is written if it is missing; none if there is no first line."""
    lines, events = whole_lines(path.read_bytes())
    if not events or events[0].get("kind") != "episode":
        return []
    if events[-1].get("kind") != "end":
        totals = Totals()
        for event in events:
            totals.add(event)
        end = {"kind": "end", "n": totals.steps, "t": totals.seconds, "reason": "unfinished", "return": totals.returns}
        body = b"".join(lines)
        lines.append(encode({**end, "sha256": hashlib.sha256(body).hexdigest()}) + b"\n")
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            os.ftruncate(fd, len(body))
            os.write(fd, lines[-1])
        finally:
            os.close(fd)
    return lines


def whole_lines(data: bytes) -> tuple[list[bytes], list[dict[str, Any]]]:
    """The lines up to the first that is torn, as they are and as data."""
    lines, events = [], []
    for line in data.splitlines(keepends=True):
        try:
            event = decode(line) if line.endswith(b"\n") else None
        except RecordError:
            event = None
        if not isinstance(event, dict):
            break
        lines.append(line)
        events.append(event)
    return lines, events
