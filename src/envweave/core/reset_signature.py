"""How the `reset` of a given environment is to be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from envweave.errors import UsageError

STANDARD = ("seed", "options", "episode_id")
"""What any driver may pass; an environment takes those it declares."""


class ResetSignature:
    """Turns what a driver passes into what the signature takes, without calling `reset` to find out.

    Options of the environment's own reach it by name, in its `options` dict (Gymnasium) or in `**options`. One that
    it cannot take is a `UsageError`. `seed` and `episode_id` are dropped where the signature does not take them: an
    environment without randomness needs no seed.
    """

    def __init__(self, reset: Callable[..., Any], seed: Callable[[int], Any] | None = None) -> None:
        function = getattr(reset, "__func__", None)
        parameters = _parameters_of_method(function) if inspect.isfunction(function) else _parameters(reset, 0)
        self._names, self._required, self._open = parameters
        self._seed_method = seed if not self._takes("seed") else None
        self.names_episode_id = "episode_id" in self._names
        """The environment wants to know the ID of each episode."""
        self.takes_task = self._takes("task")
        self.needs_task = "task" in self._required

    @property
    def takes_seed(self) -> bool:
        return self._takes("seed") or self._seed_method is not None

    def _takes(self, name: str) -> bool:
        return name in self._names or self._open

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments for one call. Raises `UsageError` for an option that has no place.

        A required `episode_id` or `task` may be missing: the caller adds it.
        """
        if not (given or self._required):
            return {}
        own = {name: value for name, value in given.items() if name not in STANDARD}
        options: dict[str, Any] | None = given.get("options")
        arguments: dict[str, Any] = {}
        if "options" in self._names:
            unnamed = {} if self._open else {key: own.pop(key) for key in list(own) if key not in self._names}
            if options is not None or unnamed:
                arguments["options"] = {**(options or {}), **unnamed}
        else:
            own = {**(options or {}), **own}
        unknown = [] if self._open else [key for key in own if key not in self._names]
        if unknown:
            takes = ", ".join(sorted(self._names - set(STANDARD))) or "none of its own"
            hint = f"this environment's options: {takes}"
            if unknown[0] == "task":
                hint = f"this environment has no tasks; its options: {takes}"
            raise UsageError(f"reset has no option {unknown[0]!r}", hint)
        arguments |= own
        for name in ("seed", "episode_id"):
            if given.get(name) is not None and self._takes(name):
                arguments[name] = given[name]
        arguments |= {name: None for name in ("seed", "options") if name in self._required and name not in arguments}
        missing = [name for name in self._required if name not in arguments and name not in ("episode_id", "task")]
        if missing:
            raise UsageError(f"reset needs {missing[0]!r}", f"env.reset({missing[0]}=…)")
        return arguments

    def prepare(self, seed: int | None) -> None:
        """Seed an environment of the old kind, which has a `seed` method instead of an argument."""
        if seed is not None and self._seed_method is not None:
            self._seed_method(seed)


class Parameters(NamedTuple):
    """What a signature takes by name, what it requires, and whether it takes anything else."""

    names: frozenset[str]
    required: tuple[str, ...]
    open: bool


@lru_cache(maxsize=1024)
def _parameters_of_method(function: Callable[..., Any]) -> Parameters:
    """Shared by all instances of a class: inspecting a signature costs more than many resets."""
    return _parameters(function, 1)


def _parameters(reset: Callable[..., Any], skip: int) -> Parameters:
    try:
        parameters = list(inspect.signature(reset).parameters.values())[skip:]
    except (TypeError, ValueError):  # a builtin: pass on whatever is given
        return Parameters(frozenset(), (), True)
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    required = tuple(p.name for p in named if p.default is p.empty)
    return Parameters(frozenset(p.name for p in named), required, any(p.kind is p.VAR_KEYWORD for p in parameters))
