"""Build and test an image that serves an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from envweave.errors import UsageError
from envweave.images import pip
from envweave.images.context import temporary_context, write_base_context, write_env_context
from envweave.images.engine import BuildStep, ProgressCallback, build_image, image_id, image_labels, image_size_bytes
from envweave.images.smoke_test import require_client, smoke_test
from envweave.images.target import BuildTarget
from envweave.providers.base import READY_TIMEOUT

BASE_TAG = "envweave-base:latest"
PYTHON_IMAGE = "python:3.11-slim"
_RESERVED = ("BASE", "DIGEST", "ENV_ID", "PACKAGES", "PYTHON", "SOURCE", "VERSION")
"""Build arguments that are derived from the target and the other options."""


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Options of `envweave build`."""

    tag: str = ""
    """Name of the image; empty for the default name of the target."""
    base: str = ""
    """Base image, used as it is. If empty, `envweave-base:latest` is used, and built first unless it is up to date."""
    python_image: str = PYTHON_IMAGE
    """Image that `envweave-base` is built on."""
    network: str | None = None
    """Docker network of the build, e.g. `host`."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Additional build arguments for the Dockerfile."""
    test: bool = True
    """Start the image after the build and reset the environment once."""
    timeout: float = READY_TIMEOUT
    """Seconds until the started image must be healthy."""


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """Result of a build."""

    tag: str
    id: str
    env_id: str
    size_bytes: int
    healthy_seconds: float | None
    """Seconds from the start until the server was healthy; None if the image was not tested."""

    def to_data(self) -> dict[str, Any]:
        return asdict(self)


def build_env_image(target: BuildTarget, options: BuildOptions, progress: ProgressCallback) -> BuiltImage:
    """Build the image of an environment, and its base image if needed; then test it.

    Raises `ProviderError` if the build or the test fails. An image that fails the test is kept for inspection.
    """
    if reserved := sorted(set(_RESERVED) & set(options.arguments)):
        raise UsageError(
            f"the build argument {reserved[0]} is reserved", "use the ID or path, --base or --python-image"
        )
    if options.test:
        require_client()
    settings = pip.read_settings()
    base = image_id(options.base) or options.base if options.base else ensure_base_image(options, settings, progress)
    tag = options.tag or target.tag
    with temporary_context() as folder:
        arguments = {**write_env_context(folder, target, pip.ca_bundle(settings)), "BASE": base}
        arguments |= {**pip.build_arguments(settings), **options.arguments}
        id = build_image(folder, "docker/env/Dockerfile", tag, arguments, network=options.network, progress=progress)
    seconds = None
    if options.test:
        progress(BuildStep(tag, 0, 0, "start the image and reset the environment"))
        seconds = smoke_test(tag, timeout=options.timeout)
    return BuiltImage(tag=tag, id=id, env_id=target.env_id, size_bytes=image_size_bytes(id), healthy_seconds=seconds)


def ensure_base_image(
    options: BuildOptions, settings: dict[str, str], progress: ProgressCallback, tag: str = BASE_TAG
) -> str:
    """Return the ID of the base image. It is built if it is missing or has another envweave or Python."""
    with temporary_context() as folder:
        arguments = write_base_context(folder, pip.ca_bundle(settings))
        expected = {"envweave.source": arguments["DIGEST"], "envweave.python": options.python_image}
        if expected.items() <= (image_labels(tag) or {}).items():
            return image_id(tag)
        arguments |= {"PYTHON": options.python_image, **pip.build_arguments(settings), **options.arguments}
        return build_image(folder, "docker/base/Dockerfile", tag, arguments, network=options.network, progress=progress)
