"""`envweave run ID`: play episodes and summarize them."""

from __future__ import annotations

import inspect
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from math import sqrt
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from envweave.cli.options import Arguments, AsJSON, EnvName, keyword_arguments, out, own_output, print_json
from envweave.core.lookup import load
from envweave.core.rollout import Policy, Rollout, random_policy, rollout
from envweave.errors import EnvError, InvalidActionError, UsageError, describe
from envweave.registry.make import make
from envweave.requests import NeedAction

FAILURES = ("infra_error", "policy_error")
"""How an episode ends if the environment or the policy fails."""


class PolicyError(Exception):
    """The policy raised; the text says what."""


def run(
    id: EnvName,
    policy: Annotated[
        str,
        typer.Option(help="`random`, or module:function or ./file.py:function, called with (observation, request)."),
    ] = "random",
    episodes: Annotated[int, typer.Option("-n", "--episodes", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="Episode i is reset with this seed plus i.")] = 0,
    max_steps: Annotated[int, typer.Option(min=1, help="Stop an episode after this many steps.")] = 1000,
    arg: Arguments = None,
    as_json: AsJSON = False,
) -> int:
    """Play episodes with a policy and print a summary; exit code 1 if one of them failed."""
    kwargs = keyword_arguments(arg)
    numbers = range(episodes)
    bar = track(numbers, id, console=Console(stderr=True), disable=as_json or not sys.stderr.isatty())
    with own_output(as_json), loaded_policy(policy, seed) as chosen:
        started = time.perf_counter()
        played = [_play(id, kwargs, chosen, seed + number, max_steps) for number in bar]
        seconds = time.perf_counter() - started
    summary = _summary(id, played, seconds)
    if as_json:
        print_json(summary)
    else:
        _show(summary)
    return int(any(episode.reason in FAILURES for episode in played))


@contextmanager
def loaded_policy(name: str, seed: int) -> Iterator[Policy]:
    """The policy of that name, which raises `PolicyError`. All calls of an `async def` run in one event loop."""
    if name == "random":
        yield random_policy(seed)
        return
    function = _function(name)
    from asyncio import Runner  # only for policies of the user

    with Runner() as runner:

        def policy(observation: Any, request: NeedAction) -> Any:
            try:
                action = function(observation, request)
                return runner.run(_awaited(action)) if inspect.isawaitable(action) else action
            except Exception as error:
                raise PolicyError(f"policy {name!r} raised {describe(error)}") from error

        yield policy


def _function(name: str) -> Callable[[Any, NeedAction], Any]:
    if ":" not in name:
        raise UsageError(f"no policy named {name!r}", "use `random`, module:function or ./file.py:function")
    found: Callable[[Any, NeedAction], Any] = load(name)
    if not callable(found) or isinstance(found, type):
        raise UsageError(f"policy {name!r} is not a function", "it is called with (observation, request)")
    try:
        inspect.signature(found).bind(None, None)
    except TypeError as error:
        raise UsageError(f"policy {name!r}: {error}", "it is called with (observation, request)") from None
    except ValueError:  # a signature that cannot be read
        pass
    return found


async def _awaited(action: Awaitable[Any]) -> Any:
    return await action


def _play(id: str, kwargs: dict[str, Any], policy: Policy, seed: int, max_steps: int) -> Rollout:
    """One episode in a new environment. A failure of the environment or the policy ends only this episode."""
    played = Rollout()
    try:
        with make(id, **kwargs) as env:
            played = rollout(env, policy, seed=seed, max_steps=max_steps)
    except EnvError as error:
        played.reason, played.error = "infra_error", error.message
    except PolicyError as error:
        played.reason, played.error = "policy_error", str(error)
    except InvalidActionError as error:
        played.reason, played.error = "policy_error", f"all actions were refused: {error.message}"
    return played


def _summary(id: str, played: list[Rollout], seconds: float) -> dict[str, Any]:
    steps = sum(episode.steps for episode in played)
    agents = sorted({agent for episode in played for agent in episode.returns})
    errors = Counter(episode.error for episode in played if episode.error)
    return {
        "id": id,
        "episodes": len(played),
        "steps": steps,
        "steps_per_second": round(steps / seconds, 1),
        "ends": dict(Counter(episode.reason for episode in played).most_common()),
        "returns": {agent: _spread([e.returns[agent] for e in played if agent in e.returns]) for agent in agents},
        "length": _spread([float(episode.steps) for episode in played]),
        "errors": dict(errors.most_common(5)),
    }


def _spread(values: list[float]) -> dict[str, float]:
    mean = sum(values) / len(values)
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1))
    return {"mean": mean, "std": deviation, "min": min(values), "max": max(values)}


def _show(summary: dict[str, Any]) -> None:
    table = Table("", "mean", "std", "min", "max", box=None, pad_edge=False, title=None)
    rows = {f"return {agent}": spread for agent, spread in summary["returns"].items()} | {"length": summary["length"]}
    for name, spread in rows.items():
        table.add_row(Text(name), *(f"{spread[key]:.3f}" for key in ("mean", "std", "min", "max")))
    out.print(table)
    ends = ", ".join(f"{reason} {count}" for reason, count in summary["ends"].items())
    out.print(
        f"{summary['episodes']} episodes ({ends}), {summary['steps']} steps, {summary['steps_per_second']:g}/s",
        markup=False,
    )
    for error, count in summary["errors"].items():
        out.print(f"{count}x {error}", markup=False)
