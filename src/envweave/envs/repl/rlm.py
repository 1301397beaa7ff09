"""`run_rlm`: a whole episode with any OpenAI-compatible model."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from envweave.core.handle import EnvHandle
from envweave.envs.repl.client import REPLEnv
from envweave.envs.repl.driver import SYSTEM_PROMPT, RLMRun, play
from envweave.envs.repl.types import REPLAction, REPLObservation
from envweave.lm import LanguageModel


def run_rlm(
    model: LanguageModel | Callable[..., str],
    context: str,
    task: str,
    *,
    env: EnvHandle[REPLAction, REPLObservation] | None = None,
    max_iterations: int = 30,
    timeout: float | None = None,
    system_prompt: str = SYSTEM_PROMPT,
    **reset: Any,
) -> RLMRun:
    """Let a model answer a task about a text. Raises what the model's client raises.

    `model` is a `LanguageModel`, or a function from a list of messages to a reply. It also answers `llm_query` and
    `rlm_query`, unless `env` is given, which then stays open. `timeout` is checked between two replies; `reset` has
    further options of the episode: `expected_answer`, `seed`, ….
    """
    chat = model.chat if isinstance(model, LanguageModel) else model
    deadline = None if timeout is None else time.monotonic() + timeout
    with ExitStack() as stack:
        repl = stack.enter_context(REPLEnv(llm_chat_fn=chat)) if env is None else env
        begun = repl.reset(context=context, task_prompt=task, max_iterations=max_iterations, **reset)
        return play(chat, repl, begun, task, max_turns=max_iterations, deadline=deadline, system_prompt=system_prompt)
