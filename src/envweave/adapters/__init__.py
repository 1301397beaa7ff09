"""Environments for other frameworks, one third party per file; what is missing is said with how to install it."""

from __future__ import annotations

from typing import Any

from envweave.core.lookup import load

_PETTINGZOO = "envweave.adapters.pettingzoo"


def as_parallel_env(env: Any) -> Any:
    """A handle whose agents act at once, as a PettingZoo `ParallelEnv`. Needs the extra `gym`."""
    return load(f"{_PETTINGZOO}:as_parallel_env", extra="gym")(env)


def as_aec_env(env: Any) -> Any:
    """A handle on an environment of several agents, as a PettingZoo `AECEnv`. Needs the extra `gym`."""
    return load(f"{_PETTINGZOO}:as_aec_env", extra="gym")(env)
