"""Draw a random value that fits a JSON Schema: the policy of `envweave run` and `envweave check`."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from copy import deepcopy
from functools import lru_cache
from random import Random
from typing import Any

from envweave.errors import UnsupportedError

_WORDS = ("hello", "world", "yes", "no", "42", "why", "answer", "")

_LETTERS = "abcdefghij"

_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

_DEEP = 5
"""From this depth on the smallest value is drawn, so that a recursive type ends."""

_ADVICE = "annotate it, e.g. class MyEnv(ew.Environment[MyAction, MyObservation])"


def sample(schema: dict[str, Any] | None, random: Random) -> Any:
    """A value that the schema allows, as JSON data. The same state of `random` gives the same value.

    An optional field is filled about half of the time, whether or not it has a default. Raises `UnsupportedError` if
    there is no schema, or if nothing can be drawn from it.
    """
    if schema is None:
        raise UnsupportedError("no random action: the environment does not say what an action is", _ADVICE)
    return _Draw(schema, random).value(schema, 0)


class _Draw:
    """Draws from one schema, whose root holds the definitions that `$ref` points to."""

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
        if "x-graph" in schema:
            return self._graph(schema, depth)
        if "x-stacked" in schema:
            return self._batch(schema, self._random.randint(0, 3), depth)
        kind = schema.get("type")
        kind = self._random.choice(kind) if isinstance(kind, list) else kind
        draw = getattr(self, f"_{kind}") if kind in _TYPES else None
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
        least = -(-low // step) + ("exclusiveMinimum" in schema and low % step == 0)  # exact, also beyond 2**53
        most = high // step - ("exclusiveMaximum" in schema and high % step == 0)
        return int(self._random.randint(int(least), int(most)) * step)

    def _number(self, schema: dict[str, Any], depth: int) -> float:
        if not _BOUNDS & schema.keys():
            return self._random.gauss(0.0, 1.0)
        low, high = _bounds(schema, 1)
        part = 0.001 + 0.998 * self._random.random()
        drawn = min(max(low, low * (1 - part) + high * part), high)
        return round(drawn / schema["multipleOf"]) * schema["multipleOf"] if "multipleOf" in schema else drawn

    def _string(self, schema: dict[str, Any], depth: int) -> str:
        letters, words = _matching(schema["pattern"]) if "pattern" in schema else (_LETTERS, _WORDS)
        text = self._random.choice(words)
        while len(text) < schema.get("minLength", 0):
            text += self._random.choice(letters)
        return text[: schema.get("maxLength", len(text))]

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        if "prefixItems" in schema:
            return [self.value(item, depth + 1) for item in schema["prefixItems"]]
        least = schema.get("minItems", 0)
        size = least if depth >= _DEEP else self._random.randint(least, schema.get("maxItems", least + 3))
        return [self.value(schema.get("items", {"type": "integer"}), depth + 1) for _ in range(size)]

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", ())
        drawn = {}
        for key, part in schema.get("properties", {}).items():
            if key in required:
                drawn[key] = self.value(part, depth + 1)
            elif "examples" in part or (depth < _DEEP and self._random.random() < 0.5):
                try:
                    drawn[key] = self.value(part, depth + 1)
                except UnsupportedError:
                    pass  # it is optional
        return drawn

    # Values of Gymnasium spaces of which JSON Schema does not say all.

    def _batch(self, schema: dict[str, Any], size: int, depth: int) -> Any:
        """A value in which each array that is a batch has this size."""
        if "properties" in schema:
            return {key: self._batch(part, size, depth + 1) for key, part in schema["properties"].items()}
        if "prefixItems" in schema:
            return [self._batch(part, size, depth + 1) for part in schema["prefixItems"]]
        return [self.value(schema["items"], depth + 1) for _ in range(size)]

    def _graph(self, schema: dict[str, Any], depth: int) -> list[Any]:
        nodes, edges, _ = schema["prefixItems"]
        node_count, edge_count = self._random.randint(1, 4), self._random.randint(0, 4)
        drawn = self._batch(nodes, node_count, depth)
        if edges["type"] == "null" or edge_count == 0:
            return [drawn, None, None]
        links = [[self._random.randrange(node_count) for _ in range(2)] for _ in range(edge_count)]
        return [drawn, self._batch(edges, edge_count, depth), links]


@lru_cache(maxsize=64)
def _matching(pattern: str) -> tuple[Sequence[str], Sequence[str]]:
    """Letters and words that match a pattern. Works for patterns that list the allowed characters."""
    try:
        re.compile(pattern)
    except re.error:  # valid in another dialect
        return _LETTERS, _WORDS
    tried = dict.fromkeys(_LETTERS + string.printable.rstrip() + " " + pattern)
    letters = [one for one in tried if re.search(pattern, one)]
    words = [word for word in _WORDS if re.search(pattern, word)]
    return (letters, words or letters) if letters else (_LETTERS, _WORDS)


_BOUNDS = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}


def _bounds(schema: dict[str, Any], width: float) -> tuple[float, float]:
    """The lowest and the highest value; a missing bound is `width` away from the other one."""
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        low = -width / 2 if high is None else high - width
    return low, low + width if high is None else high
