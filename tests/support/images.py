"""Images of this envweave for all tests that want a server in a container.

A tag names the content of what it was made from, so that none is ever stale, and the next run finds it. Builds reach
the package index through the host's network: a daemon of our own has no other.
"""

import tempfile
from pathlib import Path

from envweave.errors import ProviderError
from envweave.images import pip
from envweave.images.build import Step, id_of
from envweave.images.context import write_base
from envweave.images.image import Options, make_base, make_image
from envweave.images.target import target_of
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


def ensure_env(id: str, base: str) -> str:
    target = target_of(id)
    tag = f"{target.tag.partition(':')[0]}:{base.partition(':')[2]}"
    if not id_of(tag):
        options = Options(tag=tag, base=base, network="host", arguments=ARGUMENTS, test=False)
        built(lambda: make_image(target, options, quiet))
    return tag


def built(build) -> None:
    try:
        build()
    except ProviderError as error:
        if "package index" in error.hint:
            need("docker", f"no image can be built here: {error.hint}")
        raise


def quiet(step: Step) -> None:
    pass
