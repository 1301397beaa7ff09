"""The loop in which a language model plays an episode of the REPL."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from envweave.core.handle import EnvHandle
from envweave.envs.repl.prompts import (
    SYSTEM_PROMPT,
    answer_in_words,
    code_blocks,
    first_prompt,
    outcome_prompt,
)
from envweave.envs.repl.types import REPLAction, REPLObservation
from envweave.lm import Message
from envweave.results import ResetResult, StepResult

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
    for action in _actions(reply):
        if late():
            break
        result = env.step(action)
        _take(run, result)
        seen.append(result.observation)
        if result.done:
            return ""
    left = seen[-1].max_iterations - seen[-1].iteration if seen else 2
    return outcome_prompt(seen, last=last or left <= 1)


def _actions(reply: str) -> list[REPLAction]:
    """The blocks of code of a reply, or else its answer."""
    if blocks := code_blocks(reply):
        return [REPLAction(code=code) for code in blocks]
    match answer_in_words(reply):
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
