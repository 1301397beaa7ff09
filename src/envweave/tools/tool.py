"""One tool: a function, its name, and the schemas of what it takes and returns."""

from __future__ import annotations

import asyncio
import inspect
import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from envweave.errors import UsageError, describe
from envweave.tools.docstring import read_docs
from envweave.tools.error import ToolError
from envweave.tools.schema_arguments import SchemaArguments
from envweave.tools.signature import TypedArguments, returned_schema, signature_of, without_annotated


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool:
    """A function that an agent may call. `Tool.of(function)` derives all fields from the function.

    The function of a tool that is created by hand is called with the properties of `input_schema` as keywords.
    """

    name: str
    """A Python identifier."""
    function: Callable[..., Any] = field(repr=False)
    """May be async."""
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}}, repr=False)
    output_schema: dict[str, Any] | None = field(default=None, repr=False)
    """Schema of the value itself; None if it is unknown."""
    source: str = field(default="", repr=False)
    """Python code that defines the function, for code in a sandbox that can run it without a call to the host."""
    _arguments: TypedArguments | SchemaArguments | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        if not callable(self.function):
            raise UsageError(f"the function of the tool {self.name} is {self.function!r:.80}", "use a callable")
        if self._arguments is None:
            object.__setattr__(self, "_arguments", SchemaArguments(self.input_schema))

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
        check_name(name)
        docs = read_docs(function)
        arguments = TypedArguments(signature_of(function, name), name, docs.parameters)
        return cls(
            name=name,
            function=function,
            description=docs.text if description is None else description,
            input_schema=arguments.schema,
            output_schema=returned_schema(arguments.signature),
            source=source,
            _arguments=arguments,
        )

    def renamed(self, name: str) -> Tool:
        """Return the tool under another name, without its `source`, which defines the old name."""
        return self if name == self.name else replace(self, name=name, source="")

    @property
    def arguments(self) -> TypedArguments | SchemaArguments:
        """How JSON data and Python calls become arguments."""
        assert self._arguments is not None
        return self._arguments

    @property
    def signature(self) -> inspect.Signature:
        """The signature for Python code."""
        return self.arguments.signature

    def schema(self) -> dict[str, Any]:
        """Return the tool as data, in the form of MCP."""
        data = {"name": self.name, "description": self.description, "inputSchema": self.input_schema}
        return data if self.output_schema is None else {**data, "outputSchema": self.output_schema}

    def read(self, arguments: Any) -> dict[str, Any]:
        """Convert JSON data to arguments of the types that the function takes. Raises `ToolError`."""
        try:
            if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
                raise ValueError(f"the arguments are {arguments!r:.80}, not an object")
            return self.arguments.read(arguments)
        except ValueError as error:
            raise ToolError(f"{self.name}: {error}", kind="invalid_arguments") from None

    def invoke(self, arguments: Any) -> Any:
        """Call the tool with JSON data. Returns the value, or an awaitable of it if the function is async.

        Raises `ToolError`, whatever the function raised.
        """
        given = self.read(arguments)
        try:
            value = self.arguments.run(self.function, given)
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
        return error if isinstance(error, ToolError) else ToolError(f"{self.name}: {describe(error)}")

    def as_function(self) -> Callable[..., Any]:
        """Return a Python function that checks its arguments. It raises what the tool raises."""

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = self.signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self.name}() {error}") from None
            return self.arguments.run(self.function, self.read(self.arguments.from_call(bound)))

        async def wait(*args: Any, **kwargs: Any) -> Any:
            return await call(*args, **kwargs)

        made: Any = wait if inspect.iscoroutinefunction(self.function) else call
        made.__name__ = made.__qualname__ = self.name
        made.__module__ = getattr(self.function, "__module__", None) or "tools"
        made.__signature__ = without_annotated(self.signature)
        made.__doc__ = self.arguments.help(self.function, self.description)
        return made  # type: ignore[no-any-return]


def check_name(name: Any) -> None:
    """Raise `UsageError` if the name is not a Python identifier."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"the name of a tool is {name!r:.80}", "use a Python identifier")
