"""Gymnasium spaces for data that has a type or a JSON Schema and is no array."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from random import Random
from typing import Any

from gymnasium import spaces

from envweave.core.jsonable import to_json
from envweave.core.sample import sample
from envweave.core.schema import json_schema
from envweave.errors import NotJSONableError, UnsupportedError
from envweave.types import Observation

_OURS = frozenset(field.name for field in dataclasses.fields(Observation))
"""What `Observation` carries for the framework; Gymnasium and PettingZoo have other places for it."""


class SchemaSpace(spaces.Space[Any]):
    """The values that fit a JSON Schema; without a schema all values, and nothing to draw from."""

    def __init__(self, schema: dict[str, Any] | None, seed: int | None = None) -> None:
        self.schema = schema
        self._random = Random()
        super().__init__(seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def seed(self, seed: int | None = None) -> Any:
        number = super().seed(seed)
        self._random.seed(number)
        return number

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> Any:
        """A value as JSON data. Raises `UnsupportedError` where there is nothing to draw from, and for a mask."""
        if mask is not None or probability is not None:
            raise UnsupportedError(f"{self} takes no mask", "draw until the environment takes the action")
        return sample(self.schema, self._random)

    def contains(self, x: Any) -> bool:
        """True for JSON data that fits, and for an object whose JSON form does."""
        try:
            return self.schema is None or _fits(to_json(x), self.schema, self.schema)
        except (NotJSONableError, TypeError):  # TypeError: a keyword for texts or lists, and a number
            return False

    def to_jsonable(self, sample_n: Any) -> list[Any]:
        return [to_json(one) for one in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaSpace) and self.schema == other.schema

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SchemaSpace({(self.schema or {}).get('title', self.schema)!r})"


def plain(observation: Any) -> Any:
    """A dataclass or a model as a dict of its fields, without those of `Observation`; anything else as it is."""
    if dataclasses.is_dataclass(observation) and not isinstance(observation, type):
        data = dataclasses.asdict(observation)
    elif callable(dump := getattr(observation, "model_dump", None)):
        data = dump(by_alias=True)
    else:
        return observation
    ours = _OURS if isinstance(observation, Observation) else ()
    return {name: value for name, value in data.items() if name not in ours}


def observation_space(type_: Any) -> spaces.Space[Any]:
    """The space of what `plain` makes of observations of a type: a `Dict` by field where it has fields."""
    schema = None if type_ is None else json_schema(type_)
    has_fields = dataclasses.is_dataclass(type_) or hasattr(type_, "model_fields")
    if schema is None or not has_fields or "properties" not in schema:
        return SchemaSpace(schema)
    ours = _OURS if issubclass(type_, Observation) else ()
    shared = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    fields = {name: part for name, part in schema["properties"].items() if name not in ours}
    return spaces.Dict({name: SchemaSpace({**part, **shared}) for name, part in fields.items()})


def _fits(value: Any, schema: Any, root: dict[str, Any]) -> bool:
    """Whether JSON data fits; a keyword that is not known here forbids nothing."""
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return _fits(value, target, root)
    if not all(check(value, schema[keyword]) for keyword, check in _CHECKS.items() if keyword in schema):
        return False
    for choice in ("anyOf", "oneOf"):
        if choice in schema and not any(_fits(value, one, root) for one in schema[choice]):
            return False
    if isinstance(value, dict):
        parts, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
        return all(_fits(one, parts.get(name, rest), root) for name, one in value.items())
    if isinstance(value, list):
        first, rest = schema.get("prefixItems", ()), schema.get("items", True)
        return all(_fits(one, first[i] if i < len(first) else rest, root) for i, one in enumerate(value))
    return True


def _listed(kinds: str | list[str]) -> list[str]:
    return [kinds] if isinstance(kinds, str) else kinds


_CLASSES: dict[str, tuple[type, ...]] = {
    "null": (type(None),), "boolean": (bool,), "integer": (int,), "number": (int, float), "string": (str,),
    "array": (list,), "object": (dict,),
}  # fmt: skip

_CHECKS: dict[str, Callable[[Any, Any], bool]] = {
    "type": lambda value, kinds: any(type(value) in _CLASSES[k] for k in _listed(kinds)),
    "const": lambda value, wanted: bool(value == wanted),
    "enum": lambda value, allowed: value in allowed,
    "minimum": lambda value, low: bool(value >= low),
    "maximum": lambda value, high: bool(value <= high),
    "exclusiveMinimum": lambda value, low: bool(value > low),
    "exclusiveMaximum": lambda value, high: bool(value < high),
    "multipleOf": lambda value, step: bool(value % step == 0),
    "minLength": lambda value, least: len(value) >= least,
    "maxLength": lambda value, most: len(value) <= most,
    "pattern": lambda value, pattern: re.search(pattern, value) is not None,
    "minItems": lambda value, least: len(value) >= least,
    "maxItems": lambda value, most: len(value) <= most,
    "required": lambda value, names: all(name in value for name in names),
}
"""`type` comes first: the others may rely on it."""
