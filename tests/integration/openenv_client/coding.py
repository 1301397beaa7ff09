"""OpenEnv's coding client, as its users have it, against a server of ours: `python coding.py URL` prints what it saw.

Its models have OpenEnv's fields and no others, and forbid extra ones. Nothing of envweave is imported here.
"""

import asyncio
import json
import sys

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, Observation, State
from pydantic import ConfigDict


class CodeAction(Action):
    model_config = ConfigDict(extra="forbid")
    code: str


class CodeObservation(Observation):
    model_config = ConfigDict(extra="forbid")
    stdout: str
    stderr: str
    exit_code: int


class CodeState(State):
    model_config = ConfigDict(extra="forbid")
    last_exit_code: int


class CodingEnv(EnvClient[CodeAction, CodeObservation, CodeState]):
    def _step_payload(self, action):
        return {"code": action.code}

    def _parse_result(self, payload):
        observation = CodeObservation(**payload["observation"])
        return StepResult(observation=observation, reward=payload.get("reward"), done=bool(payload.get("done", False)))

    def _parse_state(self, payload):
        return CodeState(**payload)


STEPS = (
    "print('Hello, World!')",
    "x = 5",
    "print(x); x + 1",
    "def double(n): return 2 * n",
    "double(x)",
    "print('before'); 1 / 0",
    "def f(:",
    "import os",
    "import os; os._exit(7)",
    "math.floor(1.5)",
    "x",
)


def shown(result):
    return {**result.observation.model_dump(), "reward": result.reward, "done": result.done}


def sync(url):
    with CodingEnv(base_url=url).sync() as env:
        first = shown(env.reset(seed=3, episode_id="mine"))
        steps = {code: shown(env.step(CodeAction(code=code))) for code in STEPS}
        state = env.state().model_dump()
        again = shown(env.reset())
        gone = shown(env.step(CodeAction(code="double")))
        later = env.state().model_dump()
        return {"reset": first, "steps": steps, "state": state, "again": again, "gone": gone, "later": later}


def together(url):
    async def play(number):
        async with CodingEnv(base_url=url) as env:
            await env.reset(seed=number)
            await env.step(CodeAction(code=f"mine = {number}"))
            seen = await env.step(CodeAction(code="print(mine, end='')"))
            return seen.observation.stdout

    async def all_of_them():
        return await asyncio.gather(*(play(number) for number in range(8)))

    return asyncio.run(all_of_them())


if __name__ == "__main__":
    address = sys.argv[1]
    print(json.dumps({"sync": sync(address), "together": together(address)}))
