"""`envweave info ID`: describe an environment."""

from __future__ import annotations

import json
from itertools import islice
from textwrap import shorten
from typing import Any

from rich.table import Table
from rich.text import Text

from envweave.chat import ChatObservation
from envweave.cli.options import Arguments, AsJSON, EnvName, keyword_arguments, out, own_output, print_json
from envweave.core.env_types import types_of
from envweave.core.schema import json_schema
from envweave.core.selection import TaskList
from envweave.registry.make import make
from envweave.registry.make import spec as spec_of
from envweave.requests import NeedAction

FIRST_TASKS = 5
"""How many tasks are shown."""
PROMPT_LENGTH = 80


def info(id: EnvName, arg: Arguments = None, as_json: AsJSON = False) -> None:
    """Show an environment's spec, agents, tasks, schemas, and the first messages and tools that a model would see."""
    spec = spec_of(id)
    arguments = keyword_arguments(arg)
    with own_output(as_json), make(id, **arguments) as env, make(id, chat=True, **arguments) as chat:
        first = env.reset(seed=0)
        agents = [request.agent_id for request in first.requests if isinstance(request, NeedAction)]
        observation = types_of(env.backend.env).observation
        told = _told(chat.reset(seed=0).obs, agents[0] if agents else None)
        data = {
            **spec.to_data(),
            "first_to_act": agents,
            "action_schema": env.action_schema(agents[0] if agents else None),
            "observation_schema": json_schema(observation) if observation is not None else None,
            "tasks": None if env.tasks is None else _listed(env.tasks),
            "messages": told.messages,
            "tools": told.tools,
        }
    if as_json:
        print_json(data)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for key, value in data.items():
        if value not in (None, "", {}, []):
            text = _conversation(value) if key == "messages" else _as_text(value)
            table.add_row(Text(key, "bold"), Text(text))
    out.print(table)


def _told(first: Any, agent: str | None) -> ChatObservation:
    """What the model is told at the start of an episode; with several agents, the one that acts first."""
    observation: ChatObservation = first[agent] if isinstance(first, dict) else first
    return observation


def _conversation(messages: list[dict[str, Any]]) -> str:
    """The messages as a model reads them."""
    return "\n\n".join(f"[{message['role']}]\n{_as_text(message['content'])}" for message in messages)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _listed(tasks: TaskList) -> dict[str, Any]:
    """The number of tasks, the splits, and the beginning of the first prompts by ID."""
    first = {task.id: shorten(task.prompt, PROMPT_LENGTH, placeholder=" …") for task in islice(tasks, FIRST_TASKS)}
    return {"number": len(tasks), "splits": dict(tasks.splits), "first": first}
