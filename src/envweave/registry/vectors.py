"""`make_vector`: many environments at once, here or on servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, overload

from envweave.chat import Chat
from envweave.core.environment import ActT, EnvironmentBase, HasAgents, HasStep, ObsT
from envweave.core.lookup import load
from envweave.core.spec import EnvSpec
from envweave.errors import UsageError
from envweave.plan import EnvPlan, InstancePlan
from envweave.registry.backends import SERVERS, ServerFactory, chosen_backend, server_for
from envweave.registry.make import (
    CLIENT_OPTIONS,
    EnvSource,
    RecordTarget,
    connection_options,
    is_instance,
    refuse_for_instance,
    spec,
)
from envweave.vector.base import VectorEnv
from envweave.vector.executor import LocalExecutor
from envweave.vector.slot import Slot

if TYPE_CHECKING:
    from envweave.record import Recorder

EXECUTORS = {
    "inproc": "envweave.vector.inproc:InprocExecutor",
    "thread": "envweave.vector.thread:ThreadExecutor",
}
"""Backends in this process."""


@overload
def make_vector(
    id: Callable[..., HasAgents] | Sequence[Callable[..., HasAgents]],
    num_envs: int | None = ...,
    *,
    backend: str = ...,
    autoreset: bool = ...,
    deadline: float | None = ...,
    max_episode_steps: int | None = ...,
    chat: Chat | bool | None = ...,
    step_timeout: float | None = ...,
    max_workers: int | None = ...,
    docker_image: str | None = ...,
    containers: int | None = ...,
    provider_options: Mapping[str, Any] | None = ...,
    record: RecordTarget | None = ...,
    **kwargs: Any,
) -> VectorEnv[Any, Any, Any, Any]: ...


@overload
def make_vector(
    id: Callable[..., EnvironmentBase[ActT, ObsT]] | Sequence[Callable[..., EnvironmentBase[ActT, ObsT]]],
    num_envs: int | None = ...,
    *,
    backend: str = ...,
    autoreset: bool = ...,
    deadline: float | None = ...,
    max_episode_steps: int | None = ...,
    chat: Chat | bool | None = ...,
    step_timeout: float | None = ...,
    max_workers: int | None = ...,
    docker_image: str | None = ...,
    containers: int | None = ...,
    provider_options: Mapping[str, Any] | None = ...,
    record: RecordTarget | None = ...,
    **kwargs: Any,
) -> VectorEnv[ActT, ObsT]: ...


@overload
def make_vector(
    id: EnvSource | Sequence[EnvSource | HasStep],
    num_envs: int | None = ...,
    *,
    backend: str = ...,
    autoreset: bool = ...,
    deadline: float | None = ...,
    max_episode_steps: int | None = ...,
    chat: Chat | bool | None = ...,
    step_timeout: float | None = ...,
    max_workers: int | None = ...,
    docker_image: str | None = ...,
    containers: int | None = ...,
    provider_options: Mapping[str, Any] | None = ...,
    record: RecordTarget | None = ...,
    **kwargs: Any,
) -> VectorEnv[Any, Any, Any, Any]: ...


def make_vector(
    id: Any,
    num_envs: int | None = None,
    *,
    backend: str = "auto",
    autoreset: bool = False,
    deadline: float | None = None,
    max_episode_steps: int | None = None,
    chat: Chat | bool | None = None,
    step_timeout: float | None = None,
    max_workers: int | None = None,
    docker_image: str | None = None,
    containers: int | None = None,
    provider_options: Mapping[str, Any] | None = None,
    record: RecordTarget | None = None,
    **kwargs: Any,
) -> VectorEnv[Any, Any, Any, Any]:
    """Make `num_envs` independent environments of one ID, class or factory, or one for each element of a list.

    `inproc` runs them in a loop: best for steps of less than a millisecond. `thread` runs them side by side: for steps
    that wait. `auto` is `inproc`, or `thread` where `step_timeout` or `max_workers` ask for it. At a URL the server
    runs them, all on one connection. A list may mix environments of this process with those of servers.

    `subprocess`, `docker` and `kubernetes` start servers, which end with the vector: one, and others once it takes no
    more sessions, or `containers` of them with the environments spread evenly. `chat`, `docker_image` and
    `provider_options` are as in `make`. With `record` the episodes of all environments are written to one run.
    """
    is_list = isinstance(id, Sequence) and not isinstance(id, str | bytes)
    sources = list(id) if is_list else [id] * _count(num_envs)
    if not sources or num_envs not in (None, len(sources)):
        message = f"{len(sources)} IDs for {num_envs} environments"
        raise UsageError(message, "give as many IDs as environments, at least one")
    threads = {"step_timeout": step_timeout, "max_workers": max_workers}
    builder = _Builder(
        backend=backend,
        autoreset=autoreset,
        chat=Chat.of(chat),
        threads={name: value for name, value in threads.items() if value is not None},
        docker_image=docker_image,
        containers=containers,
        provider_options=provider_options,
        limits=(deadline, max_episode_steps),
        arguments=kwargs,
    )
    if record is None:
        return VectorEnv(builder.slots(sources))
    from envweave.registry.recording import open_recorder  # loaded if it is asked for

    builder.recorder, owned = open_recorder(record, kwargs)
    try:
        return VectorEnv(builder.slots(sources), builder.recorder if owned else None)
    except BaseException:
        if owned:
            builder.recorder.close()
        raise


class _Builder:
    """Makes the slots of one vector: those of this process together, those of each server together."""

    def __init__(
        self,
        *,
        backend: str,
        autoreset: bool,
        chat: Chat | None,
        threads: dict[str, Any],
        docker_image: str | None,
        containers: int | None,
        provider_options: Mapping[str, Any] | None,
        limits: tuple[float | None, int | None],
        arguments: dict[str, Any],
    ) -> None:
        self._backend = backend
        self._autoreset = autoreset
        self._chat = chat
        self._threads = threads
        self._docker_image = docker_image
        self._containers = containers
        self._provider_options = provider_options
        self._limits = limits
        self._arguments = arguments
        self.recorder: Recorder | None = None

    def slots(self, sources: list[Any]) -> list[Slot]:
        """An open slot for each source. Raises and leaves nothing open."""
        groups = _grouped(sources)
        specs = [None if is_instance(source) else spec(source).limited(*self._limits) for source, _ in groups]
        is_mixed = len({found is not None and bool(found.url) for found in specs}) == 2
        arguments = {k: v for k, v in self._arguments.items() if not (is_mixed and k in CLIENT_OPTIONS)}
        remote: list[tuple[EnvSpec, ServerFactory | None, list[int]]] = []
        plans: dict[int, tuple[EnvPlan, str]] = {}
        where = self._backend if self._backend in EXECUTORS else ""
        for (source, numbers), found in zip(groups, specs, strict=True):
            if found is None:
                plans |= self._instance(source, numbers, arguments)
                continue
            backend = "auto" if is_mixed and found.url and where else self._backend
            chosen = chosen_backend(found, backend, tuple(EXECUTORS))
            server = server_for(found, chosen, self._docker_image, self._provider_options)
            if found.url or server is not None:
                remote.append((found, server, numbers))
            else:
                where = where or chosen
                plan = EnvPlan(found, arguments, self._autoreset, chat=self._chat).check()
                plans |= {number: (plan, f"{found.id}#{number}") for number in numbers}
        if not remote and self._containers is not None:
            raise UsageError("containers for environments that run here", "add backend='docker'")
        return self._opened(len(sources), where, plans, remote)

    def _instance(self, source: Any, numbers: list[int], arguments: dict[str, Any]) -> dict[int, tuple[EnvPlan, str]]:
        if len(numbers) > 1:
            raise UsageError("one instance for several environments", "pass its class, or a function that makes it")
        refuse_for_instance(self._backend, arguments, tuple(EXECUTORS))
        name = type(source).__name__
        deadline, max_episode_steps = self._limits
        found = EnvSpec(id=name, deadline=deadline, max_episode_steps=max_episode_steps)
        plan = InstancePlan.of(source, found, autoreset=self._autoreset, chat=self._chat)
        return {numbers[0]: (plan, f"{name}#{numbers[0]}")}

    def _opened(
        self,
        count: int,
        where: str,
        plans: dict[int, tuple[EnvPlan, str]],
        remote: list[tuple[EnvSpec, ServerFactory | None, list[int]]],
    ) -> list[Slot]:
        opened: dict[int, Slot] = {}
        try:
            if plans:
                opened |= self._local(where, plans)
            elif self._threads:
                hint = "`envweave serve` has options for the same"
                raise UsageError(f"{next(iter(self._threads))} for environments that run on a server", hint)
            for found, server, numbers in remote:
                opened |= self._remote(found, server, numbers)
        except BaseException:
            if opened:
                VectorEnv(list(opened.values())).close()
            raise
        return [opened[number] for number in range(count)]

    def _local(self, where: str, plans: dict[int, tuple[EnvPlan, str]]) -> dict[int, Slot]:
        where = where or ("thread" if self._threads else "inproc")
        if where == "inproc" and self._threads:
            raise UsageError("inproc runs in your own thread: no step_timeout, no max_workers", "use backend='thread'")
        executor: LocalExecutor = load(EXECUTORS[where])(**self._threads)
        recorded = {number: (self._recorded(plan), id) for number, (plan, id) in plans.items()}
        slots = {number: Slot(id, plan, executor, autoreset=self._autoreset) for number, (plan, id) in recorded.items()}
        executor.open(list(slots.values()))
        return slots

    def _remote(self, found: EnvSpec, server: ServerFactory | None, numbers: list[int]) -> dict[int, Slot]:
        arguments = dict(self._arguments)
        options = connection_options(found, arguments, self._chat)
        options.pop("action_type")  # the server checks the actions
        open_slots = load("envweave.client.env_client:open_slots", extra="client")
        slots = open_slots(
            **self._servers(found, server, len(numbers)),
            numbers=numbers,
            **({} if server is None else {"token": server.token}),
            **options,
            autoreset=self._autoreset,
            chat=self._chat,
            deadline=found.deadline,
            max_episode_steps=found.max_episode_steps,
            arguments={**found.kwargs, **arguments},
        )
        if self.recorder is not None:
            from envweave.registry.recording import recording_executor

            executors = {id(slot.executor): slot.executor for slot in slots}
            header = self._header(found.id if found.source != "local" else found, found)
            wrapped = {key: recording_executor(one, self.recorder, header) for key, one in executors.items()}
            for slot in slots:
                slot.executor = wrapped[id(slot.executor)]
        return dict(zip(numbers, slots, strict=True))

    def _recorded(self, plan: EnvPlan) -> Any:
        """The plan of an environment in this process, recorded if that is asked for."""
        if self.recorder is None:
            return plan
        from envweave.registry.recording import RecordedPlan

        return RecordedPlan(plan, self.recorder, self._header(plan.spec, plan.spec))

    def _header(self, source: Any, found: EnvSpec) -> dict[str, Any]:
        from envweave.registry.recording import made_header

        deadline, max_episode_steps = self._limits
        rules = {"autoreset": self._autoreset, "chat": self._chat, "deadline": deadline}
        options = {**self._arguments, **rules, "max_episode_steps": max_episode_steps, "backend": self._backend}
        return made_header(source, found, options)

    def _servers(self, found: EnvSpec, server: ServerFactory | None, count: int) -> dict[str, Any]:
        """What the slots connect to, and how to get more of it."""
        containers = self._containers
        if server is None:
            if containers is not None:
                raise UsageError(f"containers for {found.url}, which runs already", "leave it out")
            return {"url": found.url}
        if containers is None:
            return {"url": server.provider(), "another": server.provider}
        if isinstance(containers, bool) or not isinstance(containers, int) or not 1 <= containers <= count:
            raise UsageError(f"containers is {containers!r}", f"use a number from 1 to {count}, the environments")
        return {"url": [server.provider() for _ in range(containers)]}


def _grouped(sources: list[Any]) -> list[tuple[Any, list[int]]]:
    """Each source with the rows that it is for: those share a plan, or their servers."""
    groups: dict[Any, tuple[Any, list[int]]] = {}
    for number, source in enumerate(sources):
        groups.setdefault(source if isinstance(source, str) else id(source), (source, []))[1].append(number)
    return list(groups.values())


def _count(num_envs: int | None) -> int:
    whole = hasattr(num_envs, "__index__") and not isinstance(num_envs, bool)
    if not whole or index(num_envs) < 1:  # type: ignore[arg-type]
        raise UsageError(f"num_envs is {num_envs!r}", "use a positive number")
    return index(num_envs)  # type: ignore[arg-type]


__all__ = ["EXECUTORS", "SERVERS", "make_vector"]
