"""How a given environment's `reset` wants to be called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from envweave.errors import UsageError

STANDARD = ("seed", "options", "episode_id")
"""What any driver may pass; an environment takes those it knows."""


class ResetCall:
    """Turns what a driver passes into what the signature takes. Never calls twice to find out.

    Options of the environment's own reach it by name, in its `options` dict (Gymnasium) or in `**options`. One that
    it cannot take is a `UsageError`, not silence. `seed` and `episode_id` are dropped where the signature has
    no place for them: an environment without chance needs no seed.
    """

    def __init__(self, reset: Callable[..., Any], seed: Callable[[int], Any] | None = None) -> None:
        function = getattr(reset, "__func__", None)
        shape = _shape_of_method(function) if inspect.isfunction(function) else _shape(reset, 0)
        self._names, self._required, self._open = shape
        self._seed_method = seed if not self._takes("seed") else None

    @property
    def takes_seed(self) -> bool:
        return self._takes("seed") or self._seed_method is not None

    def _takes(self, name: str) -> bool:
        return name in self._names or self._open

    def arguments(
        self, seed: int | None, options: dict[str, Any] | None, episode_id: str | None, own: dict[str, Any]
    ) -> dict[str, Any]:
        """The keyword arguments for one call. Raises `UsageError` for an option without a place."""
        if not (own or options or self._required) and seed is None and episode_id is None:
            return {}
        own = dict(own)
        arguments: dict[str, Any] = {}
        if "options" in self._names:
            strangers = {} if self._open else {key: own.pop(key) for key in list(own) if key not in self._names}
            if options is not None or strangers:
                arguments["options"] = {**(options or {}), **strangers}
        else:
            own = {**(options or {}), **own}
        unknown = [] if self._open else [key for key in own if key not in self._names]
        if unknown:
            takes = ", ".join(sorted(self._names - set(STANDARD))) or "none of its own"
            raise UsageError(f"reset has no option {unknown[0]!r}", f"this environment's options: {takes}")
        arguments |= own
        if seed is not None and self._takes("seed"):
            arguments["seed"] = seed
        if episode_id is not None and self._takes("episode_id"):
            arguments["episode_id"] = episode_id
        arguments |= {name: None for name in ("seed", "options") if name in self._required and name not in arguments}
        missing = [name for name in self._required if name not in arguments]
        if missing:
            raise UsageError(f"reset needs {missing[0]!r}", f"env.reset({missing[0]}=…)")
        return arguments

    def prepare(self, seed: int | None) -> None:
        """Seed an environment of the old kind, which has a `seed` method instead of an argument."""
        if seed is not None and self._seed_method is not None:
            self._seed_method(seed)


class Shape(NamedTuple):
    """What a signature takes by name, what it insists on, and whether it takes anything else."""

    names: frozenset[str]
    required: tuple[str, ...]
    open: bool


@lru_cache(maxsize=1024)
def _shape_of_method(function: Callable[..., Any]) -> Shape:
    """Of all instances of a class alike: looking costs more than many a reset."""
    return _shape(function, 1)


def _shape(reset: Callable[..., Any], skip: int) -> Shape:
    try:
        parameters = list(inspect.signature(reset).parameters.values())[skip:]
    except (TypeError, ValueError):  # a builtin: pass on whatever is given
        return Shape(frozenset(), (), True)
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    required = tuple(p.name for p in named if p.default is p.empty)
    return Shape(frozenset(p.name for p in named), required, any(p.kind is p.VAR_KEYWORD for p in parameters))
