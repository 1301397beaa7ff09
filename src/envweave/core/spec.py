"""`EnvSpec`: what is known of an environment before it is made."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from envweave.core.jsonable import to_json
from envweave.core.lookup import address, load
from envweave.errors import UsageError

_IMPORTED = ("factory", "action_type", "observation_type")
"""Fields that hold a Python object, and `module:name` in JSON."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EnvSpec:
    """How to make an environment. `from_json(spec.to_json())` is an equal spec."""

    id: str
    factory: Any = None
    """A callable, or `module:name` of one, imported when it is needed; so are the two types below."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    description: str = ""
    action_type: Any = None
    observation_type: Any = None
    deadline: float | None = None
    """Seconds an agent has for an action."""
    max_episode_steps: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    source: str = "local"
    """Which resolver or distribution it came from."""
    url: str = ""
    """Where it runs already: such an environment is connected to, not built."""
    image: str = ""
    """The container image that serves it."""
    backend: str = ""
    """Where it runs unless `make` is told otherwise; empty is in this process."""

    def __post_init__(self) -> None:
        if not (self.factory is None or callable(self.factory) or isinstance(self.factory, str)):
            kind = type(self.factory).__name__
            raise UsageError(f"the factory of {self.id!r} is a {kind}, not a callable", "pass the class, or a lambda")
        if not (self.max_episode_steps is None or _positive(self.max_episode_steps, int)):
            raise UsageError(f"max_episode_steps is {self.max_episode_steps!r}", "use a positive number, or None")
        if not (self.deadline is None or _positive(self.deadline, int | float)):
            raise UsageError(f"deadline is {self.deadline!r}", "use a positive number of seconds, or None")
        for name in ("kwargs", "metadata"):
            if not isinstance(getattr(self, name), dict):
                raise UsageError(f"{name} of {self.id!r} is {getattr(self, name)!r}", "use a dict")

    def loaded(self) -> Callable[..., Any]:
        """The factory itself. Raises `UsageError` for a spec that came from JSON without one."""
        if self.url or self.image:
            raise UsageError(f"{self.id} runs on a server and is not built here", "use it by the ID of its environment")
        factory: Callable[..., Any] | None = load(self.factory) if isinstance(self.factory, str) else self.factory
        if factory is None:
            hint = "a lambda cannot be written to JSON: register the environment here, or use 'module:name'"
            raise UsageError(f"the spec of {self.id!r} has no factory", hint)
        return factory

    def limited(self, deadline: float | None, max_episode_steps: int | None) -> EnvSpec:
        """With these limits, where they are given."""
        given: dict[str, Any] = {"deadline": deadline, "max_episode_steps": max_episode_steps}
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EnvSpec) and self._addressed() == other._addressed()

    __hash__ = None  # type: ignore[assignment]

    def _addressed(self) -> dict[str, Any]:
        """All fields, with `module:name` in place of what can be imported by it."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        return data | {name: address(data[name]) or data[name] for name in _IMPORTED}

    def to_data(self) -> dict[str, Any]:
        """The spec as JSON data. A factory or type that cannot be imported again becomes None."""
        data = self._addressed()
        data |= {name: None for name in _IMPORTED if not isinstance(data[name], str)}
        return {key: to_json(value, where=f"{self.id}.{key}") for key, value in data.items()}

    def to_json(self) -> str:
        return json.dumps(self.to_data())

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> EnvSpec:
        """Fields that this version does not know are left out."""
        return cls(**{f.name: data[f.name] for f in fields(cls) if f.name in data})

    @classmethod
    def from_json(cls, text: str) -> EnvSpec:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"not the JSON of a spec: {error}") from None
        if not isinstance(data, dict) or not isinstance(data.get("id"), str):
            raise UsageError("not the JSON of a spec: it has no `id`")
        return cls.from_data(data)


def _positive(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and value > 0
