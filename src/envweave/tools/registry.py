"""The tools of an environment or an agent, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, overload

from envweave.core.loop import BACKGROUND
from envweave.core.suggest import nearest
from envweave.errors import UsageError
from envweave.tools.error import ToolError
from envweave.tools.tool import Tool

F = TypeVar("F", bound=Callable[..., Any])

Tools: TypeAlias = "Tool | Callable[..., Any] | Mapping[str, Tool | Callable[..., Any]] | Iterable[Any]"
"""Whatever tools can be given as: one, several, or several by name."""


class ToolRegistry:
    """Tools, in the order in which they were added. No two have one name."""

    def __init__(self, *tools: Tools) -> None:
        """Each argument is a function, a `Tool`, a mapping from names to them, or a list of any of these."""
        self._tools: dict[str, Tool] = {}
        for some in tools:
            self._take(some)

    def _take(self, tools: Tools) -> None:
        if isinstance(tools, Tool):
            self.add(tools)
        elif isinstance(tools, Mapping):
            for name, tool in tools.items():
                self.add(tool, name=name)
        elif callable(tools):
            self.add(tools)
        elif isinstance(tools, Iterable) and not isinstance(tools, str | bytes):
            for one in tools:
                self._take(one)
        else:
            raise UsageError(f"{tools!r:.80} is not a tool", "pass functions, Tools, or a mapping of them by name")

    def add(
        self, function: Callable[..., Any] | Tool, *, name: str | None = None, description: str | None = None
    ) -> Tool:
        """Add a function or a tool, also under a name of your own. Raises `UsageError` for one that is taken."""
        if isinstance(function, Tool):
            tool = function.renamed(name or function.name, description)
        else:
            tool = Tool.of(function, name=name, description=description)
        if tool.name in self._tools:
            raise UsageError(f"there is a tool {tool.name!r} already", "give one of them another name")
        self._tools[tool.name] = tool
        return tool

    @overload
    def tool(self, function: F) -> F: ...

    @overload
    def tool(self, *, name: str | None = None, description: str | None = None) -> Callable[[F], F]: ...

    def tool(self, function: Any = None, *, name: str | None = None, description: str | None = None) -> Any:
        """Add the function below: `@registry.tool`, or `@registry.tool(name=…)`. The function stays what it is."""

        def added(function: F) -> F:
            self.add(function, name=name, description=description)
            return function

        return added if function is None else added(function)

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(list(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        return f"ToolRegistry({', '.join(self._tools)})"

    def schemas(self) -> list[dict[str, Any]]:
        """All tools as data: `name`, `description`, `inputSchema`, and `outputSchema` where it is known."""
        return [tool.schema() for tool in self]

    def functions(self) -> dict[str, Callable[..., Any]]:
        """All tools as Python code calls them, with their signatures and docstrings."""
        return {tool.name: tool.as_function() for tool in self}

    def find(self, name: Any) -> Tool:
        """Raises `ToolError` for a tool that there is not."""
        found = self._tools.get(name) if isinstance(name, str) else None
        if found is not None:
            return found
        near = nearest(name, list(self._tools)) if isinstance(name, str) else None
        raise ToolError(f"no tool named {name!r:.80}", f"did you mean {near!r}?" if near else "", kind="not_found")

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Call a tool with JSON data and wait for its value. Raises `ToolError`, whatever the tool raised."""
        value = self.find(name).invoke({} if arguments is None else arguments)
        return BACKGROUND.run(value) if inspect.iscoroutine(value) else value


def registry_of(tools: Any) -> ToolRegistry:
    """The registry that an environment's `tools` are."""
    if isinstance(tools, ToolRegistry):
        return tools
    return ToolRegistry() if tools is None else ToolRegistry(tools)
