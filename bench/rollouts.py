"""Rollouts: groups of episodes that run code, the driver's own cost, trees against chains, groups by fork."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.progress import track

import envweave as ew
from bench.code import LONG
from bench.figure import Figure
from bench.timing import CONSOLE, Durations, alternate, skip, timed
from bench.wire.servers import ServerProcess, envweave_server
from envweave.envs.repl import REPLEnv
from envweave.rollouts import Conversation, Group, Rollout, ScriptedPolicy

GROUPS, GROUP_SIZE, TURNS = 32, 8, 4
MAX_ROUNDS = 7
"""A round of the whole takes half a minute."""
TRIVIAL_TURNS = 20
THINKING = 0.05
"""Seconds that the model takes for a reply in the comparison of trees and chains."""
TREE = ew.Branch(at=(2, 4), width=(4, 2))
DEPTH = 5

TRIVIAL = """
import envweave as ew

class Trivial(ew.Environment[int, int]):
    def reset(self, *, seed: int | None = None) -> int:
        return 0

    def step(self, action: int):
        return 0, 1.0, False, False, {}
"""


def measure(rounds: int) -> list[Figure]:
    """The figures, with their numbers in `measured`."""
    if sys.platform != "linux":
        skip("rollouts", "the sandbox of their environments needs Linux")
        return []
    figures: list[Figure] = []
    for part in track((_groups, _overhead, _tree, _group_by_fork), "measuring rollouts", console=CONSOLE):
        figures += part(min(rounds, MAX_ROUNDS))
    return figures


def _code(*lines: str) -> str:
    return "\n".join(("```python", *lines, "```"))


SCRIPT = ScriptedPolicy(
    [_code("x = 1"), _code("x += 1", "print(x)"), _code("y = [x]", "print(y)"), _code("print(x, y)")]
)


# 256 episodes that run code.


def _groups(rounds: int) -> list[Figure]:
    with _branching_server("codeact") as server:
        kinds = {
            "local": partial(_play, "codeact"),
            "remote": partial(_play, server.url),
            "local, by fork": partial(_play, "codeact", start="fork"),
            "remote, by fork": partial(_play, server.url, start="fork"),
        }
        firsts: dict[str, Durations] = {name: Durations() for name in kinds}
        wholes = alternate(rounds, [partial(_whole, play, firsts[name]) for name, play in kinds.items()])
    figures = []
    for name, whole in zip(kinds, wholes, strict=True):
        most = 4.5 if "fork" in name else 7
        what = f"{GROUPS * GROUP_SIZE} rollouts of {TURNS} turns on CodeAct, {name}"
        figures.append(whole.figure(what, unit="s", at_most=most, note=_load()))
        firsts[name].rounds.pop(0)  # of the round that does not count
        figures.append(firsts[name].figure(f"the first group of {GROUP_SIZE}, {name}", unit="s", at_most=1))
    return figures


def _play(env: Any, **options: Any) -> Rollout:
    return ew.rollout(env, SCRIPT, GROUPS, group_size=GROUP_SIZE, max_turns=TURNS, **options)


def _whole(play: Callable[[], Rollout], firsts: Durations) -> list[float]:
    began = time.perf_counter()
    rollout = play()
    scored = len(next(rollout).scored)
    firsts.rounds.append([time.perf_counter() - began])
    scored += sum(len(group.scored) for group in rollout)
    seconds = time.perf_counter() - began
    if scored != GROUPS * GROUP_SIZE:
        raise RuntimeError(f"{scored} episodes have a reward:\n{rollout.summary}")
    return [seconds]


# An environment and a model that cost nothing.


def _overhead(rounds: int) -> list[Figure]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "trivial.py"
        file.write_text(TRIVIAL)
        name = f"{file}:Trivial"
        with envweave_server(name) as server:
            local, remote = alternate(rounds, [partial(_turns, name), partial(_turns, server.url)])
    return [
        local.figure("a turn of the driver, local, 64 at once", unit="ms", at_most=0.5, note=_load()),
        remote.figure("a turn of the driver, remote, 64 at once", unit="ms", at_most=3),
    ]


async def _one(_conversation: Conversation) -> str:
    return "```json\n1\n```"


def _turns(env: str) -> list[float]:
    """Seconds for each turn."""
    seconds, groups = timed(
        lambda: list(ew.rollout(env, _one, 16, group_size=GROUP_SIZE, max_turns=TRIVIAL_TURNS, at_once=64))
    )
    return [seconds / sum(episode.steps for group in groups for episode in group)]


# A tree of 8 leaves and 8 chains of the same length.


class _SlowModel:
    """Says the same after a while, and counts."""

    def __init__(self) -> None:
        self.calls = 0

    async def reply(self, conversation: Conversation) -> str:
        self.calls += 1
        await asyncio.sleep(THINKING)
        return _code(f"x = {len(conversation.messages)}", "print(x)")


def _tree(rounds: int) -> list[Figure]:
    figures: list[Figure] = []
    with _branching_server("codeact") as server:
        for where, env in (("local", "codeact"), ("remote", server.url)):
            grown, chained = _SlowModel(), _SlowModel()
            tree, chains = alternate(
                rounds,
                [
                    partial(_episodes, env, grown, tree=TREE),
                    partial(_episodes, env, chained, group_size=TREE.leaves),
                ],
            )
            times = f"{tree.median:.2f} and {chains.median:.2f} s, {_load()}"
            calls = f"{grown.calls // (rounds + 1)} and {chained.calls // (rounds + 1)} calls"
            figures += [
                Figure(
                    what=f"model calls of a tree / of {TREE.leaves} chains, {where}",
                    value=grown.calls / chained.calls,
                    at_most=0.5,
                    note=calls,
                ),
                Figure.of(
                    tree.ratios(chains),
                    what=f"wall time of a tree / of {TREE.leaves} chains, {where}",
                    at_most=1,
                    note=times,
                    measured={"tree": tree.rounds, "chains": chains.rounds},
                ),
            ]
    return figures


def _episodes(env: str, model: _SlowModel, **options: Any) -> list[float]:
    seconds, groups = timed(lambda: list(ew.rollout(env, model, 1, max_turns=DEPTH, **options)))
    if sum(len(group.scored) for group in groups) != TREE.leaves:
        raise RuntimeError("a leaf is missing")
    return [seconds]


# A group that starts with a long context.


def _group_by_fork(rounds: int) -> list[Figure]:
    text = "x" * LONG
    forks, resets, in_turn = alternate(
        rounds, [partial(_prepared, text, "fork"), partial(_prepared, text, "reset"), partial(_resets, text)]
    )
    group = f"REPL with 100 MB of context: a group of {GROUP_SIZE} by fork / "
    times = f"{forks.median:.2f}, {in_turn.median:.2f} and {resets.median:.2f} s, {_load()}"
    measured = {"forks": forks.rounds, "resets in turn": in_turn.rounds, "resets at once": resets.rounds}
    return [
        Figure.of(
            forks.ratios(in_turn),
            what=group + "eight resets in turn",
            at_most=0.35,
            note=times,
            measured=measured,
        ),
        Figure.of(forks.ratios(resets), what=group + "a group by resets, at once on all cores"),
    ]


def _prepared(text: str, start: str) -> list[float]:
    def play() -> list[Group]:
        return list(ew.rollout(REPLEnv, _look, [{"context": text}], group_size=GROUP_SIZE, max_turns=1, start=start))

    seconds, (group,) = timed(play)
    if any(episode.steps != 1 or episode.failed for episode in group):
        raise RuntimeError(f"an episode failed: {group.episodes}")
    return [seconds]


def _resets(text: str) -> list[float]:
    with REPLEnv() as env:
        return [timed(lambda: [env.reset(context=text) for _ in range(GROUP_SIZE)])[0]]


async def _look(_observation: Any, _request: Any) -> dict[str, str]:
    return {"code": "n = len(context)"}


@contextmanager
def _branching_server(env: str) -> Iterator[ServerProcess]:
    before = os.environ.get("ENVWEAVE_ALLOW_BRANCHING")
    os.environ["ENVWEAVE_ALLOW_BRANCHING"] = "1"
    try:
        with envweave_server(env) as server:
            yield server
    finally:
        if before is None:
            del os.environ["ENVWEAVE_ALLOW_BRANCHING"]
        else:
            os.environ["ENVWEAVE_ALLOW_BRANCHING"] = before


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
