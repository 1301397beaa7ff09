"""A server of OpenEnv's own making with the shapes of its REPL, for our `REPLEnv`. Prints its port, then serves.

What runs code is not OpenEnv's, and nothing that code does is kept from anybody.
"""

import contextlib
import io
import socket
import time

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_app
from pydantic import BaseModel, Field


class REPLAction(Action):
    code: str = ""
    is_final: bool = False
    final_answer: str | None = None


class CodeBlockResult(BaseModel):
    stdout: str = ""
    stderr: str = ""
    locals_snapshot: dict[str, str] = Field(default_factory=dict)
    execution_time: float = 0.0
    success: bool = True
    exception: str | None = None


class REPLObservation(Observation):
    result: CodeBlockResult = Field(default_factory=CodeBlockResult)
    context_preview: str | None = None
    context_length: int = 0
    available_variables: list[str] = Field(default_factory=list)
    iteration: int = 0
    max_iterations: int = 30


class REPLState(State):
    context: str | None = None
    task_prompt: str | None = None
    iteration: int = 0
    max_iterations: int = 30
    namespace_keys: list[str] = Field(default_factory=list)
    final_answer: str | None = None
    total_execution_time: float = 0.0


class REPLEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = None
        self._names = {}

    def reset(self, seed=None, episode_id=None, context="", task_prompt="", hf_token=None, **kwargs):
        self._state = REPLState(episode_id=episode_id or "new", step_count=0, context=context, task_prompt=task_prompt)
        self._names = {"context": context, "answer": {"content": "", "ready": False}, "FINAL": "FINAL({})".format}
        return self._seen(CodeBlockResult(stdout="ready"), reward=None)

    def step(self, action, timeout_s=None, **kwargs):
        self._state.iteration += 1
        self._state.step_count += 1
        if action.is_final:
            return self._ended(CodeBlockResult(), action.final_answer or "")
        out, error, began = io.StringIO(), None, time.monotonic()
        try:
            with contextlib.redirect_stdout(out):
                exec(action.code, self._names)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        result = CodeBlockResult(
            stdout=out.getvalue(),
            stderr=error or "",
            locals_snapshot={name: repr(self._names[name]) for name in self._visible()},
            execution_time=time.monotonic() - began,
            success=error is None,
            exception=error,
        )
        printed = out.getvalue().strip()
        if printed.startswith("FINAL(") and printed.endswith(")"):
            return self._ended(result, printed[6:-1])
        return self._seen(result, reward=-0.05 if error else 0.0)

    def _ended(self, result, answer):
        self._state.final_answer = answer
        return self._seen(result, reward=1.0, done=True, metadata={"final_answer": answer})

    def _visible(self):
        return [name for name, value in self._names.items() if not name.startswith("_") and not callable(value)]

    def _seen(self, result, **fields):
        self._state.namespace_keys = self._visible()
        return REPLObservation(
            result=result,
            context_preview=self._state.context[:500],
            context_length=len(self._state.context),
            available_variables=self._visible(),
            iteration=self._state.iteration,
            **fields,
        )

    @property
    def state(self):
        if self._state is None:
            raise RuntimeError("Environment not initialized. Call reset() first.")
        return self._state


if __name__ == "__main__":
    app = create_app(REPLEnvironment, REPLAction, REPLObservation, env_name="repl_env", max_concurrent_envs=8)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # so that whoever reads the port may connect
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
