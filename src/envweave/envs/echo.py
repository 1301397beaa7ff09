"""Say something and hear it back: the environment that servers and clients are tried with."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from envweave.client.env_client import EnvClient
from envweave.core.environment import Environment
from envweave.types import Action, Observation, State


@dataclass
class EchoAction(Action):
    """Say `message`."""

    message: str


@dataclass
class EchoObservation(Observation):
    """What came back."""

    echoed_message: str
    message_length: int


class EchoEnvironment(Environment[EchoAction, EchoObservation]):
    """Gives each message back, with a tenth of its length as the reward. It never ends."""

    def __init__(self) -> None:
        self._state = State()

    def reset(self, *, episode_id: str | None = None) -> EchoObservation:  # type: ignore[override]  # no chance, no seed
        self._state = State(episode_id=episode_id or str(uuid4()))
        return EchoObservation("Echo environment ready!", 0, reward=0.0)

    def step(self, action: EchoAction) -> EchoObservation:
        self._state.step_count += 1
        message, step = action.message, self._state.step_count
        return EchoObservation(
            message, len(message), reward=len(message) / 10, metadata={"original_message": message, "step": step}
        )

    @property
    def state(self) -> State:
        return self._state


class EchoEnv(EnvClient[EchoAction, EchoObservation, State]):
    """The client that knows the echo environment's types."""
