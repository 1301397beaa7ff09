"""`register`, `spec` and `make`: from a name to something that runs."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from envweave.chat import Chat, ChatObservation
from envweave.core.env_types import EnvTypes, types_made_by
from envweave.core.environment import ActT, EnvironmentBase, HasAgents, HasStep, ObsT
from envweave.core.handle import EnvHandle
from envweave.core.ids import EnvID
from envweave.core.local import open_local
from envweave.core.lookup import load
from envweave.core.spec import EnvSpec
from envweave.errors import UnavailableError, UsageError
from envweave.plan import EnvPlan, adapt
from envweave.registry import resolvers
from envweave.registry.backends import SharedServer, chosen_backend, server_for
from envweave.registry.resolvers.local import LOCAL

if TYPE_CHECKING:
    from envweave.client.env_client import EnvClient
    from envweave.providers.base import Provider
    from envweave.record import Recorder

EnvSource: TypeAlias = str | PathLike[str] | EnvSpec | Callable[..., Any]
"""What names an environment: an ID, the path of a file, a spec, a class, or a function that makes one."""

RecordTarget: TypeAlias = "str | PathLike[str] | Recorder"
"""Where episodes are recorded: the folder of a run, or a recorder that the caller closes."""

TYPES = ("action_type", "observation_type", "state_type")
CLIENT_OPTIONS = (
    "token",
    "headers",
    "connect_timeout_s",
    "message_timeout_s",
    "max_message_bytes",
    "ping_interval_s",
    "ping_timeout_s",
)
"""Options of a client that `make` takes for a URL; elsewhere these names are arguments of the environment."""


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
    """Remove a name that `register` has given."""
    LOCAL.remove(EnvID.parse(id))


def spec(id: EnvSource) -> EnvSpec:
    """What is known of an environment, without making one. Parameters of the ID are in `kwargs`."""
    if isinstance(id, EnvSpec):
        return id if id.factory is not None or id.url or id.image else spec(id.id)
    if callable(id):
        text = inspect.cleandoc(id.__doc__ or "").partition("\n")[0]
        return EnvSpec(id=str(getattr(id, "__name__", type(id).__name__)), factory=id, description=text)
    parsed = EnvID.parse(f"file://{os.path.abspath(id)}" if isinstance(id, PathLike) else id)
    found = resolvers.resolve(parsed)
    return replace(found, kwargs={**found.kwargs, **parsed.parameters}) if parsed.parameters else found


def spec_with(id: EnvSource, kwargs: dict[str, Any]) -> EnvSpec:
    """The spec with further arguments for its factory, which are checked."""
    found = spec(id)
    if found.url:
        raise UsageError(f"{found.url} is served already")
    if found.image:
        raise UsageError(
            f"{found.id} is an image that serves by itself", f"docker run -p 127.0.0.1:8000:8000 {found.image}"
        )
    EnvPlan(found, kwargs).check()
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


@overload
def make(
    id: HasAgents | Callable[..., HasAgents],
    *,
    backend: str = ...,
    autoreset: bool = ...,
    deadline: float | None = ...,
    max_episode_steps: int | None = ...,
    chat: Chat | bool | None = ...,
    instance_id: str | None = ...,
    docker_image: str | None = ...,
    provider_options: Mapping[str, Any] | None = ...,
    record: RecordTarget | None = ...,
    **kwargs: Any,
) -> EnvHandle[Any, Any, Any, Any]: ...


@overload
def make(
    id: EnvironmentBase[ActT, ObsT] | Callable[..., EnvironmentBase[ActT, ObsT]],
    *,
    backend: str = ...,
    autoreset: bool = ...,
    deadline: float | None = ...,
    max_episode_steps: int | None = ...,
    chat: None = ...,
    instance_id: str | None = ...,
    docker_image: str | None = ...,
    provider_options: Mapping[str, Any] | None = ...,
    record: RecordTarget | None = ...,
    **kwargs: Any,
) -> EnvHandle[ActT, ObsT]: ...


@overload
def make(
    id: EnvSource | HasStep,
    *,
    backend: str = ...,
    autoreset: bool = ...,
    deadline: float | None = ...,
    max_episode_steps: int | None = ...,
    chat: Chat | bool | None = ...,
    instance_id: str | None = ...,
    docker_image: str | None = ...,
    provider_options: Mapping[str, Any] | None = ...,
    record: RecordTarget | None = ...,
    **kwargs: Any,
) -> EnvHandle[Any, Any, Any, Any]: ...


def make(id: Any, **options: Any) -> EnvHandle[Any, Any, Any, Any]:
    """Make an environment: of an ID, a class or a factory. Use it in a `with`, or close it.

    `kwargs` go to the factory, wherever that is. With `autoreset` the step that ends an episode begins the next; the
    last observation stays in the result and the new first one comes in an `autoreset_ready` request. With `chat`
    observations are messages for a language model, and actions are its replies; see `envweave.chat`.

    `backend` says where it runs: `inproc`, or on a server of its own, which ends with the handle: `subprocess`,
    `docker` or `kubernetes`. `docker_image` is the image of the last two (`envweave-<id>:latest`, which
    `envweave build` makes), and `provider_options` are those of the server's provider.

    `record` is the folder of a run to which each episode is written, or an `envweave.record.Recorder`.

    At a URL, `token`, `headers` and the timeouts of `EnvClient` are options of the connection; `action_type`,
    `observation_type` and `state_type` name the types of an environment that is not known here. Called on a running
    event loop, `make` does not block: the first call connects. `await ew.aio.make(…)` connects at once.
    """
    return prepare(id, **options).__enter__()  # connects, or closes what was started and raises


def prepare(id: Any, *, record: RecordTarget | None = None, **options: Any) -> EnvHandle[Any, Any, Any, Any]:
    """`make` without the connection: a client on a server is not connected yet."""
    if record is None:
        return _prepare(id, **options)
    from envweave.registry.recording import record_made  # loaded if it is asked for

    return record_made(record, id, options, _prepare)


def _prepare(
    id: Any,
    *,
    backend: str = "auto",
    autoreset: bool = False,
    deadline: float | None = None,
    max_episode_steps: int | None = None,
    chat: Chat | bool | None = None,
    instance_id: str | None = None,
    docker_image: str | None = None,
    provider_options: Mapping[str, Any] | None = None,
    servers: SharedServer | None = None,
    **kwargs: Any,
) -> EnvHandle[Any, Any, Any, Any]:
    if is_instance(id):
        options = {"docker_image": docker_image, "provider_options": provider_options, **kwargs}
        refuse_for_instance(backend, options)
        limits: dict[str, Any] = {"deadline": deadline, "max_episode_steps": max_episode_steps}
        return adapt(id, id=instance_id, autoreset=autoreset, chat=chat, **limits)
    talk = Chat.of(chat)
    found = spec(id).limited(deadline, max_episode_steps)
    where = chosen_backend(found, backend, ("inproc",))
    server = server_for(found, where, docker_image, provider_options)
    if not found.url and server is None:
        plan = EnvPlan(found, kwargs, autoreset, chat=talk).check()
        return EnvHandle(open_local(plan, instance_id or f"{found.id}#0"), found)
    options = connection_options(found, kwargs, talk)
    target: Any = found.url
    if server is not None:
        target, options["token"] = (server.provider(), server.token) if servers is None else servers.of(server)
    client: Callable[..., EnvClient[Any, Any, Any]] = load("envweave.client.env_client:EnvClient", extra="client")
    return client(
        target,
        **options,
        autoreset=autoreset,
        deadline=found.deadline,
        max_episode_steps=found.max_episode_steps,
        chat=talk,
        env_id=instance_id,
        arguments={**found.kwargs, **kwargs},
        spec=found,
    )


def is_instance(source: Any) -> bool:
    """Whether this is an environment itself, rather than a class or a name."""
    return callable(getattr(source, "step", None)) and not isinstance(source, type)


def refuse_for_instance(backend: str, options: dict[str, Any], local: tuple[str, ...] = ("inproc",)) -> None:
    """Raise `UsageError` for what needs another environment than the one that exists."""
    if backend not in ("auto", *local):
        raise UsageError(f"an instance does not run {backend!r}", "pass its class, or a function that makes it")
    for name, value in options.items():
        if value is not None:
            raise UsageError(f"{name!r} for an environment that is built already", "pass its class")


def connection_options(found: EnvSpec, kwargs: dict[str, Any], chat: Chat | None) -> dict[str, Any]:
    """The options of a client, which are taken out of `kwargs`, and the types that are known here."""
    known = known_types(found) if chat is None else EnvTypes(None, ChatObservation, None)
    options = {name: kwargs.pop(name, None) or getattr(known, name.removesuffix("_type")) for name in TYPES}
    if found.url:
        options |= {name: kwargs.pop(name) for name in CLIENT_OPTIONS if name in kwargs}
    return options


def known_types(found: EnvSpec) -> EnvTypes:
    """The types of an environment that is known in this process, as far as they can be told without building it."""
    if found.factory is None:
        return EnvTypes()
    declared = types_made_by(found.loaded())
    observation = load(found.observation_type) if isinstance(found.observation_type, str) else found.observation_type
    return EnvTypes(None, observation or declared.observation, declared.state)


def connect(url: str | Provider, **options: Any) -> EnvHandle[Any, Any, Any, Any]:
    """A handle on an environment that runs on a server, ours or OpenEnv's; `http://` and `ws://` are the same here.

    A provider in place of a URL starts the server, which ends with the handle.

    `options` are those of `envweave.client.EnvClient`, for example `token`.
    """
    return load("envweave.client.env_client:connect", extra="client")(url, **options)  # type: ignore[no-any-return]
