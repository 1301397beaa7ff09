"""`envweave build ID`: build an image that serves an environment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from envweave.cli.options import AsJSON, out, print_json
from envweave.errors import UsageError

if TYPE_CHECKING:
    from envweave.images.engine import BuildStep, ProgressCallback


def build(
    target: Annotated[str, typer.Argument(metavar="ID|PATH", help="e.g. echo, or a folder with a pyproject.toml")],
    tag: Annotated[str, typer.Option("-t", "--tag", help="Default: `envweave-ID:latest`, or the project's name.")] = "",
    env: Annotated[str, typer.Option(help="The environment to serve, if the project has several.")] = "",
    network: Annotated[str | None, typer.Option(help="`host` lets the build use the network of this machine.")] = None,
    build_arg: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="For the Dockerfile; may be repeated.")
    ] = None,
    python_image: Annotated[str, typer.Option(help="The parent of the base image.")] = "python:3.11-slim",
    base: Annotated[str, typer.Option(help="Use this base image instead of building one.")] = "",
    test: Annotated[bool, typer.Option(help="Start the image and reset an environment in it.")] = True,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds that the image may take to become healthy.")] = 60.0,
    as_json: AsJSON = False,
) -> None:
    """Build an image that serves an environment, and test it."""
    from envweave.images.build import BuildOptions, build_env_image
    from envweave.images.target import resolve_target

    options = BuildOptions(
        tag=tag,
        base=base,
        python_image=python_image,
        network=network,
        arguments=_arguments(build_arg),
        test=test,
        timeout=timeout,
    )
    with _progress() as report:
        image = build_env_image(resolve_target(target, env), options, report)
    if as_json:
        print_json(image.to_data())
        return
    healthy = "not tested" if image.healthy_seconds is None else f"healthy in {image.healthy_seconds:.1f} s"
    out.print(Text(f"{image.tag}  {image.size_bytes / 1e6:.0f} MB  {healthy}"), soft_wrap=True)


def _arguments(given: list[str] | None) -> dict[str, str]:
    found = {}
    for argument in given or ():
        key, equals, value = argument.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"{argument!r} is not a build argument", "write --build-arg KEY=VALUE")
        found[key] = value
    return found


@contextmanager
def _progress() -> Iterator[ProgressCallback]:
    """Show progress on stderr: one line that changes on a terminal, otherwise one line per step."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _print_step
        return
    with console.status("build") as status:
        yield lambda step: status.update(Text(_shown(step), no_wrap=True, overflow="ellipsis"))


def _print_step(step: BuildStep) -> None:
    if not step.line:
        print(_shown(step), file=sys.stderr, flush=True)


def _shown(step: BuildStep) -> str:
    number = f" {step.number}/{step.count}" if step.number else ""
    return f"{step.image}{number} {step.line or step.instruction}"
