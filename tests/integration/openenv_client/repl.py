"""OpenEnv's REPL client, as its users have it, against a server of ours: `python repl.py URL TOKEN` prints what it saw.

Its models have OpenEnv's fields and no others, and forbid extra ones. Nothing of envweave is imported here.
"""

import asyncio
import json
import sys

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, ConfigDict, Field


class REPLAction(Action):
    model_config = ConfigDict(extra="forbid")
    code: str = ""
    is_final: bool = False
    final_answer: str | None = None


class CodeBlockResult(BaseModel):
    model_config = ConfigDict(extra="forbid")
    stdout: str = ""
    stderr: str = ""
    locals_snapshot: dict[str, str] = Field(default_factory=dict)
    execution_time: float = Field(default=0.0, ge=0)
    success: bool = True
    exception: str | None = None


class REPLObservation(Observation):
    model_config = ConfigDict(extra="forbid")
    result: CodeBlockResult = Field(default_factory=CodeBlockResult)
    context_preview: str | None = None
    context_length: int = Field(default=0, ge=0)
    available_variables: list[str] = Field(default_factory=list)
    iteration: int = Field(default=0, ge=0)
    max_iterations: int = Field(default=30, ge=1)


class REPLState(State):
    model_config = ConfigDict(extra="forbid")
    context: str | None = None
    task_prompt: str | None = None
    iteration: int = 0
    max_iterations: int = 30
    namespace_keys: list[str] = Field(default_factory=list)
    final_answer: str | None = None
    total_execution_time: float = 0.0


class REPLEnv(EnvClient[REPLAction, REPLObservation, REPLState]):
    def _step_payload(self, action):
        return {"code": action.code, "is_final": action.is_final, "final_answer": action.final_answer}

    def _parse_result(self, payload):
        fields = dict(payload["observation"])
        fields["result"] = CodeBlockResult(**fields["result"])
        fields.setdefault("metadata", {})
        observation = REPLObservation(**fields, done=payload["done"], reward=payload["reward"])
        return StepResult(observation=observation, reward=payload["reward"], done=bool(payload["done"]))

    def _parse_state(self, payload):
        return REPLState(**payload)


def shown(result):
    return {"observation": result.observation.model_dump(), "reward": result.reward, "done": result.done}


STEPS = ("count = len(context.split())", "print('before'); 1 / 0", "print(llm_query('hi'))", "print(FINAL(count))")


def play_sync(url, token):
    with REPLEnv(base_url=url).sync() as env:
        first = env.reset(
            context="alpha beta gamma",
            task_prompt="Count the words",
            seed=1,
            episode_id="mine",
            hf_token=token,
            llm_model="some/model",
            expected_answer="3",
            rlm_max_depth=2,
            rlm_max_iterations=5,
        )
        steps = [shown(env.step(REPLAction(code=code))) for code in STEPS]
        state = env.state().model_dump()
        env.reset(context="x")
        submitted = shown(env.step(REPLAction(is_final=True, final_answer="y")))
        return {"reset": shown(first), "steps": steps, "state": state, "submitted": submitted}


async def play_async(url):
    async with REPLEnv(base_url=url) as env:
        await env.reset(context="x")
        steps = [await env.step(REPLAction(code="answer['content'] = 'z'")) for _ in range(1)]
        steps.append(await env.step(REPLAction(code="answer['ready'] = True")))
        return [shown(step) for step in steps]


if __name__ == "__main__":
    url, token = sys.argv[1:]
    print(json.dumps({"sync": play_sync(url, token), "async": asyncio.run(play_async(url))}))
