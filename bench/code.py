"""Environments that run code: a long context, steps and forks with it, and the start of an episode."""

from __future__ import annotations

import sys
from functools import partial

from rich.progress import track

from bench.figure import Figure
from bench.timing import CONSOLE, PAUSE, Durations, alternate, skip, timed
from bench.wire.servers import envweave_server
from envweave.envs.codeact import CodeAction, create_codeact_env
from envweave.envs.repl import REPLEnv

LONG = 100_000_000
"""Characters, one byte each: a context of 100 MB."""
STEPS, FORKS, STARTS = 100, 2, 2
"""In a round."""
MAX_REMOTE_LOADS = 5


def measure(rounds: int) -> list[Figure]:
    """The figures, with their numbers in `measured`."""
    if sys.platform != "linux":
        skip("environments that run code", "their sandbox needs Linux")
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
        loads = alternate(rounds, [partial(_load, fresh, text)])[0]
        with_it, without = alternate(rounds, [partial(_steps, full), partial(_steps, empty)])
        forks = alternate(rounds, [partial(_fork, full)])[0]
    return [
        loads.figure("REPL: reset with a context of 100 MB", unit="ms", at_most=1000),
        _ratio(with_it, without),
        forks.figure("REPL: fork of an episode with 100 MB of context", unit="ms", at_most=40),
    ]


def _remote_context(rounds: int) -> list[Figure]:
    text = "x" * LONG
    with envweave_server("repl") as server, REPLEnv(base_url=server.url) as env:
        loads = alternate(min(rounds, MAX_REMOTE_LOADS), [partial(_load, env, text)])[0]
    return [loads.figure("the same over a WebSocket", unit="ms")]


def _episode(rounds: int) -> list[Figure]:
    with create_codeact_env() as env:
        env.reset()

        def starts() -> list[float]:
            return [timed(env.reset, pause=PAUSE)[0] for _ in range(STARTS)]

        def steps() -> list[float]:
            return [timed(lambda: env.step(CodeAction(code="x = 1")))[0] for _ in range(STEPS)]

        started, stepped = alternate(rounds, [starts, steps])
    return [
        started.figure("CodeAct: reset, a fresh interpreter", unit="ms", at_most=25),
        stepped.figure("CodeAct: a step that assigns", unit="µs", at_most=500),
    ]


def _load(env: REPLEnv, text: str) -> list[float]:
    seconds, begun = timed(lambda: env.reset(context=text))
    if begun.observation.context_length != len(text):
        raise RuntimeError("the context did not arrive")
    return [seconds]


def _steps(env: REPLEnv) -> list[float]:
    return [timed(lambda: env.execute("n = len(context)"))[0] for _ in range(STEPS)]


def _fork(env: REPLEnv) -> list[float]:
    found = []
    for _ in range(FORKS):
        seconds, twin = timed(env.fork, pause=PAUSE)
        twin.close()
        found.append(seconds)
    return found


def _ratio(with_it: Durations, without: Durations) -> Figure:
    return Figure.of(
        with_it.ratios(without),
        what="REPL: a step with 100 MB of context / with none",
        at_most=1.5,
        note=f"{with_it.median * 1e6:.0f} and {without.median * 1e6:.0f} µs, with all variables shown",
        measured={"with": with_it.rounds, "without": without.rounds},
    )
