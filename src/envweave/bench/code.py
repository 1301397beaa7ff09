"""Environments that run code: a long context, its steps and forks, and an episode from its start."""

from __future__ import annotations

import sys
from functools import partial

from rich.progress import track

from envweave.bench.figure import Figure
from envweave.bench.sandbox.timing import CONSOLE, PAUSE, Timed, in_turns, left_out, timed
from envweave.bench.wire.servers import envweave_server
from envweave.envs.codeact import CodeAction, create_codeact_env
from envweave.envs.repl import REPLEnv

LONG = 100_000_000
"""Characters, and bytes: 100 MB of a context."""
EACH = 20
"""Steps in a turn."""


def measure(rounds: int) -> list[Figure]:
    """The figures, with their numbers in `measured`."""
    if sys.platform != "linux":
        left_out("environments that run code", "the walls of their sandbox are Linux's")
        return []
    figures: list[Figure] = []
    for part in track((_context, _remote_context, _episode), "measuring environments that run code", console=CONSOLE):
        figures += part(rounds)
    return figures


def _context(rounds: int) -> list[Figure]:
    text = "x" * LONG
    with REPLEnv() as fresh, REPLEnv() as full, REPLEnv() as empty:
        full.reset(context=text, max_iterations=10_000)
        empty.reset(max_iterations=10_000)
        loads = in_turns(rounds, [partial(_load, fresh, text)])[0]
        with_it, without = in_turns(rounds, [partial(_steps, full), partial(_steps, empty)])
        forks = in_turns(rounds, [partial(_fork, full)])[0]
    return [
        loads.figure("REPL: reset with a context of 100 MB", unit="ms", at_most=1000),
        _ratio(with_it, without),
        forks.figure("REPL: fork of an episode with 100 MB of context", unit="ms", at_most=40),
    ]


def _remote_context(rounds: int) -> list[Figure]:
    text = "x" * LONG
    with envweave_server("repl") as server, REPLEnv(base_url=server.url) as env:
        loads = in_turns(min(rounds, 3), [partial(_load, env, text)])[0]
    return [
        Figure(
            what="the same over a WebSocket",
            value=loads.quietest * 1e3,
            unit="ms",
            note=f"median of all rounds {loads.median * 1e3:.0f}",
            measured={"unit": "s", "rounds": loads.rounds},
        )
    ]


def _episode(rounds: int) -> list[Figure]:
    with create_codeact_env() as env:
        env.reset()

        def starts() -> list[float]:
            return [timed(env.reset, rested=PAUSE)[0] for _ in range(5)]

        def steps() -> list[float]:
            return [timed(lambda: env.step(CodeAction(code="x = 1")))[0] for _ in range(EACH)]

        started, stepped = in_turns(rounds, [starts, steps])
    return [
        started.figure("CodeAct: reset, a fresh interpreter", unit="ms", at_most=25),
        stepped.figure("CodeAct: a step that assigns", unit="µs", at_most=500),
    ]


def _load(env: REPLEnv, text: str) -> list[float]:
    seconds, begun = timed(lambda: env.reset(context=text))
    if begun.observation.context_length != len(text):
        raise RuntimeError("the context has not arrived")
    return [seconds]


def _steps(env: REPLEnv) -> list[float]:
    return [timed(lambda: env.execute("n = len(context)"))[0] for _ in range(EACH)]


def _fork(env: REPLEnv) -> list[float]:
    found = []
    for _ in range(5):
        seconds, twin = timed(env.fork, rested=PAUSE)
        twin.close()
        found.append(seconds)
    return found


def _ratio(with_it: Timed, without: Timed) -> Figure:
    return Figure(
        what="REPL: a step with 100 MB of context / with none",
        value=with_it.quietest / without.quietest,
        at_most=1.5,
        note=f"{with_it.quietest * 1e6:.0f} and {without.quietest * 1e6:.0f} µs, with all variables shown",
        measured={"with": with_it.rounds, "without": without.rounds},
    )
