"""`envweave run ID`: play episodes and summarize them."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from math import sqrt
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from envweave.cli.options import Arguments, AsJSON, EnvName, Record, keyword_arguments, out, own_output, print_json
from envweave.core.lookup import load
from envweave.errors import UsageError
from envweave.lm import LanguageModel
from envweave.registry.rollouts import rollout
from envweave.requests import DEFAULT_AGENT
from envweave.rollouts import Episode, RandomPolicy, Summary

POLICIES = "use `random`, openai:<model>, module:function or ./file.py:function"
SIGNATURES = "it is called with (observation), with (observation, request), or, if it is async, with (conversation)"


def run(
    id: EnvName,
    policy: Annotated[
        str,
        typer.Option(
            help="`random`; openai:<model>, at LLM_BASE_URL or OPENAI_BASE_URL; module:function or ./file.py:function, "
            "called with (observation, request), or with (conversation) if it is `async def`."
        ),
    ] = "random",
    episodes: Annotated[int, typer.Option("-n", "--episodes", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="Episode i is reset with this seed plus i.")] = 0,
    max_steps: Annotated[int, typer.Option(min=1, help="Stop an episode after this many steps.")] = 1000,
    at_once: Annotated[int, typer.Option(min=1, help="Episodes that run at the same time.")] = 1,
    record: Record = None,
    arg: Arguments = None,
    as_json: AsJSON = False,
) -> int:
    """Play episodes with a policy and print a summary; exit code 1 if one of them failed."""
    options: dict[str, Any] = {"at_once": at_once, "max_turns": max_steps, "seed": seed, "record": record}
    options |= {"group_size": 1, "retries": 0, "max_dead_groups": None}
    with own_output(as_json):
        chosen = loaded_policy(policy, seed)
        played = rollout(
            *(id, chosen, episodes),
            **options,
            env_options=keyword_arguments(arg),
            progress=False if as_json else None,
        )
        found = [episode for group in played for episode in group]
    summary = _summary(id, found, played.summary)
    if as_json:
        print_json(summary)
    else:
        _show(summary)
    return int(any(episode.failed for episode in found) or bool(played.summary.failures))


def loaded_policy(name: str, seed: int) -> Any:
    """The policy of that name. Raises `UsageError`."""
    if name == "random":
        return RandomPolicy(seed)
    kind, _, rest = name.partition(":")
    if kind == "openai":
        model = LanguageModel.from_environment(rest or None)
        if model is None:
            raise UsageError(f"no endpoint for the policy {name!r}", "set LLM_BASE_URL, OPENAI_BASE_URL or HF_TOKEN")
        return model
    return _function(name)


def _function(name: str) -> Callable[..., Any]:
    if ":" not in name:
        raise UsageError(f"no policy named {name!r}", POLICIES)
    found: Callable[..., Any] = load(name)
    if not callable(found) or isinstance(found, type):
        raise UsageError(f"policy {name!r} is not a function", SIGNATURES)
    try:
        signature = inspect.signature(found)
    except ValueError:  # a signature that cannot be read
        return found
    try:
        signature.bind(None, None)
    except TypeError as error:
        try:
            signature.bind(None)
        except TypeError:
            raise UsageError(f"policy {name!r}: {error}", SIGNATURES) from None
    return found


def _summary(id: str, played: list[Episode], totals: Summary) -> dict[str, Any]:
    agents = sorted({agent for episode in played for agent, value in _returns(episode).items() if value is not None})
    errors = Counter(episode.error.message for episode in played if episode.error is not None)
    return {
        "id": id,
        "episodes": len(played),
        "steps": totals.steps,
        "steps_per_second": round(totals.steps / totals.seconds, 1),
        "tokens": totals.tokens,
        "ends": dict(Counter(episode.end for episode in played).most_common()),
        "returns": {
            agent: _spread([value for e in played if (value := _returns(e).get(agent)) is not None]) for agent in agents
        },
        "length": _spread([float(episode.steps) for episode in played]),
        "failures": dict(totals.failures.most_common()),
        "errors": dict(errors.most_common(5)),
    }


def _returns(episode: Episode) -> dict[str, float | None]:
    return {DEFAULT_AGENT if agent is None else agent: value for agent, value in episode.returns.items()}


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
