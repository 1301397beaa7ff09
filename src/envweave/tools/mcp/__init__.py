"""Tools of MCP servers, as tools like any others. Needs the extra `mcp`, which is loaded by the first `connect_mcp`.

with connect_mcp({"files": {"command": "npx", "args": ["@modelcontextprotocol/server-filesystem", "."]}}) as tools:
    tools.registry.call("read_text_file", {"path": "README.md"})
"""

from envweave.tools.mcp.connect import McpTools, connect_mcp

__all__ = ["McpTools", "connect_mcp"]
