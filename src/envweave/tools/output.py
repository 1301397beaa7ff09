"""What a tool gives, as the object that MCP wants: a value that is none stands in one, under `result`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WRAPPED = "x-fastmcp-wrap-result"
"""In an output schema: the object is there for the sake of MCP. FastMCP's word, which its clients understand too."""


def is_wrapped(schema: Mapping[str, Any] | None) -> bool:
    """Whether a value of this schema has to stand in an object. Without a schema nothing is promised."""
    return schema is not None and schema.get("type") != "object"


def wrapped_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of what is sent."""
    if not is_wrapped(schema):
        return dict(schema)
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer = {"type": "object", "properties": {"result": inner}, "required": ["result"], WRAPPED: True}
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def structured(value: Any, *, wrapped: bool) -> dict[str, Any] | None:
    """What is sent, or None if that is not an object."""
    if wrapped:
        return {"result": value}
    return value if isinstance(value, dict) else None
