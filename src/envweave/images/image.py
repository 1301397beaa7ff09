"""From a target to an image that is known to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from envweave.errors import UsageError
from envweave.images import pip
from envweave.images.build import Report, Step, build, id_of, labels_of, size_of
from envweave.images.context import context, write_base, write_env
from envweave.images.target import Target
from envweave.images.trial import need_client, try_image
from envweave.providers.base import READY_TIMEOUT

BASE = "envweave-base:latest"
PYTHON = "python:3.11-slim"
_OURS = ("ADDED", "BASE", "DIGEST", "ENV_ID", "PYTHON", "SOURCE", "VERSION")
"""Build arguments that follow from the target and the other options."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to build; what is left out is as Docker and our Dockerfiles have it."""

    tag: str = ""
    base: str = ""
    """An image to stand on, taken as it is. Else it is `envweave-base`, which is built unless it is up to date."""
    python_image: str = PYTHON
    network: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    test: bool = True
    timeout: float = READY_TIMEOUT


@dataclass(frozen=True, kw_only=True)
class Image:
    """One that was built, and tried unless that was not wanted."""

    tag: str
    id: str
    env_id: str
    size_bytes: int
    healthy_seconds: float | None

    def to_data(self) -> dict[str, Any]:
        return asdict(self)


def make_image(target: Target, options: Options, report: Report) -> Image:
    """Build the image, and the base below it if need be; then start it and begin an episode.

    Raises `ProviderError` for a build that fails, and for an image that does not serve, which stays to be looked at.
    """
    if taken := sorted(set(_OURS) & set(options.arguments)):
        raise UsageError(f"the build argument {taken[0]} is not free", "use the ID or path, --base and --python-image")
    if options.test:
        need_client()
    settings = pip.settings()
    base = id_of(options.base) or options.base if options.base else make_base(options, settings, report)
    tag = options.tag or target.tag
    with context() as folder:
        arguments = {**write_env(folder, target, pip.authorities(settings)), "BASE": base}
        arguments |= {**pip.build_arguments(settings), **options.arguments}
        id = build(folder, "docker/env/Dockerfile", tag, arguments, network=options.network, report=report)
    seconds = None
    if options.test:
        report(Step(tag, 0, 0, "start it and begin an episode"))
        seconds = try_image(tag, timeout=options.timeout)
    return Image(tag=tag, id=id, env_id=target.env_id, size_bytes=size_of(id), healthy_seconds=seconds)


def make_base(options: Options, settings: dict[str, str], report: Report, tag: str = BASE) -> str:
    """The ID of the base image, which is built if there is none or one of another envweave or Python."""
    with context() as folder:
        arguments = write_base(folder, pip.authorities(settings))
        found = labels_of(tag) or {}
        wanted = {"envweave.source": arguments["DIGEST"], "envweave.python": options.python_image}
        if wanted.items() <= found.items():
            return id_of(tag)
        arguments |= {"PYTHON": options.python_image, **pip.build_arguments(settings), **options.arguments}
        return build(folder, "docker/base/Dockerfile", tag, arguments, network=options.network, report=report)
