"""OpenEnv's actions for environments with MCP tools: `CallToolAction` and `ListToolsAction`, also as JSON data.

OpenEnv is not imported: whoever has such an environment has loaded the classes.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from envweave.core.actions import ANYTHING, ActionRule, rule_for_type
from envweave.core.env_types import is_bare_base, is_openenv, openenv_class
from envweave.errors import InvalidActionError

CALL, LIST = "CallToolAction", "ListToolsAction"


class ToolActions(NamedTuple):
    """The two classes, as OpenEnv defines them, and those of what they are answered with."""

    call: type
    list: type
    called: type
    listed: type


def tool_actions(env: Any, declared: Any = None) -> ToolActions | None:
    """The classes, if the environment, or its class, has MCP tools or is declared to take one of them; else None."""
    cls = env if isinstance(env, type) else type(getattr(env, "unwrapped", env))
    source = declared if is_openenv(declared, CALL, LIST) else openenv_class(cls, "MCPEnvironment")
    module = sys.modules.get(source.__module__) if source is not None else None
    found = [getattr(module, name, None) for name in (CALL, LIST, "CallToolObservation", "ListToolsObservation")]
    classes = [each for each in found if isinstance(each, type)]
    return ToolActions(*classes) if len(classes) == len(found) else None


def rule_for_tools(actions: ToolActions, declared: Any = None) -> ActionRule:
    """The rule of an environment that takes these actions, and those of its own `declared` type if it has one.

    Data that fit the declared type are of that type, whatever they look like; OpenEnv reads them in the same order.
    """
    only_tools = is_openenv(declared, CALL, LIST)
    own = ANYTHING if declared is None or only_tools else rule_for_type(declared)
    tools = {"call_tool": rule_for_type(actions.call), "list_tools": rule_for_type(actions.list)}
    known = {rule.name: rule for rule in tools.values()}

    def check(action: Any) -> Any:
        asked = _asked(action, tools, known)
        if own is ANYTHING:
            fallback = tools["call_tool"].check if only_tools else ANYTHING.check
            return (fallback if asked is None else asked.check)(action)
        try:
            return own.check(action)
        except InvalidActionError:
            if asked is None:
                raise
        return asked.check(action)

    return ActionRule(check, _schema(tools, own.schema), actions.call.__name__ if own is ANYTHING else own.name)


def with_tool_results(actions: ToolActions, declared: Any = None) -> Any:
    """The type of all observations: those of tools, those of the environment's own, and bare ones."""
    bare = openenv_class(actions.called, "Observation")
    own = declared if declared is not None and not is_bare_base(declared) else bare
    return actions.called | actions.listed | own | bare


def _asked(action: Any, tools: dict[str, ActionRule], known: dict[str, ActionRule]) -> ActionRule | None:
    """The rule of an action that is about tools, by its class or its `type`; None if it is about something else."""
    if not isinstance(action, Mapping):
        return known.get(type(action).__name__) if is_openenv(type(action), CALL, LIST) else None
    kind = action.get("type", "call_tool" if "tool_name" in action else None)
    return tools.get(kind) if isinstance(kind, str) else None


def _schema(tools: dict[str, ActionRule], own: dict[str, Any] | None) -> dict[str, Any]:
    """All forms of an action. Without a type of the environment's own, the fields also stand at the root: there
    clients of OpenEnv's servers look for `tool_name` and `arguments`.
    """
    call, listing = (tools[kind].schema or {} for kind in ("call_tool", "list_tools"))
    listing = {**listing, "required": ["type"]}  # its default would make every empty object a question for tools
    if own is not None:
        return _any_of(call, listing, own)
    kinds = {"type": "string", "enum": list(tools), "default": "call_tool"}
    fields = {**call.get("properties", {}), "type": kinds}
    return {"title": call.get("title", CALL), "type": "object", "properties": fields, **_any_of(call, listing)}


def _any_of(*schemas: dict[str, Any]) -> dict[str, Any]:
    """The schemas as alternatives, with their definitions at the root."""
    shared = {name: part for schema in schemas for name, part in schema.get("$defs", {}).items()}
    parts = [{key: value for key, value in schema.items() if key != "$defs"} for schema in schemas]
    return {"anyOf": parts, **({"$defs": shared} if shared else {})}
