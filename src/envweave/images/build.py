"""Have the Docker daemon build an image."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from envweave.errors import ProviderError
from envweave.providers.base import LAST_LINES
from envweave.providers.daemon import FAILURES, ImageNotFound, connected, reason

T = TypeVar("T")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_DAEMON = ("--->", "Removing intermediate container")
"""How lines begin that are the daemon's own; the others are from what a step runs."""


@dataclass(frozen=True)
class Step:
    """How far a build is: an instruction of its Dockerfile, and the last line that it has written.

    What is done before and after has no number.
    """

    image: str
    number: int
    count: int
    instruction: str
    line: str = ""


Report = Callable[[Step], None]
"""Told of each step and of each line."""


def build(
    folder: Path, dockerfile: str, tag: str, arguments: Mapping[str, str], *, network: str | None, report: Report
) -> str:
    """Build, tag, and return the image's ID. Raises `ProviderError` with the failing step and its last lines."""
    with connected() as client:
        try:
            lines = client.api.build(
                path=str(folder),
                dockerfile=dockerfile,
                tag=tag,
                buildargs=dict(arguments),
                network_mode=network,
                rm=True,
                forcerm=True,
                decode=True,
                timeout=None,
            )
            return _follow(lines, tag, report)
        except FAILURES as error:
            raise ProviderError(f"the image {tag} cannot be built: {reason(error)}") from error


def _follow(lines: Iterator[dict[str, Any]], tag: str, report: Report) -> str:
    step = Step(tag, 0, 0, "send what is needed")
    tail: deque[str] = deque(maxlen=LAST_LINES)
    built = ""
    for line in lines:
        if "error" in line:
            raise _failure(step, tail, str(line["error"]))
        built = (line.get("aux") or {}).get("ID", built)
        for text in _COLOUR.sub("", str(line.get("stream", ""))).splitlines():
            text = text.strip()
            if text.startswith("Step ") and " : " in text:
                step = _step(tag, text)
                tail.clear()
                report(step)
            elif text and not text.startswith(_DAEMON):
                tail.append(text)
                report(Step(step.image, step.number, step.count, step.instruction, text))
    if not built:
        raise ProviderError(f"the daemon did not say that it has built {tag}")
    return built


def _step(tag: str, text: str) -> Step:
    """From `Step 3/21 : RUN pip install …`."""
    head, _, instruction = text.removeprefix("Step ").partition(" : ")
    number, _, count = head.partition("/")
    instruction = " ".join(instruction.split())
    return Step(tag, int(number), int(count), instruction if len(instruction) <= 100 else f"{instruction[:99]}…")


def _failure(step: Step, tail: deque[str], error: str) -> ProviderError:
    where = f"step {step.number}/{step.count} of {step.image} failed" if step.number else f"{step.image} was not built"
    said = error if "returned a non-zero code" not in error else f"exit code {error.rpartition(': ')[2]}"
    log = "".join(f"\n{line}" for line in tail)
    return ProviderError(f"{where}: {step.instruction}: {said.strip()}{log}", _advice(error, tail))


def _advice(error: str, tail: deque[str]) -> str:
    text = error + "".join(tail)
    if "pull access denied" in error or "failed to resolve" in error or "no such host" in error or 'Get "http' in error:
        return "the image that it stands on is not here and cannot be pulled: --python-image or --base names another"
    if "name resolution" in text or "ConnectTimeoutError" in text or "Network is unreachable" in text:
        return "the build does not reach the package index: --network host lets it use this machine's network"
    if "No space left on device" in text:
        return "docker system prune makes room"
    return ""


def labels_of(tag: str) -> dict[str, str] | None:
    """What an image carries; None if there is no such image here."""
    return _attribute(tag, lambda image: dict(image.labels))


def size_of(tag: str) -> int:
    """Bytes, with the layers that it shares with others."""
    return _attribute(tag, lambda image: int(image.attrs["Size"])) or 0


def id_of(tag: str) -> str:
    """Empty if there is no such image here."""
    return _attribute(tag, lambda image: str(image.id)) or ""


def _attribute(tag: str, read: Callable[[Any], T]) -> T | None:
    with connected() as client:
        try:
            return read(client.images.get(tag))
        except ImageNotFound:
            return None
        except FAILURES as error:
            raise ProviderError(f"the Docker daemon fails: {error}") from error
