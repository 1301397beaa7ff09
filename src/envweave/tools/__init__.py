"""Functions that an agent may call: described by JSON Schema, checked, and named when they fail.

    registry = ToolRegistry([search])
    registry.schemas()                              # for a prompt, or for `/mcp`
    registry.call("search", {"query": "MCP"})       # checked against the schema
    Sandbox(tools=registry.functions())             # ordinary functions for code inside

Tools of MCP servers come from `envweave.tools.mcp`, which needs the extra `mcp`.
"""

from envweave.tools.environment import CallTool, ToolEnvironment, ToolObservation
from envweave.tools.error import ToolError
from envweave.tools.registry import ToolRegistry
from envweave.tools.tool import Tool

__all__ = [
    "CallTool",
    "Tool",
    "ToolEnvironment",
    "ToolError",
    "ToolObservation",
    "ToolRegistry",
]
