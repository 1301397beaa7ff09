"""Draw a random value that fits a JSON Schema: the policy of `envweave run` and `envweave check`."""

from __future__ import annotations

from copy import deepcopy
from math import ceil, floor
from random import Random
from typing import Any

from envweave.errors import UnsupportedError

_WORDS = ("hello", "world", "yes", "no", "42", "why", "answer", "")


_DEEP = 5
"""From this depth on the smallest value is drawn, so that a type that contains itself comes to an end."""

_ADVICE = "annotate it, e.g. class MyEnv(ew.Environment[MyAction, MyObservation])"


def sample(schema: dict[str, Any] | None, random: Random) -> Any:
    """A value the schema allows. Raises `UnsupportedError` where there is no schema or one beyond our means."""
    if schema is None:
        raise UnsupportedError("no random action: the environment does not say what an action is", _ADVICE)
    return _Draw(schema, random).value(schema, 0)


class _Draw:
    """One draw from one schema, whose root holds the definitions that `$ref` points to."""

    def __init__(self, root: dict[str, Any], random: Random) -> None:
        self._root = root
        self._random = random

    def value(self, schema: dict[str, Any], depth: int) -> Any:
        if "$ref" in schema:
            target: Any = self._root
            for part in schema["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            return self.value(target, depth + 1)
        if schema.get("examples"):  # what the author says is worth trying
            return deepcopy(self._random.choice(schema["examples"]))
        if "const" in schema:
            return deepcopy(schema["const"])
        if "enum" in schema:
            return deepcopy(self._random.choice(schema["enum"]))
        for choices in (schema.get("anyOf"), schema.get("oneOf")):
            if choices:
                plain = [one for one in choices if one.get("type") not in ("array", "object") and "$ref" not in one]
                return self.value(self._random.choice(plain if plain and depth >= _DEEP else choices), depth + 1)
        kind = schema.get("type")
        kind = self._random.choice(kind) if isinstance(kind, list) else kind
        draw = getattr(self, f"_{kind}", None)
        if draw is None or depth > 8 * _DEEP:
            raise UnsupportedError(f"no random action for the schema {str(schema)[:200]}", _ADVICE)
        return draw(schema, depth)

    def _null(self, schema: dict[str, Any], depth: int) -> None:
        return None

    def _boolean(self, schema: dict[str, Any], depth: int) -> bool:
        return self._random.random() < 0.5

    def _integer(self, schema: dict[str, Any], depth: int) -> int:
        step = schema.get("multipleOf", 1)
        low, high = _bounds(schema, 20)
        least = ceil(low / step) + ("exclusiveMinimum" in schema and low % step == 0)
        most = floor(high / step) - ("exclusiveMaximum" in schema and high % step == 0)
        return int(self._random.randint(least, most) * step)

    def _number(self, schema: dict[str, Any], depth: int) -> float:
        if not _BOUNDS & schema.keys():
            return self._random.gauss(0.0, 1.0)
        low, high = _bounds(schema, 1)
        drawn = low + (high - low) * (0.001 + 0.998 * self._random.random())
        return round(drawn / schema["multipleOf"]) * schema["multipleOf"] if "multipleOf" in schema else drawn

    def _string(self, schema: dict[str, Any], depth: int) -> str:
        text = self._random.choice(_WORDS)
        while len(text) < schema.get("minLength", 0):
            text += self._random.choice("abcdefghij")
        return text[: schema.get("maxLength", len(text))]

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        if "prefixItems" in schema:
            return [self.value(item, depth + 1) for item in schema["prefixItems"]]
        least = schema.get("minItems", 0)
        size = least if depth >= _DEEP else self._random.randint(least, schema.get("maxItems", least + 3))
        return [self.value(schema.get("items", {"type": "integer"}), depth + 1) for _ in range(size)]

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        return {
            key: self.value(part, depth + 1)
            for key, part in schema.get("properties", {}).items()
            if key in required or "examples" in part or self._is_drawn(part, depth)
        }

    def _is_drawn(self, schema: dict[str, Any], depth: int) -> bool:
        return "default" not in schema and depth < _DEEP and self._random.random() < 0.5


_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}


def _bounds(schema: dict[str, Any], width: float) -> tuple[float, float]:
    """The lowest and highest value, a bound that is missing being `width` away from the other."""
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        low = -width / 2 if high is None else high - width
    return low, low + width if high is None else high
