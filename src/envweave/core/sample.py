"""Draw a random value that fits a JSON Schema: the policy of `envweave run` and `envweave check`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from envweave.errors import UnsupportedError

_WORDS = ("hello", "world", "yes", "no", "42", "why", "answer", "")


def sample(schema: dict[str, Any] | None, random: Random) -> Any:
    """A value the schema allows. Raises `UnsupportedError` where there is no schema or one beyond our means."""
    if schema is None:
        raise UnsupportedError("no random action: the environment does not say what an action is", _ADVICE)
    return _draw(schema, schema, random)


_ADVICE = "annotate it, e.g. class MyEnv(ew.Environment[MyAction, MyObservation])"


def _draw(schema: dict[str, Any], root: dict[str, Any], random: Random) -> Any:
    if "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return _draw(target, root, random)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return random.choice(schema["enum"])
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return _draw(random.choice(schema[choice]), root, random)
    kind = schema.get("type")
    kind = random.choice(kind) if isinstance(kind, list) else kind
    draw = _KINDS.get(str(kind))
    if draw is None:
        raise UnsupportedError(f"no random action for the schema {schema!r}", _ADVICE)
    return draw(schema, root, random)


def _integer(schema: dict[str, Any], _: dict[str, Any], random: Random) -> int:
    low = schema.get("minimum", schema.get("exclusiveMinimum", -11) + 1)
    high = schema.get("maximum", schema.get("exclusiveMaximum", max(low, -9) + 20) - 1)
    step = schema.get("multipleOf", 1)
    return int(random.randint(-(-int(low) // step), int(high) // step) * step)


def _number(schema: dict[str, Any], _: dict[str, Any], random: Random) -> float:
    low: float | None = schema.get("minimum", schema.get("exclusiveMinimum"))
    high: float | None = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        return random.gauss(0.0, 1.0) if high is None else high - random.random()
    return random.uniform(low, low + 1.0 if high is None else high)


def _string(schema: dict[str, Any], _: dict[str, Any], random: Random) -> str:
    text = random.choice(_WORDS)
    while len(text) < schema.get("minLength", 0):
        text += random.choice("abcdefghij")
    return text[: schema.get("maxLength", len(text))]


def _array(schema: dict[str, Any], root: dict[str, Any], random: Random) -> list[Any]:
    if "prefixItems" in schema:
        return [_draw(item, root, random) for item in schema["prefixItems"]]
    least = schema.get("minItems", 0)
    size = random.randint(least, schema.get("maxItems", least + 3))
    return [_draw(schema.get("items", {"type": "integer"}), root, random) for _ in range(size)]


def _object(schema: dict[str, Any], root: dict[str, Any], random: Random) -> dict[str, Any]:
    required = schema.get("required", ())
    chosen = {
        key: value
        for key, value in schema.get("properties", {}).items()
        if key in required or ("default" not in value and random.random() < 0.5)
    }
    return {key: _draw(value, root, random) for key, value in chosen.items()}


_KINDS: dict[str, Callable[[dict[str, Any], dict[str, Any], Random], Any]] = {
    "integer": _integer,
    "number": _number,
    "string": _string,
    "array": _array,
    "object": _object,
    "boolean": lambda _schema, _root, random: random.random() < 0.5,
    "null": lambda _schema, _root, _random: None,
}
