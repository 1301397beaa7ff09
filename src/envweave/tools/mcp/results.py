"""Results of MCP servers as plain Python data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool

from envweave.tools.output import WRAPPED


def value_of(result: CallToolResult, tool: Tool) -> Any:
    """Return the structured content, else the text, else a list of texts and of other content as dicts."""
    if result.structured_content is not None:
        content = result.structured_content
        return content["result"] if _is_wrapped(result, tool) and set(content) == {"result"} else content
    if not result.content:
        return None
    if all(isinstance(part, TextContent) for part in result.content):
        return text_of(result)
    return [_part(part) for part in result.content]


def text_of(result: CallToolResult) -> str:
    """Return the text of a result, a line for each part."""
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


def output_schema_of(tool: Tool) -> dict[str, Any] | None:
    """Return the schema of what `value_of` returns, if it is known."""
    schema: dict[str, Any] | None = tool.output_schema
    if schema is None or not _wraps(tool):
        return schema
    found: dict[str, Any] = schema["properties"]["result"]
    return {**found, "$defs": schema["$defs"]} if "$defs" in schema and isinstance(found, dict) else found


def _part(part: Any) -> Any:
    return (
        part.text if isinstance(part, TextContent) else part.model_dump(mode="json", by_alias=True, exclude_none=True)
    )


def _is_wrapped(result: CallToolResult, tool: Tool) -> bool:
    own = (result.meta or {}).get("fastmcp")
    return _wraps(tool) or (isinstance(own, Mapping) and own.get("wrap_result") is True)


def _wraps(tool: Tool) -> bool:
    """Whether the output schema only wraps a value: FastMCP has a keyword for it, the official server a title."""
    schema = tool.output_schema or {}
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or set(properties) != {"result"}:
        return False
    return schema.get(WRAPPED) is True or schema.get("title") == f"{tool.name}Output"
