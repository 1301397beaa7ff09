"""The tools of a session's environment, for whoever asks over MCP or over OpenEnv's JSON-RPC."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from envweave.server.host import Form, Reply
from envweave.server.session import Session, give
from envweave.server.sessions import Sessions
from envweave.tools.error import ToolError
from envweave.wire.codec import decode
from envweave.wire.faults import fault_from_data
from envweave.wire.protocol import ERROR


class Outcome(NamedTuple):
    """What came of a call: a value, or why there is none."""

    value: Any = None
    whole: Any = None
    """The answer of OpenEnv's tools, which is in the form of MCP already; `value` is what it says."""
    wrapped: bool = False
    """Whether the tool's schema wants the value in an object; see `envweave.tools.output`."""
    kind: str = ""
    """Of the `ToolError`, if it is one."""
    message: str = ""


class Toolbox:
    """Lists and calls tools. Raises `EnvWeaveError` for what is not the tool's failure but the session's."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._listed: WeakKeyDictionary[Session, list[dict[str, Any]]] = WeakKeyDictionary()

    async def list(self, session_id: str | None) -> list[dict[str, Any]]:
        """The tools as data, in MCP's words. Without a session they are those of the default session.

        While a call runs, they are what they were before it: who asks whether the server is there shall not wait.
        """
        session = await self._session(session_id)
        if session.began is None or session not in self._listed:
            found = await self._run(session, "tools", None)
            if "error" in found:
                raise ToolError(found["error"]["message"])
            self._listed[session] = found["tools"]
        return self._listed[session]

    async def call(self, session_id: str | None, name: str, arguments: dict[str, Any]) -> Outcome:
        """Call a tool, when the calls before it have ended. The first call begins an episode, if there is none."""
        session = await self._session(session_id)
        found = await self._run(session, "call_tool", {"name": name, "arguments": arguments})
        if "error" in found:
            return Outcome(**found["error"])
        if "whole" in found:
            return Outcome(value_in(found["whole"]), whole=found["whole"])
        return Outcome(found["value"], wrapped=found["wrapped"])

    async def _session(self, id: str | None) -> Session:
        if id is not None:
            session = self._sessions.find(id)
            if session.owner is None:
                session.lease = self._sessions.settings.idle_timeout
            return session
        session = await self._sessions.default()
        if session.runner is None:  # it was lost, and nobody is there who would reset it
            await self._run(session, "reset", {})
        return session

    async def _run(self, session: Session, call: str, data: Any) -> Any:
        answer = self._sessions.loop.create_future()
        session.call(call, data, Form.EXTENDED, partial(give, answer))
        reply: Reply = await answer
        found = decode(reply.body)
        if reply.type == ERROR:
            raise fault_from_data(found)
        return found


def value_in(whole: Any) -> Any:
    """What the result of an MCP server says: its data, or else its content. A step of a tool has it as `result`."""
    result = whole["result"] if isinstance(whole, dict) and "tool_name" in whole else whole
    if not isinstance(result, dict) or "content" not in result:
        return result
    return result["content"] if result.get("data") is None else result["data"]
