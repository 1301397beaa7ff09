"""The value of a tool as the JSON object that MCP requires: other values are wrapped as `{"result": value}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WRAPPED = "x-fastmcp-wrap-result"
"""Keyword of FastMCP in an output schema: the object only wraps a value."""


def is_wrapped(schema: Mapping[str, Any] | None) -> bool:
    """Whether values of this schema have to be wrapped. False without a schema."""
    return schema is not None and schema.get("type") != "object"


def wrapped_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of what is sent."""
    if not is_wrapped(schema):
        return dict(schema)
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer = {"type": "object", "properties": {"result": inner}, "required": ["result"], WRAPPED: True}
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def structured(value: Any, *, wrapped: bool) -> dict[str, Any] | None:
    """Return what is sent, or None if it is not an object."""
    if wrapped:
        return {"result": value}
    return value if isinstance(value, dict) else None
