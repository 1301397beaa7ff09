"""How a model writes an action: as text, as code, as JSON, or as a call of a tool.

    text     the whole reply is the action's only text
    code     the Python in the fenced blocks of the reply is the action's `code`
    json     the reply has a JSON object, or another JSON value, that fits the schema of the action
    tools    the reply calls tools; each call is an action

A format says what a model must be told, which tools it is offered, and what a reply means. A reply that calls a tool is
read as such in every format that offers one.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from envweave.errors import InvalidActionError, LanguageModelError, UsageError
from envweave.lm.messages import FunctionCall, Message
from envweave.tools.tool import UNPARSED

Schema = Mapping[str, Any]

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_PYTHON = ("", "python", "py", "python3", "repl")


@dataclass(frozen=True, slots=True)
class ChatFormat(ABC):
    """A reply becomes one action, or several. `schema` describes an action."""

    name: ClassVar[str] = ""

    schema: Schema | None = None

    def instructions(self) -> str:
        """What the system prompt says about the form of a reply; empty if nothing needs to be said."""
        return ""

    def tools(self) -> list[dict[str, Any]]:
        """The tools that the model is offered, in OpenAI's form."""
        return []

    @abstractmethod
    def read(self, reply: Message) -> list[Any]:
        """The actions of a reply, as data. Raises `InvalidActionError`."""


@dataclass(frozen=True, slots=True)
class TextFormat(ChatFormat):
    """The reply is the value of one text field, or the action itself if it is a text."""

    name: ClassVar[str] = "text"
    field: str = ""

    def read(self, reply: Message) -> list[Any]:
        text = text_of(reply)
        if not text.strip():
            raise InvalidActionError("the reply is empty")
        return [{self.field: text} if self.field else text]


@dataclass(frozen=True, slots=True)
class CodeFormat(ChatFormat):
    """The reply has Python in fenced blocks; several blocks are one program."""

    name: ClassVar[str] = "code"
    field: str = "code"

    def instructions(self) -> str:
        return "Write Python code in a fenced block that begins with ```python. Only fenced code is run."

    def read(self, reply: Message) -> list[Any]:
        code = "\n".join(
            body.rstrip("\n") for _, language, body in _FENCE.findall(text_of(reply)) if language.lower() in _PYTHON
        )
        if not code.strip():
            raise InvalidActionError("the reply has no fenced Python code")
        return [{self.field: code}]


@dataclass(frozen=True, slots=True)
class JSONFormat(ChatFormat):
    """The reply has the action as JSON: all of it, the last fenced block, or the last object in the text."""

    name: ClassVar[str] = "json"

    def instructions(self) -> str:
        return (
            f"Reply with JSON that fits this schema:\n{json.dumps(plain_schema(self.schema or {}), ensure_ascii=False)}"
        )

    def read(self, reply: Message) -> list[Any]:
        text = text_of(reply).strip()
        blocks = [body for _, language, body in _FENCE.findall(text) if language.lower() in ("", "json")]
        for candidate in (text, *reversed(blocks)):
            try:
                return [json.loads(candidate)]
            except (ValueError, RecursionError):
                continue
        found = last_object(text)
        if found is None:
            raise InvalidActionError("the reply has no JSON")
        return [found]


@dataclass(frozen=True, slots=True)
class ActionToolFormat(JSONFormat):
    """The action is the arguments of one tool. JSON in the text is read too."""

    name: ClassVar[str] = "tools"
    tool: str = "act"
    description: str = ""

    def instructions(self) -> str:
        return ""

    def tools(self) -> list[dict[str, Any]]:
        return [tool_data(self.tool, self.description, plain_schema(self.schema or {}))]

    def read(self, reply: Message) -> list[Any]:
        if not reply.tool_calls:
            return super(ActionToolFormat, self).read(reply)
        if len(reply.tool_calls) > 1:
            raise InvalidActionError(f"{len(reply.tool_calls)} tool calls; one action is made at a time")
        call = reply.tool_calls[0]
        if call.name != self.tool:
            raise InvalidActionError(f"there is no tool {call.name!r:.80}; the only one is {self.tool!r}")
        return [call.parse()]


@dataclass(frozen=True, slots=True)
class ToolsFormat(ChatFormat):
    """Each tool call of the reply is an action with `tool_name` and `arguments`."""

    name: ClassVar[str] = "tools"
    listed: tuple[Schema, ...] = field(default=(), repr=False)
    """The tools in MCP's form: `name`, `description`, `inputSchema`."""

    def tools(self) -> list[dict[str, Any]]:
        return [tool_data(tool["name"], tool.get("description") or "", tool["inputSchema"]) for tool in self.listed]

    def read(self, reply: Message) -> list[Any]:
        if not reply.tool_calls:
            raise InvalidActionError("the reply calls no tool")
        return [self._action(call) for call in reply.tool_calls]

    def _action(self, call: FunctionCall) -> dict[str, Any]:
        """A call whose arguments are not an object is passed on, so that the environment's rule applies to it."""
        try:
            arguments: Any = call.parse()
        except LanguageModelError:
            arguments = {UNPARSED: call.arguments}
        return {"type": "call_tool", "tool_name": call.name, "arguments": arguments}


def format_for(
    schema: Schema | None, *, tools: list[dict[str, Any]] | None = None, name: str = "auto", description: str = ""
) -> ChatFormat:
    """The format for actions with this schema: the one of that name, or the most natural one."""
    text = text_field(schema)
    if name == "auto":
        if takes_tool_calls(schema):
            name = "tools"
        elif text is None:
            name = "json"
        else:
            name = "code" if text == "code" else "text"
    match name:
        case "tools" if takes_tool_calls(schema):
            return ToolsFormat(schema, tuple(tools or ()))
        case "tools":
            return ActionToolFormat(schema, description=description)
        case "json":
            return JSONFormat(schema)
        case "text" | "code" if text is None:
            raise UsageError(f"an action of this environment is not one text, so a reply cannot be {name}", "use json")
        case "text":
            return TextFormat(schema, str(text))
        case "code":
            return CodeFormat(schema, text or "code")
    raise UsageError(f"no chat format {name!r}", "use auto, text, code, json or tools")


def text_field(schema: Schema | None) -> str | None:
    """The only required field of an action if that is a text, "" if the action is a text or anything; else None."""
    if schema is None or schema.get("type") == "string":
        return ""
    properties = schema.get("properties", {})
    required = schema.get("required", [])
    if len(required) != 1 or schema.get("type") != "object":
        return None
    only = properties.get(required[0], {})
    return str(required[0]) if only.get("type") == "string" and "enum" not in only and "const" not in only else None


def takes_tool_calls(schema: Schema | None) -> bool:
    """Whether an action may be the call of a tool, in OpenEnv's form: `tool_name` with `arguments`."""
    if schema is None:
        return False
    known = schema.get("$defs", {})
    variants = [known.get(str(one.get("$ref", "")).rpartition("/")[2], one) for one in schema.get("anyOf", ())]
    return any({"tool_name", "arguments"} <= one.get("properties", {}).keys() for one in (schema, *variants))


def tool_data(name: str, description: str, parameters: Schema) -> dict[str, Any]:
    """A tool in OpenAI's form."""
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": dict(parameters)},
    }


def plain_schema(schema: Schema) -> dict[str, Any]:
    """The schema without the fields that a model need not know."""
    kept = {key: value for key, value in schema.items() if key not in ("title", "additionalProperties")}
    if "properties" in kept:
        shown = {name: one for name, one in kept["properties"].items() if name != "metadata"}
        kept["properties"] = {name: {k: v for k, v in one.items() if k != "title"} for name, one in shown.items()}
    return kept


def text_of(reply: Message) -> str:
    """The text of a message; that of its parts if it has several."""
    if isinstance(reply.content, str):
        return reply.content
    return "".join(str(part.get("text", "")) for part in reply.content or () if part.get("type") == "text")


def last_object(text: str) -> Any:
    """The last JSON object or list that a text contains; None if there is none. Takes linear time."""
    decoder = json.JSONDecoder()
    found, place, tries = None, 0, 0
    while tries < 100:
        opened = re.compile(r"[{\[]").search(text, place)
        if opened is None:
            break
        tries += 1
        try:
            found, place = decoder.raw_decode(text, opened.start())
        except (ValueError, RecursionError):
            place = opened.start() + 1
    return found
