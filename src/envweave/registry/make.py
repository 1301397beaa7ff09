"""`register`, `spec` and `make`: from a name to something that runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from envweave.build import blueprint
from envweave.core.handle import EnvHandle
from envweave.core.ids import EnvID
from envweave.core.lookup import load
from envweave.core.spec import EnvSpec
from envweave.core.start import start
from envweave.errors import UnavailableError, UsageError
from envweave.registry import resolvers
from envweave.registry.hosting import backend_for, hosting_for
from envweave.registry.resolvers.local import LOCAL

if TYPE_CHECKING:
    from envweave.providers.base import Provider


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
        raise UsageError(
            f"{found.id} is an image that serves by itself", f"docker run -p 127.0.0.1:8000:8000 {found.image}"
        )
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
    found = spec(id).limited(deadline, max_episode_steps)
    hosting = hosting_for(found, backend_for(found, backend, ("inproc",)), docker_image, provider_options)
    if found.url or hosting is not None:
        return connect(
            found.url if hosting is None else hosting.provider(),
            token=None if hosting is None else hosting.token,
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
