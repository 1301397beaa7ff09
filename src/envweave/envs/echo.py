"""Say something and hear it back: the environment that servers and clients are tried with."""

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
    """What came back."""

    echoed_message: str
    message_length: int


class EchoEnvironment(Environment[EchoAction, EchoObservation]):
    """Gives each message back, with a tenth of its length as the reward. It never ends."""

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
