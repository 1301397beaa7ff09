"""The command `envweave`: one file for each verb.

Exit codes: 0 well, 1 something about an environment is not, 2 the call was wrong. Errors are two lines on stderr.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import typer

from envweave.core.lookup import load
from envweave.errors import EnvWeaveError, ProviderError, UsageError

VERBS = ("list", "info", "run", "check", "serve", "init", "build", "ps", "gc", "doctor")
"""Each is a function in a module of its own name."""

CallError: Any = typer.BadParameter.__mro__[1]
"""What typer raises for a wrong command line; it is click's, and typer may carry a click of its own."""


def command(words: list[str]) -> typer.Typer:
    """The command for a command line: with the one verb that it names, as the others take their time to load."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(envweave)
    for verb in words[:1] if words and words[0] in VERBS else VERBS:
        app.command()(load(f"envweave.cli.{verb}:{verb}"))
    return app


def envweave(context: typer.Context) -> None:
    """Agentic RL environments: one ID, one handle."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


def main() -> None:
    """Run the command line and leave with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our signs still gets the text
    sys.path.insert(0, "")  # so that pkg://my_env:MyEnv finds a file of the user's, as python -m would
    sys.exit(_run())


def _run() -> int:
    try:
        code = command(sys.argv[1:])(standalone_mode=False, prog_name="envweave")
    except ProviderError as error:  # what somebody else has written stands above, as it is
        message, _, log = error.message.partition("\n")
        print(log, end="\n" if log else "", file=sys.stderr)
        return _complain(message, error.hint, 1)
    except EnvWeaveError as error:
        return _complain(error.message, error.hint, 2 if isinstance(error, UsageError) else 1)
    except CallError as error:
        context = getattr(error, "ctx", None)
        where = context.command_path if context else "envweave"
        return _complain(error.format_message().rstrip("."), f"{where} --help", 2)
    except (typer.Abort, KeyboardInterrupt):
        return _complain("interrupted", "", 130)
    except BrokenPipeError:  # `envweave list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0


def _complain(message: str, hint: str, code: int) -> int:
    lines = " ".join(message.split())
    print(f"{lines[:1].lower()}{lines[1:]}", file=sys.stderr)
    if hint:
        print(f"hint: {' '.join(hint.split())}", file=sys.stderr)
    return code
