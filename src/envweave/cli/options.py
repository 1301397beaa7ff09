"""Arguments that several verbs share, and how they print."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console

from envweave.core.ids import parse_value
from envweave.errors import UsageError

EnvName = Annotated[
    str, typer.Argument(metavar="ID", help="e.g. lineworld, 'lineworld?size=7', ./file.py, module:Class or a URL")
]
AsJSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Arguments = Annotated[
    list[str] | None,
    typer.Option("--arg", "-a", metavar="KEY=VALUE", help="An argument of the environment; may be repeated."),
]
Record = Annotated[
    str | None, typer.Option("--record", metavar="FOLDER", help="Write all episodes to the record in this folder.")
]
RunFolder = Annotated[str, typer.Argument(metavar="RUN", help="The folder of a record.")]


class Format(StrEnum):
    """A format of another tool."""

    atif = "atif"
    messages = "messages"
    parquet = "parquet"
    minari = "minari"


out = Console()


@contextmanager
def own_output(as_json: bool) -> Iterator[None]:
    """If the result is JSON, redirect what an environment prints to stderr."""
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        yield


def print_json(data: Any) -> None:
    print(json.dumps(data, indent=2, ensure_ascii=False))


def keyword_arguments(arguments: list[str] | None) -> dict[str, Any]:
    """`["size=7"]` is `{"size": 7}`; a value that is not JSON is text."""
    found: dict[str, Any] = {}
    for argument in arguments or ():
        key, equals, value = argument.partition("=")
        if not equals or not key.isidentifier():
            raise UsageError(f"{argument!r} is not an argument", "write --arg size=7")
        found[key] = parse_value(value)
    return found
