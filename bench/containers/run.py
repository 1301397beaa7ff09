"""All figures of containers, one after the other."""

from __future__ import annotations

from rich.progress import track

from bench.figure import Figure
from bench.timing import CONSOLE, skip
from envweave.errors import EnvWeaveError, ProviderError

IMAGE = "envweave-echo:latest"
"""The image that `envweave build echo` makes. No image is downloaded."""


def measure(rounds: int, *, image: str | None = None) -> list[Figure]:
    """The figures, with their numbers in `measured`. Takes about four minutes with twenty rounds."""
    image = image or IMAGE
    try:
        _ensure(image)
    except EnvWeaveError as error:
        skip("servers in containers", f"{error.message}; {error.hint}")
        return []
    from bench.containers.lifecycle import many_containers, repeated_starts  # the Docker SDK
    from bench.containers.starts import starts
    from bench.containers.steps import steps

    figures: list[Figure] = []
    for part in track((starts, steps, many_containers, repeated_starts), "measuring containers", console=CONSOLE):
        figures += part(image, rounds)
    return figures


def _ensure(image: str) -> None:
    """Build the default image if it is missing. Raises `EnvWeaveError` with a hint if there is no image."""
    from envweave.images.build import BuildOptions, build_env_image  # the Docker SDK
    from envweave.images.engine import image_id
    from envweave.images.target import resolve_target

    if image_id(image):
        return
    if image != IMAGE:
        raise ProviderError(f"no image {image!r} here", f"envweave build echo -t {image} makes it")
    build_env_image(resolve_target("echo"), BuildOptions(tag=image, network="host", test=False), lambda _: None)
