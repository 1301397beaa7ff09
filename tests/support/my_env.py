"""An environment and its client as a user of EnvTorch's document writes them: `reset` takes nothing, and so on."""

import time
import uuid
from dataclasses import dataclass
from typing import Any

import envweave as ew
from envweave.client import HTTPEnvClient


@dataclass
class MyAction(ew.Action):
    message: str


@dataclass
class MyObservation(ew.Observation):
    response: str


class MyEnvironment(ew.Environment[MyAction, MyObservation]):
    """As the document says how to write one: `reset` takes nothing, and the state has an id of its own."""

    def __init__(self) -> None:
        self._state = ew.State()

    def reset(self) -> MyObservation:
        self._state = ew.State(episode_id=str(uuid.uuid4()), step_count=0)
        return MyObservation(response="ready")

    def step(self, action: MyAction) -> MyObservation:
        self._state.step_count += 1
        return MyObservation(response=action.message.upper(), reward=1.0, done=action.message == "stop")

    @property
    def state(self) -> ew.State:
        return self._state


class MyEnv(HTTPEnvClient[MyAction, MyObservation]):
    """A typed client with two parameters, and the three methods that the document has authors write."""

    def _step_payload(self, action: MyAction) -> dict[str, Any]:
        return {"message": action.message}

    def _parse_result(self, payload: dict[str, Any]) -> ew.StepResult[MyObservation]:
        observation = MyObservation(response=payload["observation"]["response"])
        reward, done = payload.get("reward"), payload.get("done", False)
        return ew.StepResult(observation=observation, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> ew.State:
        return ew.State(episode_id=payload.get("episode_id"), step_count=payload.get("step_count", 0))


class Slow(MyEnvironment):
    def step(self, action: MyAction) -> MyObservation:
        time.sleep(0.01)
        return super().step(action)
