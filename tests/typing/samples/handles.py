"""What a user of environments writes. Lines that end in `# error` must be refused, all others must pass."""

from functools import partial
from typing import assert_type

import envweave as ew
from envweave.client import EnvClient, HTTPEnvClient
from envweave.core.handle import AsyncEnvHandle
from envweave.envs.lineworld import LineWorldEnv, Move, Position
from envweave.envs.nim import NimEnv, Take
from envweave.vector.aio import AsyncVectorEnv
from envweave.vector.base import VectorEnv


class Clock(ew.AsyncEnvironment[Move, Position]):
    async def reset(self) -> Position:
        return Position(0, 1, 0)

    async def step(self, action: Move) -> Position:
        return Position(action.move, 1, 1)


class Team(NimEnv):
    pass


class Sub(LineWorldEnv):
    """A subclass has the types of its base."""


def factory(size: int = 3) -> LineWorldEnv:
    return LineWorldEnv(size=size)


def general_factory() -> ew.Environment[Move, Position]:
    return LineWorldEnv()


def use(env: ew.EnvHandle[Move, Position]) -> None:
    """Functions name the type with two arguments."""
    assert_type(env.reset().obs, Position)


# A class, a factory, an instance.

env = ew.make(LineWorldEnv, size=3)
assert_type(env, ew.EnvHandle[Move, Position])
assert_type(ew.make(Sub), ew.EnvHandle[Move, Position])
assert_type(ew.make(Clock), ew.EnvHandle[Move, Position])
assert_type(ew.make(factory, size=3), ew.EnvHandle[Move, Position])
assert_type(ew.make(general_factory), ew.EnvHandle[Move, Position])
assert_type(ew.make(lambda: LineWorldEnv(size=2)), ew.EnvHandle[Move, Position])
assert_type(ew.make(partial(LineWorldEnv, size=2)), ew.EnvHandle[Move, Position])
assert_type(ew.make(LineWorldEnv()), ew.EnvHandle[Move, Position])
assert_type(ew.adapt(LineWorldEnv()), ew.EnvHandle[Move, Position])
assert_type(ew.adapt(Clock(), autoreset=True), ew.EnvHandle[Move, Position])
use(env)
use(ew.make("lineworld"))
with env as entered:
    assert_type(entered, ew.EnvHandle[Move, Position])

# What comes back.

reset = env.reset(seed=1)
assert_type(reset.obs, Position)
assert_type(reset.observation.goal, int)
result = env.step(Move(1))
assert_type(result, ew.StepResult[Position])
assert_type(result.obs, Position)
assert_type(result.reward, float | None)
assert_type(result.terminated, bool)
assert_type(result.truncated, bool)
assert_type(result.done, bool)
assert_type(env.fork(), ew.EnvHandle[Move, Position])
assert_type(env.fork().step(Move(1)).obs, Position)
assert_type(env.respond("1", None).obs, Position)
assert_type(env.with_middleware(), ew.EnvHandle[Move, Position])
reset.obs.position  # error
result.reward + 1.0  # error

# What goes in.

env.step(Move(1))
env.step({"move": 1})
env.step(42)  # error
env.step("right")  # error
env.step(Take(0, 1))  # error
env.step(Move)  # error
env.step()  # error
env.step(Move("left"))  # error
ew.make(Clock).step(42)  # error
ew.make(factory).step(Take(0, 1))  # error
ew.adapt(LineWorldEnv()).step(42)  # error
ew.make(LineWorldEnv, deadline="soon")  # error

# Vectors.

envs = ew.make_vector(LineWorldEnv, 64)
assert_type(envs, VectorEnv[Move, Position])
assert_type(ew.make_vector(factory, 2, backend="thread"), VectorEnv[Move, Position])
assert_type(ew.make_vector([LineWorldEnv, Sub]), VectorEnv[Move, Position])
assert_type(envs.reset().obs, list[Position])
assert_type(envs.step([Move(1), {"move": 1}]).obs, list[Position])
assert_type(envs.step({3: Move(1)}).obs, list[Position])
assert_type(envs.recv().obs, list[Position])
assert_type(envs.step([Move(1)]).reward, list[float | None])
assert_type(envs.step([Move(1)]).terminated, list[bool])
assert_type(envs.fork(0), ew.EnvHandle[Move, Position])
envs.step([42])  # error
envs.step([Move(1), Take(0, 1)])  # error
envs.send([42], ids=[0])  # error


# Awaited.


async def awaited() -> None:
    async with env.aio as handle:
        assert_type(handle, AsyncEnvHandle[Move, Position])
        assert_type((await handle.reset()).obs, Position)
        assert_type((await handle.step(Move(1))).reward, float | None)
        assert_type(await handle.fork(), AsyncEnvHandle[Move, Position])
        assert_type(handle.sync, ew.EnvHandle[Move, Position])
        await handle.step({"move": 1})
        await handle.step(42)  # error
    made = await ew.aio.make(LineWorldEnv, size=3)
    assert_type(made, AsyncEnvHandle[Move, Position])
    await made.step(Take(0, 1))  # error
    vector = await ew.aio.make_vector(LineWorldEnv, 8)
    assert_type(vector, AsyncVectorEnv[Move, Position])
    assert_type((await vector.reset()).obs, list[Position])
    assert_type((await envs.aio.step([Move(1)])).obs, list[Position])
    await vector.step([42])  # error
    anything = await ew.aio.make("nim")
    (await anything.step({"alice": Take(0, 1)})).reward["alice"] + 1.0


# IDs say nothing about types.

game = ew.make("nim")
game.step({"alice": Take(0, 1)}).reward["alice"] + 1.0
game.step(42).terminated["__all__"]
game.reset().obs.whatever
ew.make("http://localhost:8000", token="t", observation_type=Position).step(1).obs.pos
ew.connect("ws://localhost:8000").step(1).obs.pos
ew.make_vector("nim", 2).step([1, 2]).reward[0]["alice"]
ew.make_vector(["nim", LineWorldEnv]).step([1, 2])
ew.make(ew.spec("nim")).step(1).obs.whatever

# Several agents.

nim = ew.make(NimEnv)
nim.step({"alice": Take(0, 1)}).reward["alice"] + 1.0
nim.reset().obs["alice"].heaps
ew.make(Team()).step({"alice": Take(0, 1)}).terminated["__all__"]
ew.adapt(NimEnv()).step({"alice": Take(0, 1)}).reward["alice"] + 1.0
ew.make_vector(NimEnv, 2).step([{"alice": Take(0, 1)}]).reward[0]["alice"] + 1.0


# Clients.


class Walk(EnvClient[Move, Position]):
    pass


class Tracked(EnvClient[Move, Position, ew.State]):
    pass


assert_type(Walk().step(Move(1)).obs, Position)
assert_type(Walk().step(Move(1)).reward, float | None)
assert_type(Tracked("http://localhost:8000").state(), ew.State)
assert_type(Tracked().fork(), Tracked)
assert_type(HTTPEnvClient[Move, Position]("http://localhost:8000").step({"move": 1}).obs, Position)
assert_type(EnvClient("http://localhost:8000", observation_type=Position).reset().obs, Position)
Walk().step(42)  # error
Tracked().state().nothing  # error
