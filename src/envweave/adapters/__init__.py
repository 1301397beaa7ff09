"""Environments for other frameworks, one framework per file. The error for a missing package says how to install it."""

from __future__ import annotations

from typing import Any

from envweave.core.lookup import load

_PETTINGZOO = "envweave.adapters.pettingzoo"


def as_parallel_env(env: Any) -> Any:
    """A handle on an environment whose agents act at the same time, as a PettingZoo `ParallelEnv`.

    Needs the extra `gym`.
    """
    return load(f"{_PETTINGZOO}:as_parallel_env", extra="gym")(env)


def as_aec_env(env: Any) -> Any:
    """A handle on an environment for several agents, as a PettingZoo `AECEnv`. Needs the extra `gym`."""
    return load(f"{_PETTINGZOO}:as_aec_env", extra="gym")(env)
