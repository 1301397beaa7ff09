"""A tour of envweave in fifteen seconds: `make demo`, or `python -m envweave.examples.demo`.

It drives an environment and prints its requests, plays a two-player game, and runs a short training.
"""

from __future__ import annotations

from random import Random
from typing import Any

from rich.console import Console

import envweave as ew
from envweave.examples import train_lineworld_pg

out = Console(highlight=False, soft_wrap=True)


def main() -> int:
    drive_a_counter()
    play_nim()
    out.rule("a training run: 16 environments, REINFORCE with numpy")
    return train_lineworld_pg.main(["--num-envs", "16", "--episodes", "400"])


def drive_a_counter() -> None:
    out.rule('env = ew.make("counter", autoreset=True)')
    with ew.make("counter", autoreset=True) as env:
        tell("reset()", env.reset())
        for delta in (1, 2, 1):
            tell(f"step({{'delta': {delta}}})", env.step({"delta": delta}))
        try:
            env.step({"delta": "three"})
        except ew.InvalidActionError as error:
            out.print(f"step({{'delta': 'three'}})\n    refused: {error.message}")


def play_nim() -> None:
    out.rule('env = ew.make("nim")')
    random = Random(3)
    with ew.make("nim") as env:
        result: Any = env.reset(seed=1)
        while not result.done:
            (player,) = (request.agent_id for request in env.pending if isinstance(request, ew.NeedAction))
            heaps = result.obs[player].heaps
            heap = random.choice([number for number, stones in enumerate(heaps) if stones])
            move = {player: {"heap": heap, "count": random.randint(1, heaps[heap])}}
            tell(f"heaps {heaps}, step({move})", result := env.step(move))
        out.print(f"    {max(result.reward, key=result.reward.get)} wins")


def tell(call: str, result: Any) -> None:
    """Print a call, its result and its requests."""
    out.print(f"{call} -> reward {result.reward}, done {result.done}", markup=False)
    for request in result.requests:
        match request:
            case ew.NeedAction(agent_id=agent):
                out.print(f"    need_action      from {agent}")
            case ew.EpisodeEnd(reason=reason, episode_id=episode):
                out.print(f"    episode_end      {reason} ({episode})")
            case ew.AutoresetReady(initial_obs=observation, episode_id=episode):
                out.print(f"    autoreset_ready  {observation} ({episode})", markup=False)
            case _:
                out.print(f"    {request.kind}")


if __name__ == "__main__":
    raise SystemExit(main())
