"""`make`, `make_vector` and `register`: from a name to something that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any

from envweave.build import blueprint
from envweave.core.flows import Blueprint
from envweave.core.handle import EnvHandle
from envweave.core.ids import EnvID
from envweave.core.lookup import load
from envweave.core.spec import EnvSpec
from envweave.core.start import start
from envweave.core.suggest import nearest
from envweave.errors import UnavailableError, UsageError
from envweave.registry import resolvers
from envweave.registry.hosting import BACKENDS, provider_for
from envweave.registry.resolvers.local import LOCAL
from envweave.vector.base import VectorEnv

if TYPE_CHECKING:
    from envweave.providers.base import Provider

VECTORS = {
    "inproc": "envweave.vector.inproc:InprocVector",
    "thread": "envweave.vector.thread:ThreadVector",
}

EXPECTED_BACKENDS = {"process": "all", "async": "all", "ray": "ray"}
"""Backends of the design that this version does not have, with the extra each will come in."""


def register(
    id: str,
    factory: Callable[..., Any] | str,
    *,
    kwargs: dict[str, Any] | None = None,
    description: str = "",
    action_type: Any = None,
    observation_type: Any = None,
    deadline: float | None = None,
    max_episode_steps: int | None = None,
    metadata: dict[str, Any] | None = None,
    overwrite: bool = False,
) -> EnvSpec:
    """Give an environment a name in this process: `name`, `name-v1`, `name@1.2`, with or without `local://`.

    `factory` is a class, a function or `"module:name"`, called anew for each environment.
    """
    parsed = EnvID.parse(id)
    if parsed.scheme not in ("", "local"):
        raise UsageError(f"cannot register {id!r}: {parsed.scheme}:// is not local", "use a bare name or local://")
    if parsed.parameters:
        raise UsageError(f"cannot register {id!r} with parameters", "pass them as kwargs={…}")
    spec = EnvSpec(
        id=parsed.locator,
        version=parsed.version,
        factory=factory,
        kwargs=kwargs or {},
        description=description,
        action_type=action_type,
        observation_type=observation_type,
        deadline=deadline,
        max_episode_steps=max_episode_steps,
        metadata=metadata or {},
    )
    if spec.factory is None:
        raise UsageError(f"the factory of {id!r} is None", "pass the class, a function or 'module:name'")
    LOCAL.add(parsed, spec, overwrite=overwrite)
    return spec


def unregister(id: str) -> None:
    """Forget a name that `register` took."""
    LOCAL.remove(EnvID.parse(id))


def spec(id: str | EnvSpec) -> EnvSpec:
    """What is known of an environment, without making one. Parameters of the ID are in `kwargs`."""
    if isinstance(id, EnvSpec):
        return id if id.factory is not None or id.url or id.image else spec(id.id)
    parsed = EnvID.parse(id)
    found = resolvers.resolve(parsed)
    return replace(found, kwargs={**found.kwargs, **parsed.parameters}) if parsed.parameters else found


def spec_with(id: str | EnvSpec, kwargs: dict[str, Any]) -> EnvSpec:
    """The spec with further arguments for its factory, which are checked."""
    found = spec(id)
    if found.url:
        raise UsageError(f"{found.url} is served already")
    if found.image:
        raise UsageError(f"{found.id} is an image that serves by itself", f"docker run -p 8000:8000 {found.image}")
    blueprint(found, kwargs)
    return replace(found, kwargs={**found.kwargs, **kwargs})


def registry() -> dict[str, EnvSpec]:
    """All names that `make` takes without a scheme, with their specs. One that cannot be loaded has no factory."""
    found: dict[str, EnvSpec] = {}
    for scheme in resolvers.BARE:
        for name in resolvers.resolver(scheme).names():
            if name not in found:
                found[name] = _spec_or_reason(name)
    return dict(sorted(found.items()))


def _spec_or_reason(name: str) -> EnvSpec:
    try:
        return spec(name)
    except UnavailableError as error:
        return EnvSpec(id=name, description=error.message, source="broken")


def make(
    id: str | EnvSpec,
    *,
    backend: str = "auto",
    autoreset: bool = False,
    deadline: float | None = None,
    max_episode_steps: int | None = None,
    instance_id: str | None = None,
    docker_image: str | None = None,
    provider_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> EnvHandle[Any]:
    """Make an environment; `kwargs` go to its factory, wherever that is. Use it in a `with`, or close it.

    With `autoreset` the step that ends an episode begins the next; the last observation stays in the result and the
    new first one comes in an `autoreset_ready` request.

    `backend` says where it runs: `inproc`, or on a server of its own, which ends with the handle: `subprocess`,
    `docker_http` or `kubernetes`. `docker_image` is the image of the last two (`envweave-<id>:latest`, which
    `envweave build` makes), and `provider_options` are those of the server's provider.
    """
    found = _limited(spec(id), deadline, max_episode_steps)
    where = _where(found, backend, ("inproc", *BACKENDS))
    source = found.url or _hosted(found, where, docker_image, provider_options)
    if source:
        return connect(
            source,
            autoreset=autoreset,
            deadline=found.deadline,
            max_episode_steps=found.max_episode_steps,
            env_id=instance_id,
            arguments={**found.kwargs, **kwargs},
        )
    plan = blueprint(found, kwargs, autoreset=autoreset)
    return start(plan, instance_id or f"{found.id}#0")


def connect(url: str | Provider, **options: Any) -> EnvHandle[Any]:
    """A handle on an environment that runs on a server, ours or OpenEnv's; `http://` and `ws://` are the same here.

    A provider in place of a URL starts the server, which ends with the handle.

    `options` are those of `envweave.client.EnvClient`, a `token` above all.
    """
    return load("envweave.client.env_client:connect", extra="client")(url, **options)  # type: ignore[no-any-return]


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
    no more sessions, or `containers` of them with the environments spread evenly.
    """
    if isinstance(id, str | EnvSpec):
        found = _limited(spec(id), deadline, max_episode_steps)
        where = _where(found, backend, (*VECTORS, *BACKENDS))
        if found.url or where in BACKENDS:
            _refuse_threads(found, where, backend, step_timeout, max_workers)
            make_server = partial(_hosted, found, where, docker_image, provider_options)
            servers = _servers(found, make_server, _count(num_envs), containers)
            limits = {"deadline": found.deadline, "max_episode_steps": found.max_episode_steps}
            arguments = {**found.kwargs, **kwargs}
            return _remote_vector(
                *servers, num_envs=_count(num_envs), autoreset=autoreset, arguments=arguments, **limits
            )
    for name, value in (
        ("docker_image", docker_image),
        ("containers", containers),
        ("provider_options", provider_options),
    ):
        if value is not None:
            raise UsageError(f"{name} without a server to start", "add backend='docker_http'")
    if backend == "auto":
        backend = "thread" if step_timeout is not None or max_workers is not None else "inproc"
    _check_backend(backend, (*VECTORS, *BACKENDS))
    if backend == "inproc" and (step_timeout is not None or max_workers is not None):
        raise UsageError("inproc runs in your own thread: no step_timeout, no max_workers", "use backend='thread'")
    ids = [id] * _count(num_envs) if isinstance(id, str | EnvSpec) else list(id)
    if not ids or num_envs not in (None, len(ids)):
        raise UsageError(
            f"{len(ids)} IDs for {num_envs} environments", "give as many IDs as environments, at least one"
        )
    plans: dict[str, Blueprint] = {}
    named: list[tuple[Blueprint, str]] = []
    for number, one in enumerate(ids):
        key = one if isinstance(one, str) else f"spec {number}"
        found = _limited(spec(one), deadline, max_episode_steps)
        if found.url or found.image or backend in BACKENDS:
            raise UsageError(f"{found.url or found.id} in a list of IDs", "a vector on servers has one ID and num_envs")
        if key not in plans:
            plans[key] = blueprint(found, kwargs, autoreset=autoreset)
        named.append((plans[key], f"{found.id}#{number}"))
    options = {"step_timeout": step_timeout, "max_workers": max_workers}
    return load(VECTORS[backend])(named, **{k: v for k, v in options.items() if v is not None})  # type: ignore[no-any-return]


def _hosted(found: EnvSpec, where: str, image: str | None, options: Mapping[str, Any] | None) -> Provider | None:
    """The provider that is to serve it; None where it runs in this process."""
    if where in BACKENDS:
        return provider_for(found, where, image, options)
    if image is not None or options is not None:
        raise UsageError("an image, or options of a provider, for what runs here", "add backend='docker_http'")
    return None


def _servers(
    found: EnvSpec, make_server: Callable[[], Provider | None], num_envs: int, containers: int | None
) -> tuple[Any, Any]:
    """What a vector connects to, and how it gets more of it."""
    if found.url:
        make_server()
        if containers is not None:
            raise UsageError(f"containers for {found.url}, which runs already", "leave it out")
        return found.url, None
    if containers is None:
        return make_server(), make_server
    if isinstance(containers, bool) or not isinstance(containers, int) or not 1 <= containers <= num_envs:
        raise UsageError(f"containers is {containers!r}", f"use a number from 1 to {num_envs}, the environments")
    return [make_server() for _ in range(containers)], None


def _refuse_threads(
    found: EnvSpec, where: str, backend: str, step_timeout: float | None, max_workers: int | None
) -> None:
    if step_timeout is not None or max_workers is not None or (found.url and backend != "auto"):
        hint = "leave out backend, step_timeout and max_workers; `envweave serve` has options for the same"
        raise UsageError(f"where {found.url or where} runs its environments is the server's choice", hint)


def _remote_vector(server: Any, another: Any, **options: Any) -> VectorEnv:
    connect_vector = load("envweave.client.env_client:connect_vector", extra="client")
    return connect_vector(server, another=another, **options)  # type: ignore[no-any-return]


def _where(found: EnvSpec, backend: str, known: tuple[str, ...]) -> str:
    """The backend: the one asked for, or the ID's own."""
    _check_backend(backend, ("auto", *known))
    if found.image and backend not in ("auto", found.backend, "docker_http", "kubernetes"):
        raise UsageError(f"{found.id} is an image, which does not run {backend!r}", "leave out backend")
    return found.backend if backend == "auto" else backend


def _limited(found: EnvSpec, deadline: float | None, max_episode_steps: int | None) -> EnvSpec:
    given = {"deadline": deadline, "max_episode_steps": max_episode_steps}
    return replace(found, **{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]


def _count(num_envs: int | None) -> int:
    whole = hasattr(num_envs, "__index__") and not isinstance(num_envs, bool)
    if not whole or index(num_envs) < 1:  # type: ignore[arg-type]
        raise UsageError(f"num_envs is {num_envs!r}", "use a positive number")
    return index(num_envs)  # type: ignore[arg-type]


def _check_backend(backend: str, known: tuple[str, ...]) -> None:
    if backend in known:
        return
    if backend in EXPECTED_BACKENDS:
        hint = f"needs a later release: pip install --upgrade 'envweave[{EXPECTED_BACKENDS[backend]}]'"
        raise UnavailableError(f"the backend {backend!r} is not in this version of envweave", hint)
    near = nearest(str(backend), known)
    hint = f"did you mean {near!r}?" if near else f"backends: {', '.join(known)}"
    raise UsageError(f"no backend named {backend!r}", hint)
