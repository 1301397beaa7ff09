"""What a user holds: `EnvHandle`, and the same for `await` behind `.aio`. Every call goes to a `Backend`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias

from typing_extensions import TypeVar

from envweave.core.backend import Backend
from envweave.core.lookup import load
from envweave.core.middleware import Middleware, MiddlewareBackend
from envweave.core.task import ListedTask
from envweave.core.wrapped import WrappedBackend
from envweave.errors import UnavailableError
from envweave.requests import Request
from envweave.results import FlagT, ResetResult, RewardT, StepResult

if TYPE_CHECKING:
    from envweave.core.selection import TaskList
    from envweave.core.spec import EnvSpec

ActT = TypeVar("ActT", default=Any)
ObsT = TypeVar("ObsT", default=Any)
Transform: TypeAlias = Callable[[Any], Any]
TaskChoice: TypeAlias = int | str | Mapping[str, Any] | ListedTask
"""A task by index, by ID, as a `Task` or row, or as a server lists it."""


class EnvProperties:
    """What both handles know without a call."""

    __slots__ = ()

    _backend: Backend
    spec: EnvSpec | None
    """What is known of the kind of environment, as in Gymnasium; None for one that a client connects to."""

    @property
    def backend(self) -> Backend:
        """Where the environment runs."""
        return self._backend

    @property
    def id(self) -> str:
        """The instance, e.g. `counter-v0#0`; the `env_id` of its requests."""
        return self._backend.id

    def action_schema(self, agent_id: str | None = None) -> dict[str, Any] | None:
        """The JSON Schema of an action, or None if the environment takes anything."""
        return self._backend.action_schema(agent_id)

    @property
    def pending(self) -> tuple[Request, ...]:
        """What the environment waits for: `need_action`s or `tool_call`s."""
        return self._backend.episode.pending

    @property
    def tasks(self) -> TaskList | None:
        """The environment's tasks: an `envweave.tasks.Tasks` in this process, or a `TaskListing` of a server's.

        None for an environment without tasks.
        """
        return self._backend.tasks

    @property
    def transform(self) -> Transform | None:
        """Applied to each observation of a step before its reward is read; it may be set at any time.

        None for an environment on a server; setting it there raises `UsageError`.
        """
        return self._backend.transform

    @transform.setter
    def transform(self, transform: Transform | None) -> None:
        self._backend.transform = transform

    # What agents that were written for Gymnasium look at.

    @property
    def unwrapped(self) -> Any:
        """The environment itself, without wrappers, if it runs in this process; else None."""
        env = self._backend.env
        return getattr(env, "unwrapped", env)

    @property
    def action_space(self) -> Any:
        """The environment's own Gymnasium space, or one made from the schema of its actions."""
        return self._space("action_space", self.action_schema)

    @property
    def observation_space(self) -> Any:
        """The environment's own Gymnasium space, or one made from the schema of its observations."""
        return self._space("observation_space", self._backend.observation_schema)

    def _space(self, name: str, schema: Callable[[], dict[str, Any] | None]) -> Any:
        own = getattr(self._backend.env, name, None)
        if own is not None:
            return own
        try:
            return load("envweave.adapters.spaces:space_from_schema", extra="gym")(schema())
        except UnavailableError as error:  # so that `hasattr` is False without Gymnasium
            raise AttributeError(f"{name}: {error}") from None

    @property
    def metadata(self) -> dict[str, Any]:
        """The environment's `metadata`, as in Gymnasium."""
        own = getattr(self._backend.env, "metadata", None)
        if isinstance(own, dict):
            return own
        return {} if self.spec is None else self.spec.metadata

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


class EnvHandle(EnvProperties, Generic[ActT, ObsT, RewardT, FlagT]):
    """One environment, wherever it runs. Use it in a `with`, or `close` it.

    A wrong call raises a `UsageError` and changes nothing. If the environment fails, `EnvError` is raised, the
    episode is over and unscored, and `reset` begins a new one.
    """

    __slots__ = ("__weakref__", "_backend", "_call", "spec")

    def __init__(self, backend: Backend, spec: EnvSpec | None = None) -> None:
        self.spec = spec
        self._attach(backend)

    def _attach(self, backend: Backend) -> None:
        self._backend = backend
        self._call: Any = backend.call

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        task: TaskChoice | None = None,
        **own: Any,
    ) -> ResetResult[ObsT]:
        """Begin an episode. Environment options go in `options` or by name; an unknown one is refused.

        `task` is an index, an ID or a row, for an environment that has tasks. Without it, the seed selects the task;
        without a seed it is drawn. `info["task_id"]` names it.
        """
        return self._call("reset", reset_arguments(seed, options, episode_id, task, own))  # type: ignore[no-any-return]

    def step(self, action: ActT | Mapping[str, Any]) -> StepResult[ObsT, RewardT, FlagT]:
        """Apply one action, or the dict of its fields; with several agents, a dict of actions by agent."""
        return self._call("step", action)  # type: ignore[no-any-return]

    def respond(self, request_id: str, value: Any) -> StepResult[ObsT, RewardT, FlagT]:
        """Answer a `tool_call`; the result continues the step that asked."""
        return self._call("respond", {"request_id": request_id, "value": value})  # type: ignore[no-any-return]

    def state(self) -> Any:
        """Where the episode stands: the environment's own state, else a `State`."""
        return self._call("state")

    def render(self) -> Any:
        """What the environment shows of itself."""
        return self._call("render")

    def snapshot(self) -> Any:
        """The episode as it is, for `restore`, any number of times. Raises `UnsupportedError`."""
        return self._call("snapshot")

    def restore(self, snapshot: Any) -> None:
        """Go back to a snapshot taken from this handle or another of the same environment."""
        self._call("restore", snapshot)

    def fork(self) -> Self:
        """An independent handle on the same episode; this one goes on. Raises `UnsupportedError`."""
        return self._twin(self._call("fork"))

    def _twin(self, backend: Backend) -> Self:
        return type(self)(backend, self.spec)

    def last(self) -> Any:
        """Wait again for the answer to a call that raised `WaitTimeoutError`."""
        return self._call("last")

    def close(self) -> tuple[Request, ...]:
        """Release everything; a second call does nothing. Returns the `episode_end` of an unfinished episode."""
        return self._call("close")  # type: ignore[no-any-return]

    async def _connect_async(self) -> Self:
        """Connect, for a handle on a server."""
        if isinstance(self._backend, WrappedBackend):
            await self._backend.connect_async()
        return self

    async def _close_async(self) -> tuple[Request, ...]:
        return await self._backend.acall("close")  # type: ignore[no-any-return]

    def with_middleware(self, *middleware: Middleware) -> EnvHandle[ActT, ObsT, RewardT, FlagT]:
        """A handle on the same environment whose calls pass through `middleware`, the first of it outermost.

        Middleware is a generator function. It receives the kind and the data of each call, yields the call to make
        and returns the reply; an exception is raised at the `yield`:

            def print_rewards(kind, data):
                reply = yield kind, data
                if kind == "step":
                    print(reply.reward)
                return reply

        It may change the call or the reply, handle exceptions, yield again for a retry, or not yield at all. Forks
        keep it. Calls on the original handle bypass it. Closing either handle closes the environment.
        """
        return EnvHandle(MiddlewareBackend(self, middleware), self.spec)

    @property
    def aio(self) -> AsyncEnvHandle[ActT, ObsT, RewardT, FlagT]:
        """The same environment for `await`."""
        return AsyncEnvHandle(self)

    def __enter__(self) -> Self:
        if isinstance(self._backend, WrappedBackend):
            try:
                self._backend.connect()
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


class AsyncEnvHandle(EnvProperties, Generic[ActT, ObsT, RewardT, FlagT]):
    """`EnvHandle` for `await`; same names, same meaning."""

    __slots__ = ("_handle",)

    def __init__(self, handle: EnvHandle[ActT, ObsT, RewardT, FlagT]) -> None:
        self._handle = handle

    @property
    def sync(self) -> EnvHandle[ActT, ObsT, RewardT, FlagT]:
        """The handle that this one belongs to."""
        return self._handle

    @property
    def _backend(self) -> Backend:  # type: ignore[override]
        return self._handle._backend

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        return self._handle.spec

    async def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        episode_id: str | None = None,
        task: TaskChoice | None = None,
        **own: Any,
    ) -> ResetResult[ObsT]:
        arguments = reset_arguments(seed, options, episode_id, task, own)
        return await self._backend.acall("reset", arguments)  # type: ignore[no-any-return]

    async def step(self, action: ActT | Mapping[str, Any]) -> StepResult[ObsT, RewardT, FlagT]:
        return await self._backend.acall("step", action)  # type: ignore[no-any-return]

    async def respond(self, request_id: str, value: Any) -> StepResult[ObsT, RewardT, FlagT]:
        data = {"request_id": request_id, "value": value}
        return await self._backend.acall("respond", data)  # type: ignore[no-any-return]

    async def state(self) -> Any:
        return await self._backend.acall("state")

    async def render(self) -> Any:
        return await self._backend.acall("render")

    async def snapshot(self) -> Any:
        return await self._backend.acall("snapshot")

    async def restore(self, snapshot: Any) -> None:
        await self._backend.acall("restore", snapshot)

    async def fork(self) -> AsyncEnvHandle[ActT, ObsT, RewardT, FlagT]:
        return self._handle._twin(await self._backend.acall("fork")).aio

    async def last(self) -> Any:
        return await self._backend.acall("last")

    async def connect(self) -> Self:
        """Connect now and not with the first call, for a handle on a server."""
        await self._handle._connect_async()
        return self

    async def close(self) -> tuple[Request, ...]:
        return await self._handle._close_async()

    def with_middleware(self, *middleware: Middleware) -> AsyncEnvHandle[ActT, ObsT, RewardT, FlagT]:
        return self._handle.with_middleware(*middleware).aio

    async def __aenter__(self) -> Self:
        try:
            return await self.connect()
        except BaseException:
            await self.close()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()


def reset_arguments(
    seed: int | None, options: dict[str, Any] | None, episode_id: str | None, task: Any, own: dict[str, Any]
) -> dict[str, Any]:
    """The `data` of a reset call: what was given, without the Nones."""
    if seed is not None:
        own["seed"] = seed
    if options is not None:
        own["options"] = options
    if episode_id is not None:
        own["episode_id"] = episode_id
    if task is not None:
        own["task"] = task.id if isinstance(task, ListedTask) else task
    return own
