"""The environment's tools, as the official `mcp` package serves them. It is used as a server here, and nowhere else.

Each request stands for itself, in either generation of the protocol: none has a session of MCP's own. Which environment
is meant is said by the header of ours that names a session; without it, it is the server's default session.
"""

from __future__ import annotations

from typing import Any

from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ListToolsResult,
    ResourceLink,
    TextContent,
    Tool,
)

from envweave.errors import EnvWeaveError, SessionLostError
from envweave.server.sessions import Sessions
from envweave.server.toolbox import Toolbox
from envweave.tools.output import structured, wrapped_schema
from envweave.wire.codec import encode
from envweave.wire.protocol import SESSION_HEADER

_CONTENT = {
    "text": (TextContent, {"text"}),
    "image": (ImageContent, {"data", "mimeType"}),
    "audio": (AudioContent, {"data", "mimeType"}),
    "resource": (EmbeddedResource, {"resource"}),
    "resource_link": (ResourceLink, {"uri", "name"}),
}
"""The kinds of content, and what each has at least."""


def manager_for(sessions: Sessions) -> StreamableHTTPSessionManager:
    """What answers MCP's requests. Tokens and origins have been looked at before they come here."""
    return StreamableHTTPSessionManager(
        app=_server(sessions),
        json_response=True,
        stateless=True,
        max_request_body_size=sessions.settings.max_message_bytes,
    )


def _server(sessions: Sessions) -> Server[Any]:
    toolbox = Toolbox(sessions)

    async def list_tools(context: Any, _: Any) -> ListToolsResult:
        try:
            return ListToolsResult(tools=[_listed(tool) for tool in await toolbox.list(_session_id(context))])
        except EnvWeaveError as error:
            raise _refusal(error) from None

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        try:
            outcome = await toolbox.call(_session_id(context), params.name, params.arguments or {})
        except SessionLostError as error:
            raise _refusal(error) from None
        except EnvWeaveError as error:  # the agent shall read it
            return _failed(str(error))
        if outcome.kind == "not_found":
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:80]}")
        if outcome.kind:
            return _failed(outcome.message)
        told = structured(outcome.value, wrapped=outcome.wrapped)
        return CallToolResult(content=content_of(outcome.value), structured_content=told)

    spec = sessions.offer.spec
    about = {"version": spec.version or "1.0.0", "instructions": spec.description or None}
    return Server(
        spec.id,
        **about,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema=lambda _: None,  # or it would list all tools before each call, to compare headers
    )


def content_of(value: Any) -> list[Any]:
    """The value as MCP content: text, or what is in MCP's own form already (`{"type": "image", …}`), also in a list."""
    if value is None:
        return []
    parts = value if isinstance(value, list) and any(_part(one) for one in value) else [value]
    return [_part(one) or TextContent(text=one if isinstance(one, str) else encode(one).decode()) for one in parts]


def _part(value: Any) -> Any:
    """None if it is not in MCP's form."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _CONTENT or not value.keys() >= _CONTENT[kind][1]:
        return None
    try:
        return _CONTENT[kind][0].model_validate(value, by_name=False)
    except ValueError:  # it only looked like it
        return None


def _listed(tool: dict[str, Any]) -> Tool:
    schema = tool.get("outputSchema")
    return Tool(
        name=tool["name"],
        description=tool["description"] or None,
        input_schema=tool["inputSchema"],
        output_schema=None if schema is None else wrapped_schema(schema),
    )


def _failed(message: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=message)], is_error=True)


def _refusal(error: EnvWeaveError) -> MCPError:
    return MCPError(INVALID_PARAMS if isinstance(error, SessionLostError) else INTERNAL_ERROR, str(error))


def _session_id(context: Any) -> str | None:
    return context.request.headers.get(SESSION_HEADER)  # type: ignore[no-any-return]
