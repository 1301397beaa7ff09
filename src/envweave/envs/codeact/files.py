"""The built-in file tools, confined to the episode's folder.

The agent's code has them inside, where a call does not leave the sandbox (`inside.py`). Whoever calls them from
outside, over MCP, reaches the same folder through the session.
"""

from __future__ import annotations

from pathlib import Path

from envweave.envs.interpreter import Interpreter
from envweave.tools import Tool, ToolError, ToolRegistry

SOURCE = Path(__file__).with_name("inside.py").read_text(encoding="utf-8")


def file_tools(python: Interpreter) -> ToolRegistry:
    """Read, write, list and delete files of the folder that an interpreter's code works in."""

    def file_write(path: str, content: str) -> str:
        """Write text to a file of the episode's folder; what was in it before is gone."""
        python.session.write_file(path, content)
        return f"wrote {len(content)} characters to {path}"

    def file_read(path: str) -> str:
        """The text of a file of the episode's folder."""
        try:
            return python.session.read_file(path).decode()
        except UnicodeDecodeError:
            raise ToolError(f"{path!r} is not text") from None

    def file_list() -> list[str]:
        """The paths of all files of the episode's folder."""
        return sorted(python.session.list_files())

    def file_delete(path: str) -> str:
        """Remove a file of the episode's folder."""
        python.session.read_file(path)  # an error, in words, if there is none
        done = python.run(f"(lambda os: os.remove(os.path.join(os.environ['HOME'], {path!r})))(__import__('os'))")
        if done.exception is not None:
            raise ToolError(str(done.exception))
        return f"deleted {path}"

    functions = (file_write, file_read, file_list, file_delete)
    return ToolRegistry([Tool.of(function, source=SOURCE) for function in functions])
