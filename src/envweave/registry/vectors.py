"""`make_vector`: many environments at once, here or on servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any

from envweave.build import blueprint
from envweave.core.flows import Blueprint
from envweave.core.lookup import load
from envweave.core.spec import EnvSpec
from envweave.errors import UsageError
from envweave.registry.hosting import SERVERS, Hosting, backend_for, hosting_for
from envweave.registry.make import spec
from envweave.vector.base import VectorEnv

HERE = {
    "inproc": "envweave.vector.inproc:InprocVector",
    "thread": "envweave.vector.thread:ThreadVector",
}
"""Backends in this process."""


def make_vector(
    id: str | EnvSpec | Sequence[str | EnvSpec],
    num_envs: int | None = None,
    *,
    backend: str = "auto",
    autoreset: bool = False,
    deadline: float | None = None,
    max_episode_steps: int | None = None,
    step_timeout: float | None = None,
    max_workers: int | None = None,
    docker_image: str | None = None,
    containers: int | None = None,
    provider_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> VectorEnv:
    """Make `num_envs` independent environments of one ID, or one for each ID of a list.

    `inproc` runs them in a loop: best for steps of less than a millisecond. `thread` runs them side by side: for steps
    that wait. `auto` is `inproc`, or `thread` where `step_timeout` or `max_workers` ask for it. At a URL the server
    runs them, all on one connection.

    `subprocess`, `docker_http` and `kubernetes` start servers, which end with the vector: one, and others once it takes
    no more sessions, or `containers` of them with the environments spread evenly. `docker_image` and `provider_options`
    are as in `make`.
    """
    ids = [id] if isinstance(id, str | EnvSpec) else list(id)
    count = _count(num_envs) if isinstance(id, str | EnvSpec) else len(ids)
    if not ids or num_envs not in (None, count):
        message = f"{len(ids)} IDs for {num_envs} environments"
        raise UsageError(message, "give as many IDs as environments, at least one")
    found = [spec(one).limited(deadline, max_episode_steps) for one in ids]
    where = backend_for(found[0], backend, tuple(HERE))
    hosting = hosting_for(found[0], where, docker_image, provider_options)
    threads = {"step_timeout": step_timeout, "max_workers": max_workers}
    threads = {name: value for name, value in threads.items() if value is not None}
    if isinstance(id, str | EnvSpec) and (found[0].url or hosting is not None):
        if threads:
            hint = "`envweave serve` has options for the same"
            raise UsageError(f"{next(iter(threads))} for environments that run on a server", hint)
        limits = {"deadline": found[0].deadline, "max_episode_steps": found[0].max_episode_steps}
        arguments = {**found[0].kwargs, **kwargs}
        connect_vector = load("envweave.client.env_client:connect_vector", extra="client")
        return connect_vector(  # type: ignore[no-any-return]
            **_servers(found[0], hosting, containers, count),
            num_envs=count,
            token=None if hosting is None else hosting.token,
            autoreset=autoreset,
            arguments=arguments,
            **limits,
        )
    plans = [_plan(one, kwargs, autoreset) for one in found]
    named = [(plans[number % len(plans)], f"{found[number % len(plans)].id}#{number}") for number in range(count)]
    return _here(named, where, threads, containers)


def _plan(found: EnvSpec, kwargs: dict[str, Any], autoreset: bool) -> Blueprint:
    if found.url or found.image:
        raise UsageError(f"{found.id} in a list of IDs", "a vector on servers has one ID and num_envs")
    return blueprint(found, kwargs, autoreset=autoreset)


def _here(
    named: Sequence[tuple[Blueprint, str]], where: str, threads: dict[str, Any], containers: int | None
) -> VectorEnv:
    where = where or ("thread" if threads else "inproc")
    if where in SERVERS:
        raise UsageError(f"a list of IDs, but {where!r} serves one", "give one ID and num_envs")
    if containers is not None:
        raise UsageError("containers for environments that run here", "add backend='docker_http'")
    if where == "inproc" and threads:
        raise UsageError("inproc runs in your own thread: no step_timeout, no max_workers", "use backend='thread'")
    return load(HERE[where])(named, **threads)  # type: ignore[no-any-return]


def _servers(found: EnvSpec, hosting: Hosting | None, containers: int | None, num_envs: int) -> dict[str, Any]:
    """What a vector connects to, and how it gets more of it."""
    if hosting is None:
        if containers is not None:
            raise UsageError(f"containers for {found.url}, which runs already", "leave it out")
        return {"url": found.url}
    if containers is None:
        return {"url": hosting.provider(), "another": hosting.provider}
    if isinstance(containers, bool) or not isinstance(containers, int) or not 1 <= containers <= num_envs:
        raise UsageError(f"containers is {containers!r}", f"use a number from 1 to {num_envs}, the environments")
    return {"url": [hosting.provider() for _ in range(containers)]}


def _count(num_envs: int | None) -> int:
    whole = hasattr(num_envs, "__index__") and not isinstance(num_envs, bool)
    if not whole or index(num_envs) < 1:  # type: ignore[arg-type]
        raise UsageError(f"num_envs is {num_envs!r}", "use a positive number")
    return index(num_envs)  # type: ignore[arg-type]
