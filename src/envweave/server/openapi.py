"""`/openapi.json`: what the routes take and give. Written here, because the routes themselves go around FastAPI."""

from __future__ import annotations

from typing import Any, NamedTuple

from envweave.server.offer import ANYTHING, Offer
from envweave.server.reading import LONGEST_ID
from envweave.server.settings import Settings
from envweave.wire.protocol import BRANCHING, CALL_HEADER, SESSION_HEADER

Schema = dict[str, Any]

_STANDARD = ("seed", "episode_id", "options")
_MOST = 2**53


class Route(NamedTuple):
    """One operation, as far as it is the same for every environment."""

    path: str
    method: str
    name: str
    summary: str
    answer: str
    """The component that answers."""
    member: str = ""
    """The optional member of an environment that it needs."""
    needs_body: bool = False
    statuses: tuple[int, ...] = ()
    has_session: bool = True


_STEPPING = (404, 409, 422, 500, 503)
ROUTES = (
    Route("/reset", "post", "reset", "Begin an episode", "Result", statuses=_STEPPING),
    Route("/step", "post", "step", "Act", "Result", needs_body=True, statuses=_STEPPING),
    Route("/respond", "post", "respond", "Answer a tool call", "Result", "respond", True, _STEPPING),
    Route("/state", "get", "state", "Where the episode stands", "State", statuses=_STEPPING),
    Route("/render", "post", "render", "A picture of the environment", "Anything", "render", statuses=_STEPPING),
    Route(
        "/tasks", "post", "tasks", "The number of tasks, the splits, and some IDs", "Tasks", "tasks", statuses=_STEPPING
    ),
    Route("/snapshot", "post", "snapshot", "Remember this point", "Snapshot", "snapshot", statuses=_STEPPING),
    Route("/restore", "post", "restore", "Go back to a snapshot", "Restored", "restore", True, _STEPPING),
    Route("/fork", "post", "fork", "A second session at the same point", "Forked", "snapshot", statuses=_STEPPING),
    Route("/sessions", "post", "open", "Open a session", "Opened", statuses=(409, 422, 500, 503), has_session=False),
    Route("/sessions/{session_id}", "delete", "close", "Close a session", "Closed", "", False, (404, 500), False),
    Route("/mcp", "post", "mcp", "The environment's tools, over MCP or OpenEnv's JSON-RPC", "Anything"),
    Route("/health", "get", "health", "Whether the server runs; needs no token", "Health", has_session=False),
    Route("/metadata", "get", "metadata", "What is served", "Metadata", has_session=False),
    Route("/schema", "get", "schema", "The JSON Schemas of actions, observations, state", "Schemas", has_session=False),
    Route("/metrics", "get", "metrics", "Counters for Prometheus", "", has_session=False),
)
MEANINGS = {
    400: "A header is wrong.",
    401: "The token is missing or wrong.",
    403: "A browser page of this origin is not welcome.",
    404: "There is no such session.",
    409: "Not now: before a reset, after the end, out of order, or while another call runs.",
    413: "Too large.",
    422: "Does not fit, or this environment cannot do it.",
    500: "The environment failed.",
    503: "There is no room for another session.",
}


def description(offer: Offer, settings: Settings) -> Schema:
    """The whole document. Made anew each time: a first environment may have told more than its class."""
    parts = _Parts()
    bodies = _bodies(offer, settings, parts)
    paths: Schema = {}
    for route in ROUTES:
        allowed = route.name not in BRANCHING or settings.allow_branching
        if allowed and (not route.member or offer.may_have(route.member)):
            paths.setdefault(route.path, {})[route.method] = _operation(route, bodies.get(route.name), settings)
    parts.schemas.update(_answers(offer, parts))
    about = offer.spec.description or "An environment."
    document: Schema = {
        "openapi": "3.1.0",
        "info": {"title": f"envweave: {offer.name}", "version": offer.spec.version or "1.0.0", "description": about},
        "paths": paths,
        "components": {"schemas": parts.schemas},
    }
    if settings.token is not None:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return document


def _operation(route: Route, body: Schema | None, settings: Settings) -> Schema:
    good = "201" if route.name == "open" else "200"
    content = {"application/json": {"schema": _ref(route.answer)}} if route.answer else {"text/plain": {}}
    statuses = {400, 403, *route.statuses}
    if route.method == "post":
        statuses.add(413)
    found: Schema = {
        "operationId": route.name,
        "summary": route.summary,
        "responses": {good: {"description": "Done.", "content": content}},
    }
    if settings.token is not None and route.name != "health":
        statuses.add(401)
        found["security"] = [{"token": []}]
    fault = {"application/json": {"schema": _ref("Fault")}}
    for status in sorted(statuses):
        found["responses"][str(status)] = {"description": MEANINGS[status], "content": fault}
    if body is not None:
        found["requestBody"] = {"required": route.needs_body, "content": {"application/json": {"schema": body}}}
    if route.has_session:
        found["parameters"] = _HEADERS[:1] if route.name == "mcp" else _HEADERS
    elif "{session_id}" in route.path:
        found["parameters"] = [{"name": "session_id", "in": "path", "required": True, "schema": {"type": "string"}}]
    return found


_HEADERS = [
    {
        "name": SESSION_HEADER,
        "in": "header",
        "description": "The session, as `POST /sessions` named it. Without it: the server's default session.",
        "schema": {"type": "string"},
    },
    {
        "name": CALL_HEADER,
        "in": "header",
        "description": "The number of the call in its session: 1, 2, 3, … A number is run once, however often it is "
        "sent; 0 is no number. Asks for the extended result.",
        "schema": {"type": "integer", "minimum": 0, "exclusiveMaximum": _MOST},
    },
]


class _Parts:
    """Shared schemas. Those of pydantic bring their parts along in `$defs`; here they stand with all the others."""

    def __init__(self) -> None:
        self.schemas: Schema = {}

    def take(self, schema: Schema, owner: str) -> Any:
        own = {key: value for key, value in schema.items() if key != "$defs"}
        for name, part in schema.get("$defs", {}).items():
            self.schemas[f"{owner}_{name}"] = _moved(part, owner)
        return _moved(own, owner)


def _moved(value: Any, owner: str) -> Any:
    if isinstance(value, dict):
        return {key: (_moved_ref if key == "$ref" else _moved)(inner, owner) for key, inner in value.items()}
    return [_moved(inner, owner) for inner in value] if isinstance(value, list) else value


def _moved_ref(ref: Any, owner: str) -> Any:
    start = "#/$defs/"
    is_local = isinstance(ref, str) and ref.startswith(start)
    return f"#/components/schemas/{owner}_{ref[len(start) :]}" if is_local else ref


def _bodies(offer: Offer, settings: Settings, parts: _Parts) -> dict[str, Schema]:
    action = parts.take(offer.action_schema() or ANYTHING, "Action")
    return {
        "reset": _reset_body(offer),
        "step": {"type": "object", "properties": {"action": action}, "required": ["action"]},
        "respond": _object({"request_id": {"type": "string"}, "value": ANYTHING}, "request_id"),
        "restore": _object({"snapshot": {"type": "string"}}, "snapshot"),
        "tasks": _TASKS,
        "open": _opening(settings),
        "mcp": ANYTHING,
    }


_TASKS: Schema = {
    "type": "object",
    "properties": {
        "first": {"type": ["integer", "null"], "minimum": 0, "exclusiveMaximum": _MOST},
        "count": {"type": ["integer", "null"], "minimum": 0, "exclusiveMaximum": _MOST},
        "split": {"type": ["string", "null"]},
        "task": {"type": ["integer", "string", "null"], "description": "List only this one, by index or ID."},
        "prompts": {"type": ["boolean", "null"], "description": "False leaves the prompts out."},
    },
}


def _reset_body(offer: Offer) -> Schema:
    own, is_open = offer.reset_options()
    named: Schema = {name: ANYTHING for name in own if name not in _STANDARD}
    if "task" in named and offer.may_have("tasks"):
        named["task"] = {"description": "The task: its index, its ID or its fields."}
    options: Schema = {"type": ["object", "null"]}
    if not is_open:
        options = {**options, "properties": named, "additionalProperties": False}
    known = {
        "seed": {"type": ["integer", "null"]},
        "episode_id": {"type": ["string", "null"]},
        "options": options,
    }
    return {"type": "object", "properties": {**named, **known}, "additionalProperties": is_open}


def _opening(settings: Settings) -> Schema:
    fields: Schema = {
        "env_id": {"type": ["string", "null"], "maxLength": LONGEST_ID, "description": "Its name in requests."},
        "autoreset": {"type": ["boolean", "null"]},
        "deadline": {"type": ["number", "null"], "exclusiveMinimum": 0, "exclusiveMaximum": _MOST},
        "max_episode_steps": {"type": ["integer", "null"], "minimum": 1, "exclusiveMaximum": _MOST},
    }
    if settings.allow_arguments:
        fields["arguments"] = {"type": ["object", "null"], "description": "For the environment's factory."}
    return {"type": "object", "properties": fields}


def _answers(offer: Offer, parts: _Parts) -> Schema:
    schemas = offer.schemas()
    anything: Schema = {"type": "object"}
    observation = ANYTHING if offer.multi_agent else parts.take(schemas["observation"], "Observation")
    flag = {"anyOf": [{"type": "boolean"}, {"type": "object", "additionalProperties": {"type": "boolean"}}]}
    number = {"type": ["number", "null"]}
    requests = {"type": "array", "items": anything}
    result = _object(
        {
            "observation": observation,
            "reward": {"anyOf": [number, {"type": "object", "additionalProperties": number}]},
            "done": {"type": "boolean"},
            "metadata": {"type": ["object", "null"]},
            "terminated": flag,
            "truncated": flag,
            "info": anything,
            "requests": requests,
            "pending": requests,
        },
        "observation",
        "reward",
        "done",
    )
    error = _object({name: {"type": "string"} for name in ("code", "type", "message", "hint")}, "code", "message")
    text = {"type": "string"}
    fault = {"detail": text, "code": text, "error": error}
    opened = {"session_id": text, "env_id": text, "name": text, "last_id": {"type": "integer"}}
    return {
        "Anything": ANYTHING,
        "Result": result,
        "State": ANYTHING,
        "Tasks": _object(
            {"number": {"type": "integer"}, "splits": anything, "tasks": requests}, "number", "splits", "tasks"
        ),
        "Snapshot": _object({"snapshot": text}, "snapshot"),
        "Restored": _object({"pending": requests}, "pending"),
        "Forked": _object({"session_id": text, "env_id": text}, "session_id", "env_id"),
        "Opened": _object(opened, *opened),
        "Closed": _object({"requests": requests}, "requests"),
        "Health": _object({"status": {"const": "healthy"}}, "status"),
        "Metadata": _object({"name": text, "description": text, "version": text}, "name", "description", "version"),
        "Schemas": _object(dict.fromkeys(schemas, anything), *schemas),
        "Fault": _object({**fault, "requests": requests}, *fault),
    }


def _object(fields: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": fields, "required": list(required)}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}
