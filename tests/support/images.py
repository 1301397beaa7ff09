"""Images of this envweave for all tests that want a server in a container.

A tag names the content of what it was made from, so that none is ever stale, and the next run finds it. Builds reach
the package index through the host's network: a daemon of our own has no other.
"""

import tempfile
from pathlib import Path

from envweave.errors import ProviderError
from envweave.images import pip
from envweave.images.build import Step, build, id_of
from envweave.images.context import context, write_base, write_env
from envweave.images.image import Options, make_base, make_image
from envweave.images.target import Target, target_of
from support.image import LABELS
from support.need import need

SECRET_HOST = "nobody-else-knows.invalid"
"""A setting of pip that every build gets; a test sees that no image holds it."""
ARGUMENTS = {"PIP_TRUSTED_HOST": SECRET_HOST}


def ensure_base(python_image: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        content = write_base(Path(folder))["DIGEST"][:12]
    tag = f"envweave-base:test-{content}-{LABELS['envweave.test-base.recipe']}"
    if not id_of(tag):
        options = Options(python_image=python_image, network="host", arguments=ARGUMENTS)
        built(lambda: make_base(options, pip.settings(), quiet, tag))
    return tag


def ensure_env(id: str, base: str, *packages: str) -> str:
    """With further packages, if any: then the image is made anew each time, from the layers that are there."""
    target = target_of(id)
    tag = f"{target.tag.partition(':')[0]}:{base.partition(':')[2]}"
    if packages:
        tag += "-more"
        built(lambda: make_with(target, base, tag, packages))
    elif not id_of(tag):
        options = Options(tag=tag, base=base, network="host", arguments=ARGUMENTS, test=False)
        built(lambda: make_image(target, options, quiet))
    return tag


def make_with(target: Target, base: str, tag: str, packages: tuple[str, ...]) -> None:
    with context() as folder:
        arguments = {**write_env(folder, target, pip.authorities(pip.settings())), "BASE": base, **ARGUMENTS}
        (folder / "added" / "requirements.txt").write_text("\n".join(packages))
        build(folder, "docker/env/Dockerfile", tag, arguments, network="host", report=quiet)


def built(build) -> None:
    try:
        build()
    except ProviderError as error:
        if "package index" in error.hint:
            need("docker", f"no image can be built here: {error.hint}")
        raise


def quiet(step: Step) -> None:
    pass
