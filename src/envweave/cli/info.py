"""`envweave info ID`: describe an environment."""

from __future__ import annotations

import json

from rich.table import Table
from rich.text import Text

from envweave.cli.options import Arguments, AsJSON, EnvName, keyword_arguments, out, own_output, print_json
from envweave.core.env_types import types_of
from envweave.core.schema import json_schema
from envweave.registry.make import make
from envweave.registry.make import spec as spec_of
from envweave.requests import NeedAction


def info(id: EnvName, arg: Arguments = None, as_json: AsJSON = False) -> None:
    """Show an environment's spec, agents and the JSON Schema of its actions and observations."""
    spec = spec_of(id)
    with own_output(as_json), make(id, **keyword_arguments(arg)) as env:
        first = env.reset(seed=0)
        agents = [request.agent_id for request in first.requests if isinstance(request, NeedAction)]
        observation = types_of(env.backend.env).observation
        data = {
            **spec.to_data(),
            "first_to_act": agents,
            "action_schema": env.action_schema(agents[0] if agents else None),
            "observation_schema": json_schema(observation) if observation is not None else None,
        }
    if as_json:
        print_json(data)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for key, value in data.items():
        if value not in (None, "", {}, []):
            text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
            table.add_row(Text(key, "bold"), Text(text))
    out.print(table)
