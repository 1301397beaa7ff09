"""`envweave serve ID`: an environment for clients on other processes and machines."""

from __future__ import annotations

import os
import signal
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from envweave.cli.options import Arguments, EnvName, keyword_arguments
from envweave.core.lookup import load
from envweave.registry.make import spec_with

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Isolation(StrEnum):
    """Where environments run."""

    thread = "thread"
    process = "process"


class LogForm(StrEnum):
    """How log lines look."""

    text = "text"
    json = "json"


class LogLevel(StrEnum):
    """What is said at all."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def serve(
    id: EnvName,
    host: Annotated[str, typer.Option(help="Use 0.0.0.0 to be reached from other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is a free one.")] = 8000,
    socket: Annotated[
        str | None, typer.Option(envvar="ENVWEAVE_SOCKET", help="A Unix socket to listen on as well.")
    ] = None,
    token: Annotated[str | None, typer.Option(envvar="ENVWEAVE_TOKEN", help="What clients have to send.")] = None,
    max_sessions: Annotated[int | None, typer.Option(min=1, help="Clients that come on top are refused.")] = None,
    isolation: Annotated[
        Isolation, typer.Option(help="`process` gives each session one of its own.")
    ] = Isolation.thread,
    idle_timeout: Annotated[float, typer.Option(min=0, help="Seconds a silent session lives; 0 is for ever.")] = 3600.0,
    resume_within: Annotated[float, typer.Option(min=0, help="Seconds a session waits for its lost client.")] = 60.0,
    step_timeout: Annotated[float, typer.Option(min=0, help="Seconds a step may take; 0 is for ever.")] = 600.0,
    close_timeout: Annotated[float, typer.Option(min=0.01, help="Seconds that closing a session may take.")] = 5.0,
    ping_interval: Annotated[float, typer.Option(min=0.01, help="Seconds between pings to a client.")] = 20.0,
    max_threads: Annotated[int, typer.Option(min=1, help="Steps that can run at the same time.")] = 512,
    max_message_bytes: Annotated[
        int | None, typer.Option(min=1024, help="A longer message is refused.", show_default="16 MiB, more for a REPL")
    ] = None,
    origin: Annotated[list[str] | None, typer.Option(help="A browser origin that is welcome; may be repeated.")] = None,
    allow_arguments: Annotated[
        bool, typer.Option(envvar="ENVWEAVE_ALLOW_ARGUMENTS", help="Let clients pass arguments to the environment.")
    ] = False,
    debug: Annotated[bool, typer.Option(help="Let clients see tracebacks.")] = False,
    log: Annotated[LogForm, typer.Option(help="`json` is one object a line.")] = LogForm.text,
    log_level: Annotated[LogLevel, typer.Option(help="`debug` tells of each session.")] = LogLevel.info,
    arg: Arguments = None,
) -> None:
    """Serve an environment over WebSocket and HTTP until Ctrl-C."""
    for module in ("assembly:create_bare_app", "run:serve", "logs:configure"):
        load(f"envweave.server.{module}", extra="server")
    from envweave.server.assembly import create_bare_app
    from envweave.server.logs import configure
    from envweave.server.run import serve as listen

    configure(log_level.value, as_json=log is LogForm.json)
    app = create_bare_app(
        spec_with(id, keyword_arguments(arg)),
        token=token,
        max_sessions=max_sessions,
        isolation=isolation.value,
        idle_timeout=idle_timeout or None,
        resume_within=resume_within,
        step_timeout=step_timeout or None,
        close_timeout=close_timeout,
        ping_interval=ping_interval,
        max_threads=max_threads,
        max_message_bytes=max_message_bytes,
        origins=tuple(origin or ()),
        allow_arguments=allow_arguments,
        debug=debug,
    )
    if host not in LOOPBACK and token is None:
        print(f"warning: {host} is reachable for others, and there is no token", file=sys.stderr)
        print("hint: --token, or ENVWEAVE_TOKEN", file=sys.stderr)

    for variable in ("ENVWEAVE_TOKEN", "ENVWEAVE_SOCKET"):  # not the environment's business, nor that of its processes
        os.environ.pop(variable, None)
    for stop in (signal.SIGTERM, signal.SIGINT):  # the web server closes everything, then raises the signal again
        signal.signal(stop, _leave)

    def ready(url: str) -> None:
        print(f"serving {id} at {url} (pid {os.getpid()}); Ctrl-C stops", flush=True)

    listen(app, app.state.sessions.settings, host, port, ready, socket)


def _leave(*_: Any) -> None:
    """To be told to stop is no failure."""
    raise SystemExit(0)
