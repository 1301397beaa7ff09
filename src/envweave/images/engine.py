"""Docker daemon: build an image and inspect images.

The daemon's classic builder reports progress as text, so `_follow` parses lines such as `Step 3/21 : RUN …`. The
Docker SDK for Python does not support BuildKit, and the `docker` command need not be installed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from envweave.docker_client import FAILURES, ImageNotFound, connected, reason
from envweave.errors import ProviderError
from envweave.providers.base import LOG_TAIL

T = TypeVar("T")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)")
_DAEMON_PREFIXES = ("--->", "Removing intermediate container")
"""Prefixes of lines that the daemon itself writes; other lines are the output of a step."""
_INSTRUCTION_LENGTH = 100


@dataclass(frozen=True)
class BuildStep:
    """Progress of a build: an instruction of the Dockerfile, and the last line of its output.

    `number` and `count` are 0 for work before and after the Dockerfile.
    """

    image: str
    number: int
    count: int
    instruction: str
    line: str = ""


ProgressCallback = Callable[[BuildStep], None]
"""Called for each step and for each line of its output."""


def build_image(
    folder: Path,
    dockerfile: str,
    tag: str,
    arguments: Mapping[str, str],
    *,
    network: str | None,
    progress: ProgressCallback,
) -> str:
    """Build and tag an image, and return its ID. Raises `ProviderError` with the failing step and its last lines."""
    with connected() as client:
        try:
            stream = client.api.build(
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
            with closing(stream) as lines:  # else a build that fails leaves its socket open
                return _follow(lines, tag, progress)
        except FAILURES as error:
            raise ProviderError(f"cannot build the image {tag}: {reason(error)}") from error


def image_labels(tag: str) -> dict[str, str] | None:
    """Return the labels of an image, or None if there is no such image."""
    return _inspect(tag, lambda image: dict(image.labels))


def image_size_bytes(tag: str) -> int:
    """Return the size of an image, including layers that it shares with other images; 0 if there is no such image."""
    return _inspect(tag, lambda image: int(image.attrs["Size"])) or 0


def image_id(tag: str) -> str:
    """Return the ID of an image, or an empty string if there is no such image."""
    return _inspect(tag, lambda image: str(image.id)) or ""


def _inspect(tag: str, read: Callable[[Any], T]) -> T | None:
    with connected() as client:
        try:
            return read(client.images.get(tag))
        except ImageNotFound:
            return None
        except FAILURES as error:
            raise ProviderError(f"the Docker daemon failed: {reason(error)}") from error


def _follow(lines: Iterator[dict[str, Any]], tag: str, progress: ProgressCallback) -> str:
    """Report the progress of a build until it ends, and return the ID of the image."""
    step = BuildStep(tag, 0, 0, "send the build context")
    tail: deque[str] = deque(maxlen=LOG_TAIL)
    built = ""
    for line in lines:
        if "error" in line:
            raise _failure(step, tail, str(line["error"]))
        built = (line.get("aux") or {}).get("ID", built)
        for text in _COLOUR.sub("", str(line.get("stream", ""))).splitlines():
            text = text.strip()
            if match := _STEP.fullmatch(text):
                step = BuildStep(tag, int(match[1]), int(match[2]), _shortened(match[3]))
                tail.clear()
                progress(step)
            elif text and not text.startswith(_DAEMON_PREFIXES):
                tail.append(text)
                progress(replace(step, line=text))
    if not built:
        raise ProviderError(f"the Docker daemon returned no image ID for {tag}")
    return built


def _shortened(instruction: str) -> str:
    text = " ".join(instruction.split())
    return text if len(text) <= _INSTRUCTION_LENGTH else f"{text[: _INSTRUCTION_LENGTH - 1]}…"


def _failure(step: BuildStep, tail: deque[str], error: str) -> ProviderError:
    where = f"step {step.number}/{step.count} of {step.image} failed" if step.number else f"cannot build {step.image}"
    cause = error if "returned a non-zero code" not in error else f"exit code {error.rpartition(': ')[2]}"
    log = "".join(f"\n{line}" for line in tail)
    return ProviderError(f"{where}: {step.instruction}: {cause.strip()}{log}", _hint(error, tail))


def _hint(error: str, tail: deque[str]) -> str:
    text = error + "".join(tail)
    if "pull access denied" in error or "failed to resolve" in error or "no such host" in error or 'Get "http' in error:
        return "the base image is not on this machine and cannot be pulled; choose one with --python-image or --base"
    if "name resolution" in text or "ConnectTimeoutError" in text or "Network is unreachable" in text:
        return "the build cannot reach the package index; --network host lets it use this machine's network"
    if "No space left on device" in text:
        return "docker system prune frees disk space"
    return ""
