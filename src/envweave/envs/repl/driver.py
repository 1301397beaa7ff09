"""The loop in which a language model plays an episode of the REPL: its prompts, and how its replies are parsed."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from envweave.core.handle import EnvHandle
from envweave.envs.repl.answers import final_in
from envweave.envs.repl.llm_backends import Message
from envweave.envs.repl.types import REPLAction, REPLObservation
from envweave.results import ResetResult, StepResult

SYSTEM_PROMPT = """\
You answer a task about a text that is too long to read at once. In a Python REPL it is the variable `context`.

Write Python in a block that begins with ```repl and ends with ```. It is run, and you are shown what it printed.
Variables last from block to block.

In the REPL there are:
- `context`: the text, as a string. Look at parts of it, search it, split it; do not print all of it.
- `llm_query(prompt)`: asks a language model and returns its answer. It sees nothing but the prompt, so put the part of
  the context that matters into it.
- `llm_query_batched(prompts)`: the same for a list of prompts, at the same time.
- `rlm_query(prompt)`: has a language model work on a long prompt in a REPL of its own; `rlm_query_batched(prompts)` for
  several.
- `SHOW_VARS()`: the names of your variables.

When you know the answer, give it from a block with `FINAL(answer)`, or with `FINAL_VAR("name")` if it is in a variable.
Do so only when you have seen that it is right.
"""

NUDGE = "Write the next step as Python in a ```repl block, or give the answer with FINAL(answer) in such a block."
LAST_CALL = "This is your last step: give your best answer now with FINAL(answer) in a ```repl block."

_OPENS = re.compile(r"[ \t]*```[ \t]*(?:repl|python|py)[ \t]*", re.IGNORECASE)
_CLOSES = re.compile(r"[ \t]*```[ \t]*")
_SHOWN = 20_000
"""Characters of one block's output."""
_LONGEST_REPLY = 200_000
_LONGEST_TALK = 4_000_000
"""Characters."""

Chat: TypeAlias = Callable[[list[Message]], str]
"""From a conversation to the model's reply."""


@dataclass
class RLMRun:
    """The result of an episode."""

    answer: str | None = None
    """None if it ended without one."""
    reward: float | None = None
    """The sum over all steps; None if one of them was not scored, or there were none."""
    iterations: int = 0
    """Steps in the REPL."""
    turns: int = 0
    """Replies of the model."""
    ended: str = ""
    """`answered`, `truncated` (the iterations ran out), `out_of_turns` (the model's), `out_of_time`, `out_of_room`."""
    messages: list[Message] = field(default_factory=list)
    steps: list[StepResult[REPLObservation]] = field(default_factory=list)


def play(
    chat: Chat,
    env: EnvHandle[REPLAction, REPLObservation],
    begun: ResetResult[REPLObservation],
    task: str,
    *,
    max_turns: int,
    deadline: float | None = None,
    system_prompt: str = SYSTEM_PROMPT,
    clock: Callable[[], float] = time.monotonic,
    stopped: Callable[[], bool] = lambda: False,
) -> RLMRun:
    """Play an episode after its reset. The deadline is checked before each reply and each step."""
    run = RLMRun(messages=[{"role": "system", "content": system_prompt}])
    prompt = first_prompt(task, begun.observation)

    def late() -> bool:
        return stopped() or (deadline is not None and clock() >= deadline)

    while not run.ended:
        if late():
            run.ended = "out_of_time"
        elif run.turns >= max_turns:
            run.ended = "out_of_turns"
        elif sum(len(said["content"]) for said in run.messages) > _LONGEST_TALK:
            run.ended = "out_of_room"
        else:
            run.messages.append({"role": "user", "content": prompt})
            reply = str(chat(list(run.messages)))[:_LONGEST_REPLY]
            run.turns += 1
            run.messages.append({"role": "assistant", "content": reply})
            prompt = _act(run, env, reply, late, last=run.turns == max_turns - 1)
    run.reward = _total(run.steps)
    return run


def _act(
    run: RLMRun, env: EnvHandle[REPLAction, REPLObservation], reply: str, late: Callable[[], bool], *, last: bool
) -> str:
    """Run the actions of a reply while there is time. Returns the next prompt."""
    seen: list[REPLObservation] = []
    for action in actions_in(reply):
        if late():
            break
        result = env.step(action)
        _take(run, result)
        seen.append(result.observation)
        if result.done:
            return ""
    left = seen[-1].max_iterations - seen[-1].iteration if seen else 2
    return outcome_prompt(seen, last=last or left <= 1)


def actions_in(reply: str) -> list[REPLAction]:
    """The blocks of code of a reply, or else its answer."""
    if blocks := code_blocks(reply):
        return [REPLAction(code=code) for code in blocks]
    match final_in(reply):
        case ("FINAL", answer):
            return [REPLAction(is_final=True, final_answer=answer)]
        case ("FINAL_VAR", name):
            return [REPLAction(code=f"FINAL_VAR({name!r})")]
    return []


def _take(run: RLMRun, result: StepResult[REPLObservation]) -> None:
    run.steps.append(result)
    run.iterations = result.observation.iteration
    if result.done:
        run.ended = "truncated" if result.truncated else "answered"
        run.answer = result.info.get("final_answer")


def _total(steps: list[StepResult[Any]]) -> float | None:
    rewards = [step.reward for step in steps]
    if not rewards or not all(isinstance(reward, float) for reward in rewards):
        return None
    return float(sum(rewards))  # type: ignore[arg-type]


def first_prompt(task: str, seen: REPLObservation) -> str:
    """The task and the beginning of the context."""
    preview = f"\nIt begins:\n{seen.context_preview}\n" if seen.context_preview else ""
    return f"Task: {task}\n\n`context` has {seen.context_length} characters.{preview}\n{NUDGE}"


def code_blocks(reply: str) -> list[str]:
    """The blocks of code in a reply. A block that is not closed is left out: the reply may have been cut."""
    blocks: list[str] = []
    block: list[str] | None = None
    for line in reply.replace("\r\n", "\n").split("\n"):
        if block is None:
            block = [] if _OPENS.fullmatch(line) else None
        elif _CLOSES.fullmatch(line):
            blocks.append("\n".join(block))
            block = None
        else:
            block.append(line)
    return blocks


def outcome_prompt(seen: Sequence[REPLObservation], *, last: bool) -> str:
    """The output of the blocks of the last reply."""
    parts = []
    for number, observation in enumerate(seen, 1):
        result = observation.result
        said = "\n".join(part for part in (result.stdout.rstrip("\n"), result.stderr.rstrip("\n")) if part)
        head = f"Block {number}:" if len(seen) > 1 else "Output:"
        parts.append(f"{head}\n{said[:_SHOWN] or '(nothing was printed)'}")
    if seen:
        parts.append(f"Variables: {', '.join(seen[-1].available_variables) or 'none'}")
    parts.append(LAST_CALL if last else NUDGE)
    return "\n\n".join(parts)
