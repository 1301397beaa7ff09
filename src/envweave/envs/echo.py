"""Returns each message: an environment for trying out servers and clients."""

from __future__ import annotations

from dataclasses import dataclass

from envweave.client.env_client import EnvClient
from envweave.core.environment import Environment
from envweave.types import Action, Observation, State


@dataclass
class EchoAction(Action):
    """Say `message`."""

    message: str


@dataclass
class EchoObservation(Observation):
    """The message and its length."""

    echoed_message: str
    message_length: int


class EchoEnvironment(Environment[EchoAction, EchoObservation]):
    """Returns each message; the reward is a tenth of its length. The episode never ends."""

    _steps = 0

    def reset(self) -> EchoObservation:
        self._steps = 0
        return EchoObservation("Echo environment ready!", 0, reward=0.0)

    def step(self, action: EchoAction) -> EchoObservation:
        self._steps += 1
        message = action.message
        said = {"original_message": message, "step": self._steps}
        return EchoObservation(message, len(message), reward=len(message) / 10, metadata=said)


class EchoEnv(EnvClient[EchoAction, EchoObservation, State]):
    """The client that knows the echo environment's types."""
