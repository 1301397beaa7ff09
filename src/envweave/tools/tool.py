"""One tool: a function, its name, and the schemas of what it takes and returns."""

from __future__ import annotations

import asyncio
import copy
import inspect
import keyword
from collections.abc import Callable, Mapping
from typing import Any

from envweave.errors import UsageError, describe
from envweave.tools.error import ToolError
from envweave.tools.schema_arguments import SchemaArguments
from envweave.tools.signature import FunctionArguments

UNPARSED = ""
"""The only argument of a call whose arguments a model has not written as a JSON object: what it wrote."""


LONGEST_FAILURE = 10_000
"""Characters of what a tool raised that are passed on."""


class Tool:
    """A function that an agent may call. `Tool.of(function)` derives everything from the function.

    A tool that is created by hand has a name that is a Python identifier. Its function, which may be async, is called
    with the properties of `input_schema` as keywords. `output_schema` is that of the value itself. `source` is Python
    code that defines the function, for code in a sandbox that can run it without a call to the host.
    """

    def __init__(
        self,
        *,
        name: str,
        function: Callable[..., Any],
        description: str = "",
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        source: str = "",
    ) -> None:
        _check_name(name)
        if not callable(function):
            raise UsageError(f"the function of the tool {name} is {function!r:.80}", "use a callable")
        self.name = name
        self.function = function
        self.description = description
        self.source = source
        self._arguments: SchemaArguments | FunctionArguments = SchemaArguments(input_schema, output_schema)

    @classmethod
    def of(
        cls, function: Callable[..., Any], *, name: str | None = None, description: str | None = None, source: str = ""
    ) -> Tool:
        """Return a function as a tool: its signature gives the schema, its docstring the descriptions.

        Raises `UsageError` for `*args`, `**kwargs`, and types that JSON cannot carry.
        """
        if not callable(function):
            raise UsageError(f"a {type(function).__name__} is not a tool", "pass a function or a Tool")
        name = name or getattr(function, "__name__", "") or type(function).__name__
        tool = cls(name=name, function=function, source=source)
        tool._arguments = arguments = FunctionArguments(function, tool.name)
        tool.description = arguments.description if description is None else description
        return tool

    def renamed(self, name: str, description: str | None = None) -> Tool:
        """Return the tool under another name, without its `source`, which defines the old name."""
        twin = copy.copy(self)
        if name != self.name:
            _check_name(name)
            twin.name, twin.source = name, ""
        if description is not None:
            twin.description = description
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Tool:
        """A copied method is one of the copied object. Schemas are shared, because they do not change."""
        twin = memo[id(self)] = copy.copy(self)
        twin.function = copy.deepcopy(self.function, memo)
        return twin

    def __repr__(self) -> str:
        return f"Tool(name={self.name!r}, description={self.description!r})"

    @property
    def input_schema(self) -> dict[str, Any]:
        return self._arguments.schema

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """None if it is unknown."""
        return self._arguments.output_schema

    @property
    def signature(self) -> inspect.Signature:
        """The signature for Python code."""
        return self._arguments.signature

    def schema(self) -> dict[str, Any]:
        """Return the tool as data, in the form of MCP."""
        data = {"name": self.name, "description": self.description, "inputSchema": self.input_schema}
        return data if self.output_schema is None else {**data, "outputSchema": self.output_schema}

    def read(self, arguments: Any) -> dict[str, Any]:
        """Convert JSON data to arguments of the types that the function takes. Raises `ToolError`."""
        try:
            if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
                raise ValueError(f"the arguments are {arguments!r:.80}, not an object")
            if UNPARSED in arguments:
                raise ValueError(f"the arguments are {arguments[UNPARSED]!r:.80}, not a JSON object")
            return self._arguments.read(arguments)
        except ValueError as error:
            raise ToolError(f"{self.name}: {error}", kind="invalid_arguments") from None

    def invoke(self, arguments: Any) -> Any:
        """Call the tool with JSON data. Returns the value, or an awaitable of it if the function is async.

        Raises `ToolError`, whatever the function raised.
        """
        given = self.read(arguments)
        try:
            value = self._arguments.run(self.function, given)
        except (Exception, SystemExit) as error:  # a tool may raise anything
            raise self._failure(error) from error
        return self._awaited(value) if inspect.isawaitable(value) else value

    async def _awaited(self, value: Any) -> Any:
        try:
            return await value
        except (Exception, SystemExit) as error:  # a tool may raise anything
            raise self._failure(error) from error

    async def wait(self, arguments: Any) -> Any:
        """`invoke` without blocking the event loop: a function that is not async runs in a thread."""
        if inspect.iscoroutinefunction(self.function):
            return await self.invoke(arguments)
        value = await asyncio.to_thread(self.invoke, arguments)
        return await value if inspect.isawaitable(value) else value

    def _failure(self, error: BaseException) -> ToolError:
        if isinstance(error, ToolError):
            return error
        text = describe(error)
        cut = "" if len(text) <= LONGEST_FAILURE else f"… [{len(text) - LONGEST_FAILURE} characters left out]"
        return ToolError(f"{self.name}: {text[:LONGEST_FAILURE]}{cut}")

    def as_function(self) -> Callable[..., Any]:
        """Return a Python function that checks its arguments. It raises what the tool raises."""

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = self.signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self.name}() {error}") from None
            return self._arguments.run(self.function, self.read(self._arguments.from_call(bound)))

        async def wait(*args: Any, **kwargs: Any) -> Any:
            return await call(*args, **kwargs)

        made: Any = wait if inspect.iscoroutinefunction(self.function) else call
        made.__name__ = made.__qualname__ = self.name
        made.__module__ = getattr(self.function, "__module__", None) or "tools"
        made.__signature__ = self.signature
        made.__doc__ = self._docstring()
        return made  # type: ignore[no-any-return]

    def _docstring(self) -> str:
        """Return the description, with a line for each parameter that has one."""
        lines = [f"    {name}: {' '.join(text.split())}" for name, text in self._arguments.descriptions.items()]
        return "\n".join([self.description, "", "Args:", *lines]).strip() if lines else self.description


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"the name of a tool is {name!r:.80}", "use a Python identifier")
