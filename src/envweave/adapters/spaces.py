"""Gymnasium spaces for data that is described by a type or a JSON Schema instead of an array."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import numpy as np
from gymnasium import spaces
from jsonschema import Draft202012Validator
from referencing import Registry

from envweave.core.jsonable import to_json
from envweave.core.sample import sample
from envweave.core.schema import json_schema
from envweave.errors import NotJSONableError, UnsupportedError
from envweave.types import Observation

_OURS = frozenset(field.name for field in dataclasses.fields(Observation))
"""The fields of `Observation` itself; Gymnasium and PettingZoo return their values separately."""


class SchemaSpace(spaces.Space[Any]):
    """The values that are valid under a JSON Schema; without a schema all values, and no samples."""

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
        """A value as JSON data. Raises `UnsupportedError` if the schema is missing or too general, and for a mask."""
        if mask is not None or probability is not None:
            raise UnsupportedError(f"{self} takes no mask", "draw until the environment takes the action")
        return sample(self.schema, self._random)

    def contains(self, x: Any) -> bool:
        """True for JSON data that is valid, and for an object whose JSON form is."""
        if self.schema is None:
            return True
        try:
            data = to_json(x)
        except NotJSONableError:
            return False
        no_fetching = Registry()  # the default one looks up a `$ref` on the network
        return bool(Draft202012Validator(self.schema, registry=no_fetching).is_valid(data))

    def to_jsonable(self, sample_n: Any) -> list[Any]:
        return [to_json(one) for one in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SchemaSpace) and self.schema == other.schema

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SchemaSpace({(self.schema or {}).get('title', self.schema)!r})"


def plain(observation: Any) -> Any:
    """A dataclass or a model as a dict of its fields, without those of `Observation` itself; other values unchanged."""
    if dataclasses.is_dataclass(observation) and not isinstance(observation, type):
        data = dataclasses.asdict(observation)
    elif callable(dump := getattr(observation, "model_dump", None)):
        data = dump(by_alias=True)
    else:
        return observation
    ours = _OURS if isinstance(observation, Observation) else ()
    return {name: value for name, value in data.items() if name not in ours}


def observation_space(type_: Any) -> spaces.Space[Any]:
    """The space of what `plain` makes of observations of a type: a `Dict` by field if the type has fields."""
    schema = None if type_ is None else json_schema(type_)
    has_fields = dataclasses.is_dataclass(type_) or hasattr(type_, "model_fields")
    if schema is None or not has_fields or "properties" not in schema:
        return SchemaSpace(schema)
    ours = _OURS if issubclass(type_, Observation) else ()
    shared = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    fields = {name: part for name, part in schema["properties"].items() if name not in ours}
    return spaces.Dict({name: SchemaSpace({**part, **shared}) for name, part in fields.items()})


def space_from_schema(schema: dict[str, Any] | None) -> spaces.Space[Any]:
    """The Gymnasium space that a schema was made from, as far as it can be told; else a `SchemaSpace`."""
    if schema is None:
        return SchemaSpace(None)
    array = schema.get("x-numpy")
    if schema.get("type") == "integer" and {"minimum", "maximum"} <= schema.keys():
        return spaces.Discrete(schema["maximum"] - schema["minimum"] + 1, start=schema["minimum"])
    if isinstance(array, dict) and None not in array["shape"]:
        low, high = (np.broadcast_to(_bounds(schema, side), array["shape"]) for side in ("minimum", "maximum"))
        dtype: Any = np.dtype(array["dtype"])
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            low, high = np.maximum(low, limits.min), np.minimum(high, limits.max)
        return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)
    if schema.get("x-tuple") and "prefixItems" in schema:
        return spaces.Tuple([space_from_schema(part) for part in schema["prefixItems"]])
    if schema.get("additionalProperties") is False and "title" not in schema:
        return spaces.Dict({name: space_from_schema(part) for name, part in schema.get("properties", {}).items()})
    return SchemaSpace(schema)


def _bounds(schema: dict[str, Any], side: str) -> Any:
    """The smallest or largest values of a nested list of numbers."""
    if "prefixItems" in schema:
        return np.array([_bounds(part, side) for part in schema["prefixItems"]])
    if isinstance(schema.get("items"), dict):
        return _bounds(schema["items"], side)
    return np.array(schema.get(side, -np.inf if side == "minimum" else np.inf))
