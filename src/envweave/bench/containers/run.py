"""All figures of containers, one after the other."""

from __future__ import annotations

from rich.progress import track

from envweave.bench.figure import Figure
from envweave.bench.sandbox.timing import CONSOLE, left_out
from envweave.errors import EnvWeaveError, ProviderError

IMAGE = "envweave-echo:latest"
"""What `envweave build echo` makes. None is downloaded."""


def measure(rounds: int, *, image: str | None = None) -> list[Figure]:
    """The figures, with their numbers in `measured`. Takes some five minutes with five rounds."""
    image = image or IMAGE
    try:
        _see(image)
    except EnvWeaveError as error:
        left_out("servers in containers", f"{error.message}; {error.hint}")
        return []
    from envweave.bench.containers.fleets import cycles, fleet  # the Docker SDK
    from envweave.bench.containers.starts import starts
    from envweave.bench.containers.steps import steps

    figures: list[Figure] = []
    for part in track((starts, steps, fleet, cycles), "measuring containers", console=CONSOLE):
        figures += part(image, rounds)
    return figures


def _see(image: str) -> None:
    """Make the usual image if it is missing. Raises `EnvWeaveError`, with what to do, where there is none."""
    from envweave.images.build import id_of  # the Docker SDK
    from envweave.images.image import Options, make_image
    from envweave.images.target import target_of

    if id_of(image):
        return
    if image != IMAGE:
        raise ProviderError(f"no image {image!r} here", f"envweave build echo -t {image} makes it")
    make_image(target_of("echo"), Options(tag=image, network="host", test=False), lambda _: None)
