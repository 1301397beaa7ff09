"""Clients that start their own server: from an image, or from a Space of the Hugging Face Hub."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from envweave.core.lookup import load
from envweave.providers.base import TOKEN, single_client_variables

if TYPE_CHECKING:
    from envweave.providers.base import Provider


class Launchable:
    """For a client whose first argument is a URL, a provider or a `ManagedServer`."""

    @classmethod
    def from_docker_image(cls, image: str, *, provider: Provider | None = None, **options: Any) -> Self:
        """Start a container of `image`, wait until it serves, and connect; `close` stops and removes it.

        `options` are those of the container (`env_vars`, `volumes`, `memory`, …: see
        `envweave.providers.container.ContainerOptions`) and of the client. `provider` is one that is to run the image
        instead of this machine's Docker. Raises `ProviderError` with the cause and the last lines of its log.
        """
        from envweave.client.managed_server import ManagedServer

        fields = load("envweave.providers.container:ContainerOptions").__dataclass_fields__
        ours = {name: options.pop(name) for name in list(options) if name in fields}
        runner = provider or load("envweave.providers.docker:LocalDockerProvider", extra="docker")(image)
        chosen = {**runner.env_vars, **(ours.get("env_vars") or {})}
        ours["env_vars"] = single_client_variables(chosen, options.get("token"))
        options["token"] = ours["env_vars"][TOKEN]
        server = ManagedServer(runner, start=partial(runner.start, image, **ours))
        return cls._connected(server, **options)

    @classmethod
    def _connected(cls, target: Any, **options: Any) -> Self:
        """A client that is connected; one that cannot be leaves nothing running."""
        client: Any = cls(target, **options)  # type: ignore[call-arg]
        return client.__enter__()  # type: ignore[no-any-return]

    @classmethod
    def from_hub(
        cls,
        repo_id: str,
        *,
        use_docker: bool = True,
        tag: str = "latest",
        project_path: str | os.PathLike[str] | None = None,
        trust_remote_code: bool | None = None,
        **options: Any,
    ) -> Self:
        """Start the environment of the Space `org/name`, and connect; `close` stops it.

        With `use_docker` its image with that `tag` runs in a container. Otherwise uv installs and runs its package on
        this machine, which needs your consent: `trust_remote_code=True` or `ENVWEAVE_TRUST_REMOTE_CODE=1`.
        `project_path`, a folder or what uv can install, replaces the package of the Space and needs no consent.
        """
        hub = load("envweave.providers.hub:Space")(repo_id)
        if use_docker:
            return cls.from_docker_image(hub.image(tag), **options)
        uv = load("envweave.providers.uv:UVProvider")
        names = ("env", "command", "with_packages", "python", "env_vars", "start_timeout")
        ours = {name: options.pop(name) for name in names if name in options}
        ours["env_vars"] = single_client_variables(ours.get("env_vars"), options.get("token"))
        options["token"] = ours["env_vars"][TOKEN]
        project = hub.package(trust_remote_code) if project_path is None else project_path
        return cls._connected(uv(project, **ours), **options)

    @classmethod
    def from_env(cls, repo_id: str, *, use_docker: bool = True, **options: Any) -> Self:
        """`from_hub` under the name that OpenEnv gave it."""
        return cls.from_hub(repo_id, use_docker=use_docker, **options)
