"""The image for a session in a container: any with a Python will do, and none is downloaded."""

from __future__ import annotations

from contextlib import closing

from envweave.errors import UnavailableError

LABEL = "envweave.test-base"
"""Of the image that the tests make."""


def image_for(wanted: str | None) -> str:
    """The tag of an image that is there. Raises `UnavailableError` if there is none, or no daemon."""
    import docker  # an extra, and slow to import

    try:
        with closing(docker.from_env()) as client:
            if wanted is not None:
                client.images.get(wanted)
                return wanted
            for image in client.images.list(filters={"label": LABEL}):
                if image.tags:
                    return str(image.tags[0])
    except docker.errors.ImageNotFound:
        raise UnavailableError(f"there is no image {wanted!r} here") from None
    except docker.errors.DockerException as error:
        raise UnavailableError(f"no Docker daemon answers: {error}") from None
    raise UnavailableError(f"no image here has the label {LABEL}", "name one with Python in it by --image")
