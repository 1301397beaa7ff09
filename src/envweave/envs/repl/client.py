"""`REPLEnv`: one client for a REPL in this process and for one on a server."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envweave.client.env_client import EnvClient, UnconnectedBackend
from envweave.core.backend import Backend
from envweave.envs.repl.environment import REPLEnvironment
from envweave.envs.repl.types import REPLAction, REPLObservation, REPLState
from envweave.errors import UsageError
from envweave.plan import adapt
from envweave.requests import Request
from envweave.results import ResetResult, StepResult

if TYPE_CHECKING:
    from envweave.client.managed_server import ManagedServer
    from envweave.envs.code_tasks import TaskSource
    from envweave.envs.repl.llm_backends import Query
    from envweave.envs.repl.settings import Metric
    from envweave.providers.base import Provider
    from envweave.sandbox import Limits


class REPLEnv(EnvClient[REPLAction, REPLObservation, REPLState]):
    """A Python REPL with a large `context`: in this process, or with `base_url` on a server, ours or OpenEnv's.

    `REPLEnv.from_docker_image("repl-env:latest")` starts the server in a container.

        with REPLEnv() as env:
            env.reset(context=text, task_prompt="How long is it?")
            env.execute("count = len(context)")
            env.execute("FINAL(count)").done

    The options are those of `REPLEnvironment`. Options that are data are sent to a server that takes arguments; the
    others, such as functions and limits, are ignored there with a warning. `token`, `connect_timeout_s` and
    `message_timeout_s` are for a server. A client that is used after `close` begins anew.
    """

    def __init__(
        self,
        base_url: str | Provider | ManagedServer | None = None,
        *,
        tasks: TaskSource | None = None,
        max_seconds: float | None = None,
        llm_query_fn: Query | None = None,
        llm_batch_fn: Query | None = None,
        llm_chat_fn: Query | None = None,
        max_output_length: int = 8192,
        context_preview_length: int = 500,
        reward_on_success: float | None = None,
        reward_on_iteration: float = 0.0,
        reward_on_failure: float = -0.1,
        reward_on_error: float = -0.05,
        metric: Metric | None = None,
        transform: Callable[[Any], Any] | None = None,
        modules: Iterable[str] | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        sandbox: Mapping[str, Any] | None = None,
        rlm_max_depth: int | None = None,
        rlm_max_iterations: int | None = None,
        rlm_max_children: int | None = None,
        rlm_child_timeout_s: float = 300.0,
        token: str | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float | None = 60.0,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in _DEFAULTS.keys() - _OF_THE_CONNECTION}
        options = {name: value for name, value in given.items() if value != _DEFAULTS[name]}
        if base_url is None and token is not None:
            raise UsageError("a token, but no server", "pass base_url=…")
        self._local_options = options if base_url is None else None
        ignored = {name for name, value in options.items() if callable(value) or name in _OPERATOR_OPTIONS}
        if ignored and base_url is not None:
            _warn_ignored(ignored, "they are for a REPL in this process")
        super().__init__(
            base_url,
            connect_timeout_s,
            message_timeout_s,
            token=token,
            max_message_bytes=REPLEnvironment.MESSAGE_BYTES,
            arguments={name: value for name, value in options.items() if name not in ignored} or None,
        )

    def execute(self, code: str) -> StepResult[REPLObservation]:
        """Run code: one iteration."""
        return self.step(REPLAction(code=code))

    def submit_final_answer(self, answer: str) -> StepResult[REPLObservation]:
        """End the episode with an answer."""
        return self.step(REPLAction(is_final=True, final_answer=str(answer)))

    def get_variable(self, name: str) -> StepResult[REPLObservation]:
        """Run `print(repr(name))`: one iteration, and the value as text in `observation.result.stdout`.

        `name` may be any expression: `get_variable("rows[0]")`.
        """
        if not isinstance(name, str):
            raise UsageError(f"{name!r} is neither the name of a variable nor an expression", "pass text")
        return self.execute(f"print(repr({name}))")

    def list_variables(self) -> list[str]:
        """The variables after the last step. Asks for the state only before the first reset and after `restore`."""
        seen = self._backend.episode.last_obs
        if seen is None:
            return list(self.state().namespace_keys)
        is_data = isinstance(seen, dict)  # from an OpenEnv server
        return list(seen["available_variables"] if is_data else seen.available_variables)

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[REPLObservation]:
        """Begin an episode with any of `task`, `context`, `task_prompt`, `max_iterations`, `expected_answer`,
        `hf_token`, `llm_model`, `rlm_max_depth` and `rlm_max_iterations`.
        """
        given = {name: value for name, value in own.items() if value is not None}
        return super().reset(seed=seed, options=options, episode_id=episode_id, **given)

    def restore(self, snapshot: Any) -> None:
        super().restore(snapshot)
        if self._local_options is None:
            self._backend.episode.last_obs = None  # a client does not know the observation of a snapshot

    # The backend: in this process, or on a server; a new one after `close`.

    def _start_unconnected(self) -> None:
        if self._local_options is None:
            super()._start_unconnected()
        else:
            self._attach(self._local_backend(self._local_options))

    @staticmethod
    def _local_backend(options: Mapping[str, Any]) -> Backend:
        return adapt(REPLEnvironment(**options), id="repl").backend

    async def _open(self) -> Backend:
        if self._local_options is not None:
            return self._local_backend(self._local_options)
        if not self._acquired:
            self._acquire()
        try:
            return await super()._open()
        except UsageError as error:
            if not self._session_spec.arguments or "takes no arguments" not in error.message:
                raise
        _warn_ignored(self._session_spec.arguments, "the server takes no options from clients")
        self._session_spec = replace(self._session_spec, arguments=None)
        return await super()._open()

    async def _close_async(self) -> tuple[Request, ...]:
        next_backend = UnconnectedBackend(self)
        next_backend.id = self.id
        try:
            return await super()._close_async()
        finally:
            self._attach(next_backend)


def _warn_ignored(names: Iterable[str], why: str) -> None:
    warnings.warn(f"ignored: {', '.join(sorted(names))}; {why}", stacklevel=3)


_OPERATOR_OPTIONS = REPLEnvironment.OPERATOR_OPTIONS
_OF_THE_CONNECTION = {"token", "connect_timeout_s", "message_timeout_s"}
_DEFAULTS: Mapping[str, Any] = REPLEnv.__init__.__kwdefaults__ or {}
"""Not passed on, because variables of the REPL's own process may set others."""
