"""Environments as their authors write them for OpenEnv; nothing of envweave is imported."""

import asyncio
import os
import threading

from openenv.core.env_server import Action, Environment, Observation, State
from openenv.core.env_server.interfaces import Transform
from pydantic import Field


class Say(Action):
    message: str


class Heard(Observation):
    echoed_message: str
    loops: bool = False


class Story(State):
    messages: list[str] = Field(default_factory=list)


class Raise(Transform):
    """Adds 1 to the reward, so that applying it twice would show."""

    def __call__(self, observation):
        observation.reward = (observation.reward or 0.0) + 1
        return observation


class SyncEnvironment(Environment[Say, Heard, Story]):
    """Repeats what it hears."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__(transform=Raise())
        self._threads = {threading.current_thread().ident}
        self._story = Story()

    def reset(self, seed=None, episode_id=None, greeting="ready", **kwargs):
        self._threads.add(threading.current_thread().ident)
        self._story = Story(episode_id=episode_id or f"seed-{seed}", step_count=0)
        return self._heard(greeting, reward=0.0)

    def step(self, action: Say, timeout_s: float | None = None, **kwargs) -> Heard:
        self._threads.add(threading.current_thread().ident)
        self._story.step_count += 1
        self._story.messages.append(action.message)
        heard = self._heard(action.message, reward=len(action.message) / 10, done=action.message == "stop")
        heard.metadata = {"step": self._story.step_count, "threads": len(self._threads)}
        return self._apply_transform(heard)

    def _heard(self, text, **fields):
        return Heard(echoed_message=text, loops=_on_a_loop(), **fields)

    @property
    def state(self):
        return self._story

    def close(self):
        self._threads.add(threading.current_thread().ident)
        if "CLOSED_FILE" in os.environ:
            with open(os.environ["CLOSED_FILE"], "a") as file:
                file.write(f"{len(self._threads)}\n")


class AwaitingEnvironment(SyncEnvironment):
    """Its async members are overridden; the sync ones are there because they have to be."""

    async def reset_async(self, seed=None, episode_id=None, greeting="ready", **kwargs):
        await asyncio.sleep(0)
        return super().reset(seed, episode_id, greeting)

    async def step_async(self, action: Say, timeout_s=None, **kwargs) -> Heard:
        await asyncio.sleep(0)
        return super().step(action)

    def reset(self, seed=None, episode_id=None, **kwargs):
        raise NotImplementedError("use reset_async")

    def step(self, action, timeout_s=None, **kwargs):
        raise NotImplementedError("use step_async")


class HalfAwaitingEnvironment(SyncEnvironment):
    """Only its step is async."""

    async def step_async(self, action: Say, timeout_s=None, **kwargs) -> Heard:
        await asyncio.sleep(0)
        return super().step(action)


class OneThreadEnvironment(SyncEnvironment):
    """Holds something like a browser, which only the thread that made it may touch."""

    REQUIRES_SINGLE_THREAD_EXECUTOR = True


class LonelyEnvironment(SyncEnvironment):
    """Does not say that it takes several sessions: one at a time."""

    SUPPORTS_CONCURRENT_SESSIONS = False


def _on_a_loop():
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
