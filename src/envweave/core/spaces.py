"""Gymnasium spaces, known by their shape and not by import."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import isfinite
from typing import Any

from envweave.errors import InvalidActionError


def space_check(space: Any) -> Callable[[Any], Any]:
    """Accept what the space contains, and the JSON form of it."""
    if type(space).__name__ == "Discrete":
        return _discrete_check(int(getattr(space, "start", 0)), int(space.n))
    return partial(_contained, space)


def _contained(space: Any, action: Any) -> Any:
    try:
        native = _native(space, action)
    except Exception:  # whatever a space makes of a value that is not its own
        native = action
    if space.contains(native):
        return native
    raise InvalidActionError(f"action {action!r} is not in {space}", "env.action_schema() shows what is")


@cache
def _discrete_check(low: int, count: int) -> Callable[[Any], Any]:
    """One function for all equal spaces: a vector of 256 environments has it at hand instead of 256 copies."""
    high = low + count

    def check(action: Any) -> Any:
        if action.__class__ is int and low <= action < high:
            return action
        whole = getattr(getattr(action, "dtype", None), "kind", "") in "iu" and getattr(action, "size", 0) == 1
        if whole and low <= int(action) < high:
            return action
        raise InvalidActionError(f"action {action!r} is not one of {low} to {high - 1}", "use a whole number")

    return check


def _native(space: Any, value: Any) -> Any:
    """Arrays from the lists that JSON has for them; all else as it is."""
    kind = type(space).__name__
    if kind == "Dict" and isinstance(value, dict):
        return {key: _native(part, value[key]) for key, part in space.spaces.items()}
    if kind == "Tuple" and isinstance(value, list | tuple):
        return tuple(_native(part, item) for part, item in zip(space.spaces, value, strict=True))
    if kind in ("Box", "MultiBinary", "MultiDiscrete") and isinstance(value, list | tuple | int | float):
        return space.from_jsonable([value])[0]
    return value


def space_schema(space: Any) -> dict[str, Any] | None:
    """The JSON Schema of a space's values, or None for a kind of space that has none."""
    kind = type(space).__name__
    if kind == "Discrete":
        low = int(getattr(space, "start", 0))
        return {"type": "integer", "minimum": low, "maximum": low + int(space.n) - 1}
    if kind == "Box":
        return _box(space)
    if kind == "MultiBinary":
        return _nested({"type": "integer", "minimum": 0, "maximum": 1}, space.shape)
    if kind == "MultiDiscrete" and len(space.shape) == 1:
        items = [{"type": "integer", "minimum": 0, "maximum": int(n) - 1} for n in space.nvec]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if kind == "Text":
        return {"type": "string", "minLength": int(space.min_length), "maxLength": int(space.max_length)}
    if kind == "Dict":
        properties = {key: space_schema(part) or {} for key, part in space.spaces.items()}
        return {"type": "object", "properties": properties, "required": list(properties)}
    if kind == "Tuple":
        items = [space_schema(part) or {} for part in space.spaces]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    return None


def _box(space: Any) -> dict[str, Any]:
    number: dict[str, Any] = {"type": "integer" if getattr(space.dtype, "kind", "f") in "iu" else "number"}
    if space.shape and 0 in space.shape:
        return _nested(number, space.shape)
    low, high = float(space.low.min()), float(space.high.max())
    number |= {"minimum": low} if isfinite(low) else {}
    number |= {"maximum": high} if isfinite(high) else {}
    return _nested(number, space.shape)


def _nested(item: dict[str, Any], shape: tuple[int, ...]) -> dict[str, Any]:
    for size in reversed(shape):
        item = {"type": "array", "items": item, "minItems": int(size), "maxItems": int(size)}
    return item
