"""OpenEnv's server with the echo environment of its template, as `openenv init` writes it.

Runs in a process of its own: `python -m uvicorn openenv_echo:app --app-dir …`.
"""
# mypy: ignore-errors

from typing import Any
from uuid import uuid4

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class OpenEnvEchoAction(Action):
    """Say `message`."""

    message: str


class OpenEnvEchoObservation(Observation):
    """What came back."""

    echoed_message: str = ""
    message_length: int = 0


class OpenEnvEchoEnvironment(Environment):
    """Returns each message. The reward is a tenth of its length, at most 1."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        self._state = State(episode_id=str(uuid4()), step_count=0)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> OpenEnvEchoObservation:
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        return OpenEnvEchoObservation(
            echoed_message="Echo environment ready!", message_length=0, done=False, reward=0.0
        )

    def step(self, action: OpenEnvEchoAction) -> OpenEnvEchoObservation:
        self._state.step_count += 1
        message, length = action.message, len(action.message)
        return OpenEnvEchoObservation(
            echoed_message=message,
            message_length=length,
            done=False,
            reward=min(length * 0.1, 1.0),
            metadata={"original_message": message, "step": self._state.step_count},
        )

    @property
    def state(self) -> State:
        return self._state


app = create_app(
    OpenEnvEchoEnvironment, OpenEnvEchoAction, OpenEnvEchoObservation, env_name="echo", max_concurrent_envs=4000
)
