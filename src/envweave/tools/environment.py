"""Environments whose actions are calls of tools.

    class Shop(ew.ToolEnvironment):
        def reset(self, *, task):
            self.cart = []
            return ew.ToolObservation(task.prompt)

        @ew.tool
        def add(self, item: str) -> str:
            \"\"\"Put an item into the cart.\"\"\"
            self.cart.append(item)
            return f"the cart has {len(self.cart)} items"

        @ew.tool
        def buy(self) -> ew.ToolObservation:
            \"\"\"Buy what is in the cart. This ends the episode.\"\"\"
            return ew.ToolObservation("bought", reward=float(self.cart == self.wanted), done=True)

A call is a step. A tool returns a value, which earns 0.0, or a whole observation with a reward and an end. A call that
names no tool, has wrong arguments or fails is an observation too, which says why: the model caused it. All that the
model is told is bounded by `max_result_chars`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ClassVar, Literal, TypeVar

from envweave.core.environment import Environment
from envweave.core.jsonable import to_json
from envweave.core.lookup import load
from envweave.errors import EnvError, NotJSONableError
from envweave.tools.error import ToolError
from envweave.tools.registry import ToolRegistry
from envweave.types import Action, Observation

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__envweave_tool__"


def tool(method: F) -> F:
    """Mark a method of a `ToolEnvironment` as a tool: its signature and docstring describe it to the model."""
    setattr(method, _MARK, True)
    return method


@dataclass
class CallTool(Action):
    """Call a tool by its name, with arguments that fit its schema."""

    tool_name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    type: Literal["call_tool"] = "call_tool"


@dataclass
class ToolObservation(Observation):
    """What a tool returned, or why it did not."""

    text: str = ""
    """What the model is told in place of a result, such as the task at the start of an episode."""
    tool_name: str = ""
    result: Any = None
    error: dict[str, str] | None = None
    """`error_type` and `message`, if the call failed."""


NOT_FOUND = "tool_not_found"
ERROR_TYPES = {
    "not_found": NOT_FOUND,
    "invalid_arguments": "invalid_args",
    "timeout": "timeout",
    "server_gone": "transport_error",
    "bad_answer": "transport_error",
}
"""OpenEnv's names for the kinds of `ToolError`; another kind is `execution_error`."""


class ToolEnvironment(Environment[CallTool, ToolObservation]):
    """Each step calls a tool: a method that is marked with `@tool`, or a tool of an MCP server.

    Subclasses define `reset`, which returns a `ToolObservation` with the task. `servers` is the configuration of MCP
    servers by name, as for `connect_mcp`; it needs the extra `mcp`.
    """

    penalty: ClassVar[float | None] = 0.0
    """The reward of a call that names no tool or has wrong arguments."""
    tool_timeout: ClassVar[float | None] = None
    """Seconds that a tool may take, in a thread of its own. One that takes longer is given up; until it has ended, no
    other runs, and `reset` raises `EnvError`.
    """
    max_result_chars: ClassVar[int] = 100_000
    """Characters of a result as JSON, of a text and of an error; a longer one is cut."""

    _servers: Any = None
    _tools: ToolRegistry | None = None
    _hung: threading.Thread | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "reset" in vars(cls):
            cls.reset = _after_hung_tools(cls.reset)  # type: ignore[method-assign]

    def __init__(self, *, servers: Any = None) -> None:
        if servers is not None:
            self._servers = load("envweave.tools.mcp:connect_mcp", extra="mcp")(servers)

    @property
    def tools(self) -> ToolRegistry:
        """All tools; the schemas reach the model."""
        if self._tools is None:
            names = dict.fromkeys(name for cls in reversed(type(self).__mro__) for name in vars(cls))
            marked = [name for name in names if getattr(getattr(type(self), name, None), _MARK, False)]
            served = self._servers.registry if self._servers is not None else ()
            self._tools = ToolRegistry([getattr(self, name) for name in marked], list(served))
        return self._tools

    def step(self, action: CallTool) -> ToolObservation:
        name = action.tool_name
        try:
            value = self._call(action)
        except ToolError as error:
            reward = self.penalty if error.kind in ("not_found", "invalid_arguments") else 0.0
            failure = {"error_type": ERROR_TYPES.get(error.kind, "execution_error"), "message": self._cut(str(error))}
            return ToolObservation(tool_name=name, error=failure, reward=reward)
        seen = value if isinstance(value, ToolObservation) else ToolObservation(result=value)
        reward = 0.0 if seen.reward is None and not seen.done else seen.reward
        told = {"text": self._cut(seen.text), "result": self._bounded(seen.result)}
        return replace(seen, tool_name=name, reward=reward, **told)

    def tool_action(self, name: str, arguments: dict[str, Any]) -> CallTool:
        """The step that calls a tool; a server takes calls over MCP as steps."""
        return CallTool(name, arguments)

    def _call(self, action: CallTool) -> Any:
        if self._is_hung:
            raise ToolError(f"{action.tool_name}: an earlier call still runs", kind="timeout")
        if self.tool_timeout is None:
            return self.tools.call(action.tool_name, action.arguments)
        outcome: list[Any] = []

        def work() -> None:
            try:
                outcome.append((self.tools.call(action.tool_name, action.arguments), None))
            except BaseException as error:  # for the caller, whatever it is
                outcome.append((None, error))

        self._hung = threading.Thread(target=work, name=f"tool-{action.tool_name}", daemon=True)
        self._hung.start()
        self._hung.join(self.tool_timeout)
        if not outcome:
            raise ToolError(f"{action.tool_name}: no result in {self.tool_timeout:g} s", kind="timeout")
        self._hung = None
        value, failure = outcome[0]
        if failure is not None:
            raise failure
        return value

    @property
    def _is_hung(self) -> bool:
        return self._hung is not None and self._hung.is_alive()

    def _bounded(self, value: Any) -> Any:
        """The value as JSON data, or the beginning of its text if it is too long or has no JSON form."""
        try:
            data = to_json(value)
        except NotJSONableError:
            data = repr(value)
        if isinstance(data, str):
            return self._cut(data)
        text = json.dumps(data, ensure_ascii=False)
        if len(text) > self.max_result_chars:
            return self._cut(text)
        sendable = _sendable(text)
        return data if sendable == text else json.loads(sendable)

    def _cut(self, text: str) -> str:
        most = self.max_result_chars
        return _sendable(text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} characters left out]")

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles make their own registry."""
        return {name: value for name, value in vars(self).items() if name != "_tools"}

    def to_messages(self, observation: ToolObservation) -> str:
        """What the model is told: the text, the result or the reason of the failure."""
        if observation.error is not None:
            return f"error: {observation.error['message']}"
        if observation.text or not observation.tool_name:
            return observation.text
        result = observation.result
        return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)

    def close(self) -> None:
        if self._servers is not None:
            self._servers.close()


def _after_hung_tools(reset: Callable[..., Any]) -> Callable[..., Any]:
    """`reset`, unless a tool of an earlier episode still runs: it would change the next one."""

    @wraps(reset)
    def checked(self: ToolEnvironment, *args: Any, **options: Any) -> Any:
        if self._is_hung:
            raise EnvError(f"a tool of {type(self).__name__} still runs", "close the environment and make another one")
        return reset(self, *args, **options)

    return checked


def _sendable(text: str) -> str:
    """The text without lone surrogates, which cannot be written in UTF-8."""
    return text.encode(errors="replace").decode()
