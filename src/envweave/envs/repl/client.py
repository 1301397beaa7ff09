"""`REPLEnv`: one client for a REPL in this process and for one on a server."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

from envweave.client.env_client import EnvClient
from envweave.client.launch import Launchable
from envweave.core.backend import Backend
from envweave.core.handle import EnvHandle
from envweave.envs.repl.environment import REPLEnvironment
from envweave.envs.repl.types import REPLAction, REPLObservation, REPLState
from envweave.errors import UnsupportedError, UsageError
from envweave.plan import adapt
from envweave.requests import Request
from envweave.results import ResetResult, StepResult

if TYPE_CHECKING:
    from envweave.client.managed_server import ManagedServer
    from envweave.envs.repl.llm_backends import Query
    from envweave.envs.repl.scoring import Metric
    from envweave.providers.base import Provider
    from envweave.sandbox import Limits


class RemoteREPL(EnvClient[REPLAction, REPLObservation, REPLState]):
    """The client that knows the REPL's types, and plays without its options where the server takes none."""

    async def _open(self) -> Backend:
        try:
            return await super()._open()
        except UsageError as error:
            if not self._session_spec.arguments or "takes no arguments" not in error.message:
                raise
        _warn_ignored(self._session_spec.arguments, "the server takes no options from clients")
        self._session_spec = replace(self._session_spec, arguments=None)
        return await super()._open()


class REPLEnv(Launchable, EnvHandle[REPLAction, REPLObservation]):
    """A Python REPL with a large `context`, here or, with `base_url`, on a server, ours or OpenEnv's; or in a container
    that it starts, by `REPLEnv.from_docker_image("repl-env:latest")`.

        with REPLEnv() as env:
            env.reset(context=text, task_prompt="How long is it?")
            env.execute("count = len(context)")
            env.execute("FINAL(count)").done

    The options are those of `REPLEnvironment`, where they are explained. Those that are data go to a server too, if it
    takes arguments. What a server does not take, functions and limits above all, is ignored with a warning. `token`,
    `connect_timeout_s` and `message_timeout_s` are for a server. A client that is used after `close` begins anew.
    """

    _handle: EnvHandle[REPLAction, REPLObservation]
    _names: list[str] | None
    _closed = True

    def __init__(
        self,
        base_url: str | Provider | ManagedServer | None = None,
        *,
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
        given = {name: value for name, value in locals().items() if name not in _OF_THE_CONNECTION}
        options = {name: value for name, value in given.items() if value != _USUAL[name]}
        self.spec = None
        if base_url is None:
            if token is not None:
                raise UsageError("a token, but no server", "pass base_url=…")
            self._make: Callable[[], EnvHandle[REPLAction, REPLObservation]]
            self._make = lambda: adapt(REPLEnvironment(**options), id="repl")
        else:
            local = {name for name, value in options.items() if callable(value) or name in _OPERATOR_OPTIONS}
            if local:
                _warn_ignored(local, "they are for a REPL in this process")
            self._make = lambda: RemoteREPL(
                base_url,
                token=token,
                connect_timeout_s=connect_timeout_s,
                message_timeout_s=message_timeout_s,
                max_message_bytes=REPLEnvironment.MESSAGE_BYTES,
                arguments={name: value for name, value in options.items() if name not in local} or None,
            )
        self._open_handle()

    # What is the REPL's own.

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
        """The variables after the last step; costs nothing, but for the first time after `restore`."""
        self._open_handle()
        if self._names is None:
            self._names = self.state().namespace_keys
        return list(self._names)

    def sync(self) -> Self:
        """The client itself: it is sync already."""
        return self

    # A handle, over the backend of another one.

    def _open_handle(self) -> EnvHandle[REPLAction, REPLObservation]:
        """The handle behind this one; a new one at first and after `close`."""
        if self._closed:
            self._handle = self._make()
            self._names = []
            self._closed = False
        return self._handle

    @property
    def _backend(self) -> Backend:  # type: ignore[override]
        return self._open_handle()._backend

    def _call(self, kind: str, data: Any = None) -> Any:
        reply = self._open_handle()._call(kind, data)
        if isinstance(reply, ResetResult | StepResult):
            self._names = list(reply.observation.available_variables)
        elif kind == "restore":
            self._names = None
        return reply

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        **own: Any,
    ) -> ResetResult[REPLObservation]:
        """Begin an episode with any of `context`, `task_prompt`, `max_iterations`, `expected_answer`, `hf_token`,
        `llm_model`, `rlm_max_depth` and `rlm_max_iterations`.
        """
        given = {name: value for name, value in own.items() if value is not None}
        return super().reset(seed=seed, options=options, episode_id=episode_id, **given)

    def state(self) -> REPLState:
        return cast("REPLState", self._call("state"))

    def _twin(self, backend: Backend) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _handle=self._handle._twin(backend))
        twin.spec = None
        return twin

    def close(self) -> tuple[Request, ...]:
        self._closed = True
        return self._handle.close()

    async def _connect_async(self) -> Self:
        await self._open_handle()._connect_async()
        return self

    async def _close_async(self) -> tuple[Request, ...]:
        self._closed = True
        return await self._handle._close_async()

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("live Python cannot leave its process", "make another there")

    def __enter__(self) -> Self:
        self._open_handle().__enter__()
        return self


def _warn_ignored(names: Iterable[str], why: str) -> None:
    warnings.warn(f"ignored: {', '.join(sorted(names))}; {why}", stacklevel=3)


_OPERATOR_OPTIONS = REPLEnvironment.OPERATOR_OPTIONS
_OF_THE_CONNECTION = {"self", "base_url", "token", "connect_timeout_s", "message_timeout_s"}
_USUAL: Mapping[str, Any] = REPLEnv.__init__.__kwdefaults__ or {}
"""Where nobody has chosen something else, the variables of the REPL's own process may."""
