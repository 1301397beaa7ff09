"""Environments whose step takes a second."""

from __future__ import annotations

import asyncio
import time

from envweave.core.environment import AsyncEnvironment, Environment

SECONDS = 1.0


class SlowEnv(Environment[dict[str, str], dict[str, bool]]):
    """Blocks its thread."""

    def reset(self, *, seed: int | None = None) -> dict[str, bool]:
        return {"slept": False}

    def step(self, action: dict[str, str]) -> dict[str, bool]:
        time.sleep(SECONDS)
        return {"slept": True}


class SlowAsyncEnv(AsyncEnvironment[dict[str, str], dict[str, bool]]):
    """Does not block its loop."""

    async def reset(self, *, seed: int | None = None) -> dict[str, bool]:
        return {"slept": False}

    async def step(self, action: dict[str, str]) -> dict[str, bool]:
        await asyncio.sleep(SECONDS)
        return {"slept": True}
