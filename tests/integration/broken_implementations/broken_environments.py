"""Environments that work alone and break one promise each."""

import os
import random


class Sound:
    """Adds what it is told to a number that the seed draws."""

    def reset(self, *, seed=None):
        self.random = random.Random(seed)
        self.at = self.random.randrange(10**6)
        return self.at

    def step(self, action: int):
        self.at += action % 5
        return self.at, 1.0, self.random.random() < 0.1, False, {}


class IgnoresSeed(Sound):
    def reset(self, *, seed=None):
        return super().reset()


class SharesState(Sound):
    """All instances count together."""

    steps = [0]  # noqa: RUF012

    def reset(self, *, seed=None):
        self.steps[0] = 0
        return super().reset(seed=seed)

    def step(self, action: int):
        self.steps[0] += 1
        observation, *rest = super().step(action)
        return observation + 1000 * self.steps[0], *rest


class DependsOnTheProcess(Sound):
    def step(self, action: int):
        observation, *rest = super().step(action)
        return observation + os.getpid(), *rest


class SharesItsSnapshot(Sound):
    """Forgets to copy its random generator."""

    def snapshot(self):
        return self.at, self.random

    def restore(self, snapshot):
        self.at, self.random = snapshot
