"""`envweave serve ID`: serve an environment to clients in other processes and on other machines."""

from __future__ import annotations

import os
import signal
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from envweave.cli.options import Arguments, EnvName, Record, keyword_arguments
from envweave.core.lookup import load
from envweave.registry.make import spec_with

LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Isolation(StrEnum):
    """Where environments run."""

    thread = "thread"
    process = "process"


class LogForm(StrEnum):
    """The form of log lines."""

    text = "text"
    json = "json"


class LogLevel(StrEnum):
    """The lowest level that is logged."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


Host = Annotated[str, typer.Option(help="0.0.0.0 accepts clients on other machines.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="0 means any free port.")]
Socket = Annotated[str | None, typer.Option(envvar="ENVWEAVE_SOCKET", help="Also listen on this Unix socket.")]
Token = Annotated[str | None, typer.Option(envvar="ENVWEAVE_TOKEN", help="The token that clients must send.")]
MaxSessions = Annotated[int | None, typer.Option(min=1, help="Maximum number of concurrent sessions.")]
IsolationOption = Annotated[Isolation, typer.Option(help="`process` runs each session in its own process.")]
IdleTimeout = Annotated[
    float, typer.Option(min=0, help="Seconds before a session without messages is closed; 0 means no limit.")
]
ResumeWithin = Annotated[float, typer.Option(min=0, help="Seconds a session waits for a client that disconnected.")]
StepTimeout = Annotated[float, typer.Option(min=0, help="Maximum seconds for a step; 0 means no limit.")]
CloseTimeout = Annotated[float, typer.Option(min=0.01, help="Maximum seconds for closing a session.")]
PingInterval = Annotated[float, typer.Option(min=0.01, help="Seconds between pings to a client.")]
MaxThreads = Annotated[int, typer.Option(min=1, help="Maximum number of concurrent steps.")]
MaxMessageBytes = Annotated[
    int | None,
    typer.Option(min=1024, help="Maximum size of a message.", show_default="16 MiB, more for a REPL"),
]
Origin = Annotated[list[str] | None, typer.Option(help="A browser origin to accept; may be repeated.")]
AllowArguments = Annotated[
    bool, typer.Option(envvar="ENVWEAVE_ALLOW_ARGUMENTS", help="Let clients pass arguments to the environment.")
]
AllowBranching = Annotated[
    bool, typer.Option(envvar="ENVWEAVE_ALLOW_BRANCHING", help="Let clients snapshot, restore and fork episodes.")
]
Debug = Annotated[bool, typer.Option(help="Send tracebacks to clients.")]
LogOption = Annotated[LogForm, typer.Option(help="`json` logs one object per line.")]
LogLevelOption = Annotated[LogLevel, typer.Option(help="`debug` logs each session.")]


def serve(
    id: EnvName,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    socket: Socket = None,
    token: Token = None,
    max_sessions: MaxSessions = None,
    isolation: IsolationOption = Isolation.thread,
    idle_timeout: IdleTimeout = 3600.0,
    resume_within: ResumeWithin = 60.0,
    step_timeout: StepTimeout = 600.0,
    close_timeout: CloseTimeout = 5.0,
    ping_interval: PingInterval = 20.0,
    max_threads: MaxThreads = 512,
    max_message_bytes: MaxMessageBytes = None,
    origin: Origin = None,
    allow_arguments: AllowArguments = False,
    allow_branching: AllowBranching = False,
    debug: Debug = False,
    log: LogOption = LogForm.text,
    log_level: LogLevelOption = LogLevel.info,
    record: Record = None,
    arg: Arguments = None,
) -> None:
    """Serve an environment over WebSocket and HTTP until Ctrl-C."""
    create_app, listen = _server(log, log_level)
    app = create_app(
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
        allow_branching=allow_branching,
        debug=debug,
        record=record,
    )
    _prepare_process(host, token)

    def ready(url: str) -> None:
        note = "" if token is None else " (with the token)"
        pages = f"web page at {url}/web, API documentation at {url}/docs{note}"
        print(f"serving {id} at {url} (pid {os.getpid()}); Ctrl-C stops\n{pages}", flush=True)

    listen(app, app.state.sessions.settings, host, port, ready, socket)


def _server(log: LogForm, level: LogLevel) -> tuple[Any, Any]:
    """The functions that create the application and run it. Raises `UnavailableError` if the extra is missing."""
    configure, create_app, listen = (
        load(f"envweave.server.{name}", extra="server")
        for name in ("logs:configure", "assembly:create_bare_app", "run:serve")
    )
    configure(level.value, as_json=log is LogForm.json)
    return create_app, listen


def _prepare_process(host: str, token: str | None) -> None:
    """Warn about an open server, hide its secrets from the environment, and exit with 0 on SIGTERM and SIGINT."""
    if host not in LOOPBACK and token is None:
        print(f"warning: other machines can reach {host}, and no token is set", file=sys.stderr)
        print("hint: --token, or ENVWEAVE_TOKEN", file=sys.stderr)
    for variable in ("ENVWEAVE_TOKEN", "ENVWEAVE_SOCKET"):
        os.environ.pop(variable, None)
    for number in (signal.SIGTERM, signal.SIGINT):  # the web server closes all sessions, then raises the signal again
        signal.signal(number, _exit)


def _exit(*_: Any) -> None:
    raise SystemExit(0)
