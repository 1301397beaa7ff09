"""A server of OpenEnv's own making, for our client to talk to. Prints its port, then serves until it is stopped.

PEER_SESSIONS is how many sessions it takes.
"""

import os
import socket
import sys
import time

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_app


class Say(Action):
    message: str


class Heard(Observation):
    echoed_message: str
    message_length: int


class PeerEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State()

    def reset(self, seed=None, episode_id=None, greeting="ready", **kwargs):
        if greeting == "boom":
            raise RuntimeError("no reset today")
        self._state = State(episode_id=episode_id or f"seed-{seed}", step_count=0)
        return Heard(echoed_message=greeting, message_length=0, reward=0.0)

    def step(self, action, timeout_s=None, **kwargs):
        self._state.step_count += 1
        if action.message == "boom":
            raise RuntimeError("the environment fell over")
        if action.message == "exit":
            os._exit(3)
        if action.message.startswith("sleep "):
            time.sleep(float(action.message.split()[1]))
        return Heard(
            echoed_message=action.message,
            message_length=len(action.message),
            reward=len(action.message) / 10,
            done=action.message in ("stop", "cut"),
            metadata={"step": self._state.step_count, "truncated": action.message == "cut"},
        )

    @property
    def state(self):
        return self._state


def main():
    app = create_app(
        PeerEnvironment, Say, Heard, env_name="peer", max_concurrent_envs=int(os.environ.get("PEER_SESSIONS", "64"))
    )
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


if __name__ == "__main__":
    sys.exit(main())
