"""Read and copy an observation, whatever it is made of: a dataclass, a pydantic model, a dict or a plain object."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from envweave.errors import BadResultError


def member(thing: Any, name: str, default: Any = None) -> Any:
    """A field by name; what crossed the wire is a dict and is read like what it was before."""
    return thing.get(name, default) if isinstance(thing, Mapping) else getattr(thing, name, default)


def metadata_of(observation: Any) -> dict[str, Any]:
    """A copy of its metadata; empty where it has none."""
    metadata = member(observation, "metadata")
    return dict(metadata) if isinstance(metadata, Mapping) else {}


def changed(observation: Any, **fields: Any) -> Any:
    """A copy with other values in these fields; the one that was given stays as it is.

    No `__init__` runs again, so fields that only the author's constructor can make are kept. Raises `BadResultError`
    for an observation that has no such field: a number or a text cannot carry a reward.
    """
    if isinstance(observation, Mapping):
        return {**observation, **fields}
    for name in fields:
        if not _has(observation, name):
            raise BadResultError(
                f"the observation, a {type(observation).__name__}, has no {name!r} and cannot be scored",
                "derive it from `envweave.Observation`, or return a dict",
            )
    if callable(getattr(observation, "model_copy", None)):  # pydantic's models
        return observation.model_copy(update=fields)
    twin = copy.copy(observation)
    for name, value in fields.items():
        object.__setattr__(twin, name, value)  # also where it is frozen: nobody else holds the copy yet
    return twin


def _has(observation: Any, name: str) -> bool:
    fields = getattr(type(observation), "model_fields", None)
    if isinstance(fields, Mapping):
        return name in fields or name in (getattr(observation, "model_extra", None) or ())
    if dataclasses.is_dataclass(observation):
        return any(field.name == name for field in dataclasses.fields(observation))
    return hasattr(observation, name)
