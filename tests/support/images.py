"""Images of this envweave for all tests that want a server in a container.

A tag names the content of what it was made from, so that none is ever stale, and the next run finds it. Builds reach
the package index through the host's network: a daemon of our own has no other. Of several test processes one builds.
"""

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envweave.errors import ProviderError
from envweave.images import pip
from envweave.images.build import BuildOptions, build_env_image, ensure_base_image
from envweave.images.context import temporary_context, write_base_context, write_env_context
from envweave.images.engine import BuildStep, build_image, image_id
from envweave.images.target import BuildTarget, resolve_target
from support.image import LABELS
from support.need import need

SECRET_HOST = "nobody-else-knows.invalid"
"""A setting of pip that every build gets; a test sees that no image holds it."""
ARGUMENTS = {"PIP_TRUSTED_HOST": SECRET_HOST}


def ensure_base(python_image: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        content = write_base_context(Path(folder))["DIGEST"][:12]
    tag = f"envweave-base:test-{content}-{LABELS['envweave.test-base.recipe']}"
    with one_at_a_time():
        if not image_id(tag):
            options = BuildOptions(python_image=python_image, network="host", arguments=ARGUMENTS)
            built(lambda: ensure_base_image(options, pip.read_settings(), quiet, tag))
    return tag


def ensure_env(id: str, base: str, *packages: str) -> str:
    """With further packages, if any: then the image is made anew each time, from the layers that are there."""
    target = resolve_target(id)
    tag = f"{target.tag.partition(':')[0]}:{base.partition(':')[2]}"
    with one_at_a_time():
        if packages:
            tag += "-more"
            built(lambda: make_with(target, base, tag, packages))
        elif not image_id(tag):
            options = BuildOptions(tag=tag, base=base, network="host", arguments=ARGUMENTS, test=False)
            built(lambda: build_env_image(target, options, quiet))
    return tag


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """While another test process builds an image, wait; then it is found."""
    with Path(tempfile.gettempdir(), "envweave-test-images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_with(target: BuildTarget, base: str, tag: str, packages: tuple[str, ...]) -> None:
    with temporary_context() as folder:
        arguments = {**write_env_context(folder, target, pip.ca_bundle(pip.read_settings())), "BASE": base, **ARGUMENTS}
        (folder / "packages" / "requirements.txt").write_text("\n".join(packages))
        build_image(folder, "docker/env/Dockerfile", tag, arguments, network="host", progress=quiet)


def built(build) -> None:
    try:
        build()
    except ProviderError as error:
        if "package index" in error.hint:
            need("docker", f"no image can be built here: {error.hint}")
        raise


def quiet(step: BuildStep) -> None:
    pass
