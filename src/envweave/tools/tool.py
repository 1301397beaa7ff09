"""One tool: a function, what it is called, and what it takes and gives."""

from __future__ import annotations

import asyncio
import functools
import inspect
import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from envweave.errors import UsageError, describe
from envweave.tools.docstring import read_docs
from envweave.tools.error import ToolError
from envweave.tools.loose import LooseArguments
from envweave.tools.signature import TypedArguments, returned_schema, shown, signature_of


class Arguments(Protocol):
    """How JSON data becomes arguments."""

    def read(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by the names of the function's parameters. Raises `ValueError`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Tool:
    """A function that an agent may call. `Tool.of(function)` reads all of this off the function.

    Made by hand, its function is called with keywords that are the properties of the `input_schema`.
    """

    name: str
    """A Python identifier."""
    function: Callable[..., Any] = field(repr=False)
    """May be async."""
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}}, repr=False)
    output_schema: dict[str, Any] | None = field(default=None, repr=False)
    """Of the value itself; None if nothing is known of it."""
    source: str = field(default="", repr=False)
    """Python that defines a function of this name, for code in a sandbox that need not call across the boundary."""
    _arguments: Arguments | None = field(default=None, repr=False)
    _signature: inspect.Signature | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_name(self.name)
        if not callable(self.function):
            raise UsageError(f"the function of the tool {self.name} is {self.function!r:.80}", "use a callable")
        if self._arguments is None or self._signature is None:
            loose = LooseArguments(self.input_schema)
            object.__setattr__(self, "_arguments", loose)
            object.__setattr__(self, "_signature", loose.signature)

    @classmethod
    def of(
        cls, function: Callable[..., Any], *, name: str | None = None, description: str | None = None, source: str = ""
    ) -> Tool:
        """The tool that a function is: its signature gives the schema, its docstring the descriptions.

        Raises `UsageError` for `*args`, `**kwargs`, and types that JSON cannot carry.
        """
        if not callable(function):
            raise UsageError(f"a {type(function).__name__} is not a tool", "pass a function or a Tool")
        name = name or getattr(function, "__name__", "") or type(function).__name__
        check_name(name)
        docs = read_docs(function)
        signature = signature_of(function, name)
        arguments = TypedArguments(signature, name, docs.parameters)
        return cls(
            name=name,
            function=function,
            description=docs.text if description is None else description,
            input_schema=arguments.schema,
            output_schema=returned_schema(signature),
            source=source,
            _arguments=arguments,
            _signature=signature,
        )

    def renamed(self, name: str) -> Tool:
        """The same tool under another name; its `source` knows the old one only, and is left out."""
        return self if name == self.name else replace(self, name=name, source="")

    @property
    def signature(self) -> inspect.Signature:
        """As Python code calls it."""
        assert self._signature is not None
        return self._signature

    def schema(self) -> dict[str, Any]:
        """The tool as data, in MCP's words."""
        told = {"name": self.name, "description": self.description, "inputSchema": self.input_schema}
        return told if self.output_schema is None else {**told, "outputSchema": self.output_schema}

    def read(self, arguments: Any) -> dict[str, Any]:
        """JSON data as arguments of the types that the function takes. Raises `ToolError`."""
        assert self._arguments is not None
        try:
            if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
                raise ValueError(f"the arguments are {arguments!r:.80}, not an object")
            return self._arguments.read(arguments)
        except ValueError as error:
            raise ToolError(f"{self.name}: {error}", kind="invalid_arguments") from None

    def invoke(self, arguments: Any) -> Any:
        """Call it with JSON data: the value, or an awaitable of it if the function is async.

        Raises `ToolError`, and nothing else that a tool may have raised.
        """
        given = self.read(arguments)
        try:
            value = self._run(given)
        except (Exception, SystemExit) as error:  # a tool may raise anything
            raise self._failure(error) from error
        return self._awaited(value) if inspect.isawaitable(value) else value

    async def _awaited(self, value: Any) -> Any:
        try:
            return await value
        except (Exception, SystemExit) as error:  # as above
            raise self._failure(error) from error

    async def wait(self, arguments: Any) -> Any:
        """`invoke` on an event loop, which goes on meanwhile: a function that is not async runs in a thread."""
        if inspect.iscoroutinefunction(self.function):
            return await self.invoke(arguments)
        value = await asyncio.to_thread(self.invoke, arguments)
        return await value if inspect.isawaitable(value) else value

    def _failure(self, error: BaseException) -> ToolError:
        return error if isinstance(error, ToolError) else ToolError(f"{self.name}: {describe(error)}")

    def _run(self, given: dict[str, Any]) -> Any:
        if isinstance(self._arguments, LooseArguments):
            return self.function(**given)
        bound = inspect.BoundArguments(self.signature, given)
        bound.apply_defaults()
        return self.function(*bound.args, **bound.kwargs)

    def as_function(self) -> Callable[..., Any]:
        """The tool as Python code calls it, with its arguments checked. It raises what the tool raises."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._run(self.read(self._bound(args, kwargs)))

        async def wait(*args: Any, **kwargs: Any) -> Any:
            return await call(*args, **kwargs)

        made: Any = wait if inspect.iscoroutinefunction(self.function) else call
        made.__name__ = made.__qualname__ = self.name
        made.__module__ = getattr(self.function, "__module__", None) or "tools"
        made.__signature__ = shown(self.signature)
        made.__doc__ = self._help()
        return made  # type: ignore[no-any-return]

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}() {error}") from None
        if isinstance(self._arguments, LooseArguments):
            return self._arguments.named(bound)
        return bound.arguments

    def _help(self) -> str:
        if isinstance(self._arguments, LooseArguments):
            return self._arguments.help(self.description)
        own = inspect.getdoc(self.function) if not isinstance(self.function, functools.partial) else None
        return own if own and read_docs(self.function).text == self.description else self.description


def check_name(name: Any) -> None:
    """Raises `UsageError` for a name by which Python code could not call a tool."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise UsageError(f"the name of a tool is {name!r:.80}", "use a Python identifier")
