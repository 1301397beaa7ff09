"""The command `envweave`: one file for each verb.

Exit codes: 0 success, 1 environment failure, 2 usage, 130 interrupted. Errors are two lines on stderr.
"""

from __future__ import annotations

import io
import os
import sys
from importlib.metadata import version as installed_version
from typing import Annotated, Any

import typer

from envweave.core.lookup import load
from envweave.errors import EnvWeaveError, ProviderError, UsageError

VERBS = (
    *("list", "info", "run", "check", "serve", "init", "build", "ps", "gc", "doctor"),
    *("replay", "rescore", "export", "import"),
)
"""Each is a function in a module of its own name; `import` is a keyword of Python, and its function is `import_`."""

CallError: Any = typer.BadParameter.__mro__[1]
"""The exception of a wrong command line. It is click's, and some versions of typer contain their own click."""


def command(words: list[str]) -> typer.Typer:
    """The command for a command line. Only the verb that it names is imported, because the others take time to load."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(envweave)
    for verb in words[:1] if words and words[0] in VERBS else VERBS:
        name = "import_" if verb == "import" else verb
        app.command(verb)(load(f"envweave.cli.{name}:{name}"))
    return app


def envweave(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="Show the version and exit.")] = False,
) -> None:
    """Agentic RL environments: one ID, one handle."""
    if version:
        print(f"envweave {installed_version('envweave')}")
        raise typer.Exit(0)
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(2)


def main() -> None:
    """Run the command line and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals that cannot show ✓
    sys.path.insert(0, "")  # my_env:MyEnv is found in the current folder, as by `python -m`
    sys.exit(_run())


def _run() -> int:
    try:
        code = command(sys.argv[1:])(standalone_mode=False, prog_name="envweave")
    except ProviderError as error:  # the log of a process or container is printed first, unchanged
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
