"""The built-in file tools, confined to the episode's folder and its own /tmp.

For the agent's code they run inside the sandbox (`inside.py`). A call from outside, over MCP, reaches the same folder
through the session, and /tmp by running the tool inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from envweave.envs.interpreter import Interpreter
from envweave.tools import Tool, ToolError, ToolRegistry

SOURCE = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")
TEMPORARY = "/tmp/"  # noqa: S108  (that of the episode)


def file_tools(python: Interpreter) -> ToolRegistry:
    """Tools that read, write, list and delete files of an interpreter's work folder and of its /tmp."""

    def file_write(path: str, content: str) -> str:
        """Write text to a file of the episode's folder, or of its own /tmp, and replace what it contained."""
        if path.startswith(TEMPORARY):
            return str(_run_inside(python, "file_write", path, content))
        python.session.write_file(path, content)
        return f"wrote {len(content)} characters to {path}"

    def file_read(path: str) -> str:
        """The text of a file of the episode's folder, or of its own /tmp."""
        if path.startswith(TEMPORARY):
            return str(_run_inside(python, "file_read", path))
        try:
            return python.session.read_file(path).decode()
        except UnicodeDecodeError:
            raise ToolError(f"{path!r} is not text") from None

    def file_list() -> list[str]:
        """The paths of all files of the episode's folder."""
        return sorted(python.session.list_files())

    def file_delete(path: str) -> str:
        """Remove a file of the episode's folder, or of its own /tmp."""
        if not path.startswith(TEMPORARY):
            python.session.read_file(path)  # raises a readable error if there is none
        return str(_run_inside(python, "file_delete", path))

    functions = (file_write, file_read, file_list, file_delete)
    return ToolRegistry([Tool.of(function, source=SOURCE) for function in functions])


def _run_inside(python: Interpreter, tool: str, *arguments: str) -> Any:
    """Define the tools anew in the sandbox and call one: the agent's code may have changed its own."""
    done = python.run(f"(lambda own: (exec({SOURCE!r}, own), own[{tool!r}](*{arguments!r}))[1])({{}})")
    if done.exception is not None:
        raise ToolError(str(done.exception))
    if not done.success or not done.return_is_data:
        raise ToolError(f"{tool}({arguments[0]!r}) returned no text: {done.limit or 'it is too long'}")
    return done.return_value
