"""`REPLEnv`: one client for a REPL in this process and for one on a server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast

from envweave.build import adapt
from envweave.client.env_client import EnvClient
from envweave.client.startable import Startable
from envweave.core.handle import AsyncEnvHandle, EnvHandle
from envweave.envs.repl.environment import REPLEnvironment
from envweave.envs.repl.types import REPLAction, REPLObservation, REPLState
from envweave.errors import UnsupportedError, UsageError
from envweave.requests import Request
from envweave.results import ResetResult, StepResult

if TYPE_CHECKING:
    from envweave.client.home import Home
    from envweave.envs.repl.asking import Query
    from envweave.envs.repl.scoring import Metric
    from envweave.providers.base import Provider
    from envweave.sandbox import Limits

T = TypeVar("T")


class RemoteREPL(EnvClient[REPLAction, REPLObservation, REPLState]):
    """The client that knows the REPL's types, and nothing else."""


class REPLEnv(Startable, EnvHandle[REPLObservation]):
    """A Python REPL with a large `context`, here or, with `base_url`, on a server, ours or OpenEnv's; or in a container
    that it starts, by `REPLEnv.from_docker_image("repl-env:latest")`.

        with REPLEnv() as env:
            env.reset(context=text, task_prompt="How long is it?")
            env.execute("count = len(context)")
            env.execute("FINAL(count)").done

    The options are those of `REPLEnvironment`, where they are explained. Those that are data go to a server too, if it
    takes arguments; functions, walls and limits cannot. `token`, `connect_timeout_s` and `message_timeout_s` are for a
    server.
    """

    def __init__(
        self,
        base_url: str | Provider | Home | None = None,
        *,
        llm_query_fn: Query | None = None,
        llm_batch_fn: Query | None = None,
        llm_chat_fn: Query | None = None,
        max_output_length: int = 8192,
        context_preview_length: int = 500,
        reward_on_success: float = 1.0,
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
        self._names: list[str] | None = []
        if base_url is None:
            if token is not None:
                raise UsageError("a token, but no server", "pass base_url=…")
            self._handle: EnvHandle[REPLObservation] = adapt(REPLEnvironment(**options), id="repl")
            return
        stay = [name for name, value in options.items() if callable(value) or name in REPLEnvironment.OPERATOR_OPTIONS]
        if stay:
            raise UsageError(f"{stay[0]} cannot go to a server", "leave it out, or leave out base_url")
        self._handle = RemoteREPL(
            base_url,
            token=token,
            connect_timeout_s=connect_timeout_s,
            message_timeout_s=message_timeout_s,
            max_message_bytes=REPLEnvironment.MESSAGE_BYTES,
            arguments=options or None,
        )

    # What is the REPL's own.

    def execute(self, code: str) -> StepResult[REPLObservation]:
        """Run code: one iteration."""
        return self.step(REPLAction(code=code))

    def submit_final_answer(self, answer: str) -> StepResult[REPLObservation]:
        """End the episode with an answer."""
        return self.step(REPLAction(is_final=True, final_answer=str(answer)))

    def get_variable(self, name: str) -> StepResult[REPLObservation]:
        """Run `print(repr(name))`: one iteration, and the value as text in `observation.result.stdout`."""
        if not isinstance(name, str) or not name.isidentifier():
            raise UsageError(f"{name!r} is not a name of a variable")
        return self.execute(f"print(repr({name}))")

    def list_variables(self) -> list[str]:
        """The variables after the last step; costs nothing, but for the first time after `restore`."""
        if self._names is None:
            self._names = self.state().namespace_keys
        return list(self._names)

    def sync(self) -> Self:
        """The client itself: it is sync already."""
        return self

    # The calls of a handle.

    @property
    def id(self) -> str:  # type: ignore[override]
        return self._handle.id

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
        return self._noted(self._handle.reset(seed=seed, options=options, episode_id=episode_id, **given))

    def step(self, action: Any) -> StepResult[REPLObservation]:
        return self._noted(self._handle.step(action))

    def last(self) -> Any:
        """Wait again for the answer of a server to a call that raised `WaitTimeoutError`."""
        if not isinstance(self._handle, RemoteREPL):
            raise UsageError("nothing is under way in this process")
        return self._noted(self._handle.last())

    def _noted(self, result: T) -> T:
        if isinstance(result, ResetResult | StepResult):
            self._names = list(result.observation.available_variables)
        return result

    def state(self) -> REPLState:
        return cast("REPLState", self._handle.state())

    def respond(self, request_id: str, value: Any) -> StepResult[REPLObservation]:
        return self._noted(self._handle.respond(request_id, value))

    def render(self) -> Any:
        return self._handle.render()

    def snapshot(self) -> Any:
        return self._handle.snapshot()

    def restore(self, snapshot: Any) -> None:
        self._handle.restore(snapshot)
        self._names = None

    def fork(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, _handle=self._handle.fork())
        return twin

    def close(self) -> tuple[Request, ...]:
        return self._handle.close()

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        return self._handle.action_schema(agent_id)

    @property
    def pending(self) -> tuple[Request, ...]:
        return self._handle.pending

    @property
    def transform(self) -> Callable[[Any], Any] | None:
        return self._handle.transform

    @transform.setter
    def transform(self, transform: Callable[[Any], Any] | None) -> None:
        self._handle.transform = transform

    def __reduce__(self) -> NoReturn:
        raise UnsupportedError("live Python cannot leave its process", "make another there")

    @property
    def aio(self) -> AsyncEnvHandle[REPLObservation]:
        return self._handle.aio

    def __enter__(self) -> Self:
        self._handle.__enter__()
        return self


_OF_THE_CONNECTION = {"self", "base_url", "token", "connect_timeout_s", "message_timeout_s"}
_USUAL: Mapping[str, Any] = REPLEnv.__init__.__kwdefaults__ or {}
"""Where nobody has chosen something else, the variables of the REPL's own process may."""
