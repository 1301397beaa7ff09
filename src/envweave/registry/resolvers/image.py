"""`docker://image:tag`, `k8s://image:tag`, `hf://org/space`: an image that serves an environment."""

from __future__ import annotations

from typing import ClassVar

from envweave.core.ids import EnvID
from envweave.core.spec import EnvSpec
from envweave.errors import VersionError
from envweave.registry.resolvers.base import Resolver


class DockerResolver(Resolver):
    """The image is not looked up before the environment is made. A version is a digest."""

    backend: ClassVar[str] = "docker"

    def resolve(self, id: EnvID) -> EnvSpec:
        if id.version and not id.version.startswith("sha256:"):
            raise VersionError(
                f"{id.version!r} is not a digest", f"a tag is written {id.scheme}://{id.locator}:{id.version}"
            )
        return self._spec(id, id.name)

    def _spec(self, id: EnvID, image: str) -> EnvSpec:
        return EnvSpec(
            id=f"{id.scheme}://{id.name}",
            image=image,
            backend=self.backend,
            source=id.scheme,
            description="an environment in a container",
        )


class KubernetesResolver(DockerResolver):
    """The same image, in a pod of a Kubernetes cluster."""

    backend: ClassVar[str] = "kubernetes"


class HubResolver(DockerResolver):
    """The image of a Space on the Hugging Face Hub, in a container on this machine."""

    def resolve(self, id: EnvID) -> EnvSpec:
        from envweave.providers.hub import Space

        if id.version:
            raise VersionError(f"the image of a Space has no version {id.version!r}", "leave out @…")
        return self._spec(id, Space(id.locator).image())
