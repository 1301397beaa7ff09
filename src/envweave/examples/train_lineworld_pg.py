"""Learn to walk along a line: tabular REINFORCE with a moving-average baseline, in one file.

    python -m envweave.examples.train_lineworld_pg --num-envs 16 --episodes 400

Expected with any seed: a success rate of at least 0.95 over the last 100 episodes, after about two seconds.
Writes runs/lineworld/<utc>/{config.json, metrics.jsonl, metrics.png, summary.json, checkpoint.json}.

With `--backend docker` the environments run in containers of the image that `envweave build lineworld` builds, or of
`--docker-image`, spread over `--containers` of them. With `--backend subprocess` they run in a server process.

`--resume DIR` continues from the last checkpoint of that run; unfinished episodes begin again.
Exit codes: 0 success, 1 the environment failed, 2 usage, 130 stopped by Ctrl-C (checkpoint and summary are written).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import envweave as ew
from envweave.examples import runs

try:
    import numpy as np
    from numpy.typing import NDArray
except ModuleNotFoundError:
    missing = ew.errors.UnavailableError("'numpy' is not installed", "pip install 'envweave[train]'")
    if __name__ != "__main__":
        raise missing from None
    print(missing, file=sys.stderr)
    raise SystemExit(2) from None

Walk: TypeAlias = list[tuple[int, int, float]]  # cell, way (0 left, 1 right), reward

KEEP = 0.95  # of the baseline, at each episode
FIXED = ("seed", "num_envs", "lr", "gamma", "size", "max_steps", "window")  # what a resumed run cannot change
NUMBERS: dict[str, tuple[float | None, float, float, str]] = {  # default, lowest, highest
    "--seed": (0, 0, 2**32, "of the policy and the environments"),
    "--num-envs": (16, 1, 10_000, "number of environments"),
    "--episodes": (400, 0, 10**7, "number of episodes; 0 runs until the target is reached"),
    "--max-episodes": (10_000, 1, 10**7, "maximum with --episodes 0"),
    "--window": (100, 1, 10**6, "episodes over which rate and average are computed"),
    "--min-episodes": (100, 0, 10**7, "minimum before the target ends the run"),
    "--target-success-rate": (None, 0.0, 1.0, "ends the run"),
    "--log-every": (50, 1, 10**7, "episodes between lines and checkpoints"),
    "--lr": (0.25, 1e-6, 100.0, "learning rate"),
    "--gamma": (0.99, 0.0, 1.0, "discount"),
    "--size": (5, 1, 1000, "steps from the start to a goal"),
    "--max-steps": (0, 0, 10**6, "steps in an episode; 0 for four times the size"),
    "--containers": (None, 1, 1000, "number of containers; default: as many as needed"),
}
BACKENDS = ("inproc", "thread", "subprocess", "docker", "docker_http", "kubernetes")


@dataclass
class Run:
    """What a checkpoint holds, where it is kept, and the metrics of each episode so far."""

    folder: Path
    options: argparse.Namespace
    rng: np.random.Generator
    logits: NDArray[np.float64]  # left and right, for each cell and goal
    baseline: float
    failed: int  # rows without a reward, because an environment failed
    since: float  # when it would have begun, had it never been interrupted
    rows: list[dict[str, Any]]


def train(run: Run, progress: Progress) -> None:
    """Walk and learn until there are as many episodes as asked for, or the target is reached."""
    options = run.options
    limit = options.episodes or options.max_episodes
    bar = progress.add_task("walking", total=limit, completed=len(run.rows), note="")
    line = {"size": options.size, "max_steps": options.max_steps or None}
    where = {"backend": options.backend, "docker_image": options.docker_image, "containers": options.containers}
    with ew.make_vector("lineworld", options.num_envs, autoreset=True, **where, **line) as vector:
        for walk, success in finished_walks(run, vector, 0 if reached(run) else limit - len(run.rows)):
            learn(run, walk)
            record(run, walk, success)
            progress.update(bar, advance=1, note=note(run))
            if len(run.rows) % options.log_every == 0:
                save(run)
                progress.console.print(f"episode {len(run.rows):>5}  {note(run)}", highlight=False)
            if reached(run):
                break


def finished_walks(run: Run, vector: ew.VectorEnv, left: int) -> Iterator[tuple[Walk, bool]]:
    """Each walk as it ends, and whether it got there. Only as many begin as will count, so the slow ones count too."""
    seeds = run.rng.integers(2**31, size=vector.num_envs).tolist()
    seen = dict(enumerate(vector.reset(seed=seeds).obs))
    walks: dict[int, Walk] = {id: [] for id in range(min(vector.num_envs, left))}
    left -= len(walks)
    while walks:
        ids = list(walks)
        cells = [cell(seen[id], run.options.size) for id in ids]
        ways = (run.rng.random(len(ids)) < chances(run, cells)[:, 1]).astype(int).tolist()
        batch = vector.step([{"move": (-1, 1)[way]} for way in ways], ids)
        for id, at, way, result in zip(ids, cells, ways, batch.results, strict=True):
            seen[id] = next_obs(result)
            if result.reward is None:  # it failed: this walk has no score and begins anew
                count_failure(run, result)
                walks[id] = []
                continue
            walks[id].append((at, way, result.reward))
            if result.done:
                yield walks.pop(id), result.terminated
                if left:
                    left -= 1
                    walks[id] = []


def next_obs(result: ew.StepResult[Any]) -> Any:
    """What to act on next: the result keeps the last observation, the first of the next episode is in a request."""
    ready = (request.initial_obs for request in result.requests if isinstance(request, ew.AutoresetReady))
    return next(ready, result.obs)


def count_failure(run: Run, result: ew.StepResult[Any]) -> None:
    run.failed += 1
    if run.failed > 100 + len(run.rows):
        reason = result.info.get("error", {}).get("message", "no reward")
        raise ew.EnvError(f"lineworld failed {run.failed} times: {reason}", f"mend it and --resume {run.folder}")


def cell(obs: Any, size: int) -> int:
    """The line of the table for a position and a goal; all positions beyond an end are one."""
    if obs is None:  # it could not begin an episode yet; the next step tries again, whatever the action
        return 0
    pos, goal = (obs["pos"], obs["goal"]) if isinstance(obs, dict) else (obs.pos, obs.goal)  # from a server, plain data
    return int(goal > 0) * (2 * size + 1) + int(np.clip(pos, -size, size)) + size


def chances(run: Run, cells: list[int]) -> NDArray[np.float64]:
    powers = np.exp(run.logits[cells] - run.logits[cells].max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def learn(run: Run, walk: Walk) -> None:
    """REINFORCE: make what was done likelier by how much better than the baseline it went on from there."""
    cells, ways, rewards = (list(column) for column in zip(*walk, strict=True))
    returns = np.array(rewards)
    for at in reversed(range(len(walk) - 1)):
        returns[at] += run.options.gamma * returns[at + 1]
    visits = np.bincount(cells)[cells]  # a cell counts once a walk, or wandering to and fro would drown all else
    gradient = np.eye(2)[ways] - chances(run, cells)
    np.add.at(run.logits, cells, run.options.lr * ((returns - run.baseline) / visits)[:, None] * gradient)
    run.baseline = float(KEEP * run.baseline + (1 - KEEP) * returns[0])


def record(run: Run, walk: Walk, success: bool) -> None:
    rewards = [reward for _, _, reward in walk]
    row = {"episode": len(run.rows) + 1, "return": sum(rewards), "success": success, "length": len(rewards)}
    window = [*run.rows[-run.options.window :], row][-run.options.window :]
    row["avg_return"] = sum(one["return"] for one in window) / len(window)
    row["success_rate"] = sum(one["success"] for one in window) / len(window)
    row |= {"baseline": run.baseline, "elapsed_s": round(time.monotonic() - run.since, 4)}
    runs.append(run.folder / "metrics.jsonl", row)
    run.rows.append(row)


def reached(run: Run) -> bool:
    target = run.options.target_success_rate
    enough = len(run.rows) >= max(run.options.min_episodes, 1)
    return target is not None and enough and bool(run.rows[-1]["success_rate"] >= target)


def note(run: Run) -> str:
    return "success rate {success_rate:.2f}  return {avg_return:+.2f}".format(**run.rows[-1])


# The files of a run.


def begin(options: argparse.Namespace) -> Run:
    logits = np.zeros((2 * (2 * options.size + 1), 2))
    folder, rng = runs.new_folder(options, "lineworld"), np.random.default_rng(options.seed)
    run = Run(folder, options, rng, logits, 0.0, 0, time.monotonic(), [])
    save(run)
    return run


def resume(options: argparse.Namespace) -> Run:
    """The run as its checkpoint left it; metrics written after the checkpoint are cut off."""
    saved = runs.read(options.resume / "checkpoint.json")
    rng = np.random.default_rng()
    try:
        rng.bit_generator.state = saved["rng"]
        logits = np.array(saved["logits"], float).reshape(2 * (2 * options.size + 1), 2)
        since = time.monotonic() - saved["elapsed_s"]
        rows = runs.trim(options.resume / "metrics.jsonl", saved["episodes"])
        return Run(options.resume, options, rng, logits, float(saved["baseline"]), saved["failed"], since, rows)
    except (KeyError, TypeError, ValueError) as error:
        raise runs.cannot_resume(options.resume, f"damaged, {error!r}") from None


def save(run: Run) -> None:
    runs.write_config(run.folder, run.options)
    checkpoint = {"episodes": len(run.rows), "elapsed_s": time.monotonic() - run.since, "failed": run.failed}
    policy = {"baseline": run.baseline, "rng": run.rng.bit_generator.state, "logits": run.logits.tolist()}
    runs.write(run.folder / "checkpoint.json", checkpoint | policy)


def summary(run: Run, status: str) -> dict[str, Any]:
    last = run.rows[-1] if run.rows else {}
    return {
        "status": status,
        "episodes": len(run.rows),
        "success_rate": last.get("success_rate"),
        "avg_return": last.get("avg_return"),
        "baseline": run.baseline,
        "reached_target": None if run.options.target_success_rate is None else reached(run),
        "failed_rows": run.failed,
        "elapsed_s": last.get("elapsed_s", 0.0),
    }


# The command.


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options; of a resumed run its own, as far as they are not given anew. Raises `UsageError`."""
    parser = runs.Parser(__doc__, "lineworld", NUMBERS, FIXED)
    parser.add_argument("--backend", choices=BACKENDS, default="inproc", help="where the environments run (inproc)")
    parser.add_argument(
        "--docker-image", metavar="NAME", help="with containers: their image (envweave-lineworld:latest)"
    )
    options = parser.read(argv)
    if options.episodes == 0 and options.target_success_rate is None:
        raise ew.UsageError("--episodes 0 without a target would not end", "add --target-success-rate 0.95")
    if 0 < options.max_steps < options.size:
        raise ew.UsageError(f"no goal can be reached in {options.max_steps} steps", f"use at least {options.size}")
    return options


def drive(run: Run, console: Console) -> int:
    """Train, save, tell and plot. Ctrl-C ends the training and nothing else."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[note]}"))
    code = 0
    try:
        with Progress(*columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal) as progress:
            train(run, progress)
    except KeyboardInterrupt:
        code = 130
        runs.trim(run.folder / "metrics.jsonl", len(run.rows))
    save(run)
    status = "interrupted" if code else "finished"
    runs.write(run.folder / "summary.json", summary(run, status))
    if run.rows:
        told = f"{status}: {len(run.rows)} episodes in {run.rows[-1]['elapsed_s']:.1f} s  {note(run)}"
        told += "" if run.options.target_success_rate is None or reached(run) else "  target not reached"
        curve = runs.curve([row["success"] for row in run.rows], console)
        console.print(told, f"learning curve: {curve}", sep="\n", highlight=False)
        if run.options.plot and not code:
            keys = ("success_rate", "avg_return", "baseline", "length")
            runs.plot(run.folder / "metrics.png", run.rows, "episode", keys)
    console.print(f"run: {run.folder}", highlight=False, markup=False, soft_wrap=True)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Train as the flags say and return the exit code."""

    def run() -> int:
        options = parse(argv)
        return drive(begin(options) if options.resume is None else resume(options), Console())

    return runs.exit_code(run)


if __name__ == "__main__":
    sys.exit(main())
