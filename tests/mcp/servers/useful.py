"""A server with tools of many shapes, of the official package: over stdio, or with `http` at the URL that it prints."""

import os
import socket
import sys
import time
from typing import Annotated, Literal

import anyio
import uvicorn
from mcp.server.mcpserver import Image, MCPServer
from pydantic import BaseModel, Field

server = MCPServer("useful", log_level="ERROR")


class Point(BaseModel):
    x: int
    y: int = 0


@server.tool()
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool(name="odd-one.out")
def odd(
    kind: Literal["left", "right"] = "left",
    where: Annotated[Point, Field(description="the place")] = Point(x=1),  # noqa: B008
    tags: list[str] | None = None,
) -> dict[str, object]:
    """Has a name and a schema that are not simple."""
    return {"kind": kind, "where": where.model_dump(), "tags": tags}


@server.tool()
def nothing() -> None:
    """Takes nothing, gives nothing."""


@server.tool()
def picture() -> Image:
    """A picture."""
    return Image(data=b"\x89PNG", format="png")


@server.tool(structured_output=False)
def mixed() -> list:
    """A text and a picture."""
    return ["a text", Image(data=b"\x89PNG", format="png")]


@server.tool()
def fail(why: str) -> str:
    """Fails."""
    from mcp.server.mcpserver.exceptions import ToolError

    raise ToolError(why)


@server.tool()
async def wait(name: str) -> str:
    """Waits until the file exists, and makes another to say that it waits."""
    open(f"{name}.waiting", "w").close()
    while not os.path.exists(name):
        await anyio.sleep(0.01)
    return "seen"


@server.tool()
def stuck() -> str:
    """Answers nothing any more, not even to others."""
    while True:
        time.sleep(60)


@server.tool()
def variables() -> dict[str, str]:
    """Its environment variables."""
    return dict(os.environ)


@server.tool()
def process() -> int:
    """The number of its process."""
    return os.getpid()


@server.tool()
def die(code: int = 9) -> str:
    """Ends the server."""
    os._exit(code)


def main():
    if sys.argv[1:] != ["http"]:
        server.run()
        return
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    app = server.streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


if __name__ == "__main__":
    main()
