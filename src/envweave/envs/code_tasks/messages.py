"""What a language model is told about a task, and about what its code did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from envweave.chat.text import shortened
from envweave.tools import Tool

SYSTEM_PROMPT = """\
You work on a task by writing Python code. The code of each reply is run in the same interpreter: variables, functions,
imports and files last until the end of the episode. You are shown what the code printed and the value of its last
expression, or the exception that it raised."""

LONGEST = 8_000
"""Characters of an output or an error; the middle of a longer one is left out."""


def first_text(prompt: str, tools: Iterable[Tool], remaining: Mapping[str, Any]) -> str:
    """The task, the functions that the code can call, and the budget."""
    listed = [f"- {tool.name}{tool.signature}: {' '.join(tool.description.split())}" for tool in tools]
    functions = "\n".join(["Your code can call these functions:", *listed]) if listed else ""
    parts = [prompt.strip(), functions, budget_text(remaining)]
    return "\n\n".join(part for part in parts if part) or "The interpreter is ready."


def step_text(output: str, error: str, metadata: Mapping[str, Any]) -> str:
    """What code did, the limit that it exceeded, and what is left of the budget."""
    said = [f"Output:\n{shortened(output.rstrip(), LONGEST)}"] if output.strip() else []
    said += [f"Error:\n{shortened(error.rstrip(), LONGEST)}"] if error.strip() else []
    said = said or ["The code ran and printed nothing."]
    if metadata.get("limit"):
        said.append(f"The code exceeded the limit {metadata['limit']}.")
    if metadata.get("submission"):
        said.append(f"Your submission was {metadata['submission']}.")
    left = budget_text(metadata.get("remaining") or {})
    return "\n\n".join([*said, left] if left else said)


def budget_text(remaining: Mapping[str, Any]) -> str:
    """Empty if nothing is limited."""
    steps, seconds = remaining.get("steps"), remaining.get("seconds")
    parts = [] if steps is None else [f"{steps} step{'' if steps == 1 else 's'}"]
    parts += [] if seconds is None else [f"{seconds:g} seconds of running time"]
    return f"You have {' and '.join(parts)} left." if parts else ""
