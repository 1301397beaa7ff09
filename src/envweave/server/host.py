"""One environment behind the wire: JSON data in, JSON bytes out. It does no I/O of its own."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, Protocol

from envweave.chat import ChatObservation
from envweave.core.branching import BranchingOperations, EpisodeSnapshot
from envweave.core.flow import Flow, call_it, run
from envweave.core.jsonable import to_json
from envweave.core.local import LocalBackend
from envweave.core.openenv import OpenEnvTools, ToolOpenEnv
from envweave.core.referee import BUSY, NEW, RUNNING, WAITING
from envweave.errors import (
    EnvError,
    EnvWeaveError,
    NotJSONableError,
    ProtocolError,
    UsageError,
)
from envweave.requests import EpisodeEnd, Request
from envweave.tools.environment import NOT_FOUND
from envweave.tools.error import ToolError
from envweave.tools.output import is_wrapped
from envweave.tools.registry import ToolRegistry, registry_of
from envweave.wire.codec import encode
from envweave.wire.faults import fault_to_data
from envweave.wire.protocol import ERROR, RESULT
from envweave.wire.results import Result, openenv_data, result_to_data


class Form(Enum):
    """How results are written."""

    EXTENDED = "extended"
    OPENENV = "openenv"
    OPENENV_HTTP = "openenv_http"


class Reply(NamedTuple):
    """The answer to one call."""

    type: str
    body: bytes
    """The JSON of its `data`."""
    episode: str | None = None
    """The episode that is under way afterwards."""
    code: str = ""
    """Of the error, if it is one."""


def fault(
    error: EnvWeaveError,
    *,
    openenv_code: str = "",
    extra: dict[str, Any] | None = None,
    episode: str | None = None,
    debug: bool = False,
) -> Reply:
    """An error as a reply; `extra` stands beside its message."""
    data = fault_to_data(error, openenv_code, debug=debug)
    return Reply(ERROR, encode({**data, **extra} if extra else data), episode, error.code)


class CheckedAction(NamedTuple):
    """An action that the rules have accepted, so that the step does not check it again."""

    native: Any


class Shelf(Protocol):
    """Where snapshots are kept."""

    def put(self, snapshot: EpisodeSnapshot) -> str:
        """Keep it; gives its name."""

    def get(self, name: Any) -> EpisodeSnapshot:
        """Raises `UsageError` for a name it does not know."""


class Host:
    """Runs calls on one environment. Nothing is raised: a failure is a reply."""

    def __init__(self, flows: BranchingOperations, shelf: Shelf, *, owned: bool = True, debug: bool = False) -> None:
        """An environment that is not `owned` outlives this host and is not closed with it."""
        self.flows = flows
        self._shelf = shelf
        self._owned = owned
        self._debug = debug
        self._told: tuple[Request, ...] | None = None
        """The requests of the last extended result."""
        self._tools_told: tuple[Any, ToolRegistry] | None = None
        """What the environment last gave as its tools, and what that is."""

    def handling(self, call: str, data: Any, form: Form) -> Flow[Reply]:
        """The way of one call."""
        try:
            if isinstance(self.flows.env, ToolOpenEnv) and call != "close":
                yield self.flows.env.connect
            type, body = yield from _CALLS[call](self, data, form)
        except EnvWeaveError as error:
            return fault(error, episode=self.episode, debug=self._debug)
        return Reply(type, body, self.episode)

    @property
    def multi_agent(self) -> bool:
        return self.flows.multi_agent

    @property
    def facts(self) -> dict[str, Any]:
        """What clients are told about the environment."""
        facts = {
            "multi_agent": self.multi_agent,
            "action_schema": self.flows.action_schema(),
            "observation_schema": self.flows.observation_schema(),
            "state_schema": self.flows.state_schema(),
        }
        tasks = self.flows.tasks
        return facts if tasks is None else {**facts, "num_tasks": len(tasks)}

    def step(self, action: Any, form: Form) -> Reply:
        """The call that comes most, for a sync environment, without the detour of a flow."""
        env: LocalBackend = self.flows  # type: ignore[assignment]
        if env.referee.phase is NEW and form is not Form.EXTENDED:
            return run(self.handling("step", action, form), call_it)
        try:
            is_checked = action.__class__ is CheckedAction
            result = env.advance(action.native if is_checked else env.admit(action))
            body = self._body(result, form)
        except EnvWeaveError as error:
            return fault(error, episode=self.episode, debug=self._debug)
        referee = env.referee
        return Reply(RESULT, body, referee.episode_id if referee.phase is RUNNING else self.episode)

    @property
    def episode(self) -> str | None:
        referee = self.flows.referee
        return referee.episode_id if referee.phase in (RUNNING, WAITING, BUSY) else None

    def check(self, action: Any) -> CheckedAction:
        """Check an action before any action of its batch is used. Raises `UsageError`."""
        return CheckedAction(self.flows.referee.admit(action))

    def admitted(self, action: Any) -> Reply:
        """The outcome of `check` as a reply."""
        try:
            self.check(action)
        except UsageError as error:
            return fault(error, episode=self.episode)
        return Reply("admitted", b"null", self.episode)

    # The calls.

    def _reset(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        own = dict(_mapping(data))
        seed, options, episode_id = own.pop("seed", None), own.pop("options", None), own.pop("episode_id", None)
        if isinstance(seed, float) and seed.is_integer():  # JSON has one kind of number
            seed = int(seed)
        if not (seed is None or (isinstance(seed, int) and not isinstance(seed, bool))):
            raise UsageError(f"seed is {seed!r:.80}", "use a whole number")
        if not (episode_id is None or isinstance(episode_id, str)):
            raise UsageError(f"episode_id is {episode_id!r:.80}", "use a string")
        if not (options is None or isinstance(options, dict)):
            raise UsageError(f"options are {options!r:.80}", "use an object")
        given = {"seed": seed, "options": options, "episode_id": episode_id, "task": own.pop("task", None)}
        own |= {name: value for name, value in given.items() if value is not None}
        result = yield from self.flows.resetting(own)
        return RESULT, self._body(result, form, self.flows.referee.episode_id)

    def _step(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        if self.flows.referee.phase is NEW and form is not Form.EXTENDED:  # OpenEnv's protocol does not ask for a reset
            yield from self.flows.beginning()
        is_checked = data.__class__ is CheckedAction
        flow = self.flows.advancing(data.native) if is_checked else self.flows.stepping(data)
        return RESULT, self._body((yield from flow), form)

    def _respond(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        response = {"request_id": str(_mapping(data).get("request_id", "")), "value": data.get("value")}
        return RESULT, self._body((yield from self.flows.responding(response)), form)

    def _state(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        return "state", encode(to_json((yield from self.flows.stating()), where="state"))

    def _render(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        return "render", encode(to_json((yield from self.flows.rendering()), where="render"))

    def _tasks(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        return "tasks", encode((yield from self.flows.listing_tasks(_mapping(data or {}))))

    def _close(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        farewell = (yield from self.flows.closing()) if self._owned else self.flows.referee.close()
        return "closed", encode({"requests": _written_ends(farewell)})

    # Tools. A tool that fails is a result like any other: the session lives, and so does the episode.

    def _tools(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        found = yield from self._toolbox()
        if not isinstance(found, OpenEnvTools):
            return "tools", encode({"tools": found.schemas()})
        return "tools", (yield from self._told_by(found.list, "tools"))

    def _call_tool(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        given, toolbox = _mapping(data), (yield from self._toolbox())
        name, arguments = str(given.get("name")), given.get("arguments") or {}
        if isinstance(toolbox, OpenEnvTools):
            return "tool_result", (yield from self._told_by(partial(toolbox.call, name, arguments), "whole"))
        to_action = getattr(self.flows.env, "tool_action", None)
        if to_action is not None:
            return "tool_result", (yield from self._stepped(to_action(name, arguments), toolbox))
        try:
            tool = toolbox.find(given.get("name"))
            call = partial(toolbox.call, tool.name) if isinstance(self.flows, LocalBackend) else tool.wait
            value = yield from self.flows.using(partial(call, arguments))
            data = {
                "value": to_json(value, where=f"the result of {tool.name}"),
                "wrapped": is_wrapped(tool.output_schema),
            }
            return "tool_result", encode(data)
        except (ToolError, NotJSONableError) as error:
            message = str(error).encode(errors="backslashreplace").decode()
            return "tool_result", encode({"error": {"kind": getattr(error, "kind", "failed"), "message": message}})

    def _stepped(self, action: Any, toolbox: ToolRegistry) -> Flow[bytes]:
        """A call in an environment whose steps are calls: it is counted and scored, and may end the episode."""
        if self.flows.referee.phase is NEW:
            yield from self.flows.resetting({})
        told = (yield from self.flows.stepping(action)).observation
        if isinstance(told, ChatObservation):
            text = "\n".join(str(message.get("content")) for message in told.messages)
            return encode({"value": text, "wrapped": False})
        if told.error is not None:
            kind = "not_found" if told.error["error_type"] == NOT_FOUND else "failed"
            return encode({"error": {"kind": kind, "message": told.error["message"]}})
        wrapped = is_wrapped(toolbox.find(told.tool_name).output_schema)
        return encode({"value": told.text or to_json(told.result), "wrapped": wrapped})

    def _told_by(self, call: Callable[[], Any], name: str) -> Flow[bytes]:
        """What OpenEnv's tools answered, under this name, or why they did not. They need no episode."""
        self.flows.referee.admit_reset()
        try:
            return encode({name: to_json((yield call), where="the answer")})
        except (Exception, SystemExit) as error:  # a tool may raise anything
            message = str(error).encode(errors="backslashreplace").decode()
            return encode({"error": {"kind": "failed", "message": message}})

    def _toolbox(self) -> Flow[ToolRegistry | OpenEnvTools]:
        """The environment's tools. A list of functions is read anew only when it has changed."""
        told = yield from self.flows.tooling()
        if isinstance(told, OpenEnvTools):
            return told
        if self._tools_told is None or self._tools_told[0] != told:
            try:
                self._tools_told = copy(told) if isinstance(told, list | dict) else told, registry_of(told)
            except UsageError as error:
                raise EnvError(f"the tools of {self.flows.id} cannot be used: {error.message}", error.hint) from error
        return self._tools_told[1]

    # Snapshots stay on this side; a client holds their names.

    def _snapshot(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        name = self._shelf.put((yield from self.flows.snapshotting()))
        return "snapshot", encode({"snapshot": name})

    def _restore(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        yield from self.flows.restoring(self._shelf.get(_mapping(data).get("snapshot")))
        self._told = None
        pending = to_json(self.flows.referee.pending, where="pending")
        data = {"pending": pending, "episode_id": self.flows.referee.episode_id}
        task = self.flows.referee.task
        return "restored", encode(data if task is None else {**data, "task_id": task.id})

    def _fork(self, data: Any, form: Form) -> Flow[tuple[str, bytes]]:
        """Half of a fork: the snapshot, and the name of the twin that shall restore it."""
        name = self._shelf.put((yield from self.flows.copying()))
        return "snapshot", encode({"snapshot": name, "env_id": self.flows.fork_name()})

    # Writing.

    def _body(self, result: Result, form: Form, episode_id: str | None = None) -> bytes:
        try:
            if form is not Form.EXTENDED:
                data = openenv_data(result)
                if form is Form.OPENENV_HTTP:
                    data.setdefault("metadata", None)
                return encode(data)
            told, self._told = self._told, result.requests
            data = result_to_data(result, self.flows.referee.pending, told)
            if episode_id is not None:
                data["episode_id"] = episode_id
            return encode(data)
        except NotJSONableError as error:
            error.requests = self._lost(result, error)
            raise

    def _lost(self, result: Result, error: NotJSONableError) -> tuple[Request, ...]:
        """What can still be told of a result that cannot cross: the ends, without what the author put into them."""
        self._told = None
        ends = tuple(replace(r, final_info={}) for r in result.requests if isinstance(r, EpisodeEnd))
        referee = self.flows.referee
        return (*ends, *referee.abort(error).requests) if referee.phase in (RUNNING, WAITING) else ends


def _mapping(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ProtocolError(f"`data` is a {type(data).__name__}, not an object")
    return data


def _written_ends(requests: tuple[Request, ...]) -> Any:
    try:
        return to_json(requests, where="requests")
    except NotJSONableError:
        return to_json([replace(r, final_info={}) for r in requests if isinstance(r, EpisodeEnd)])


_CALLS: dict[str, Callable[[Host, Any, Form], Flow[tuple[str, bytes]]]] = {
    "reset": Host._reset,
    "step": Host._step,
    "respond": Host._respond,
    "state": Host._state,
    "render": Host._render,
    "snapshot": Host._snapshot,
    "restore": Host._restore,
    "fork": Host._fork,
    "tasks": Host._tasks,
    "tools": Host._tools,
    "call_tool": Host._call_tool,
    "close": Host._close,
}
