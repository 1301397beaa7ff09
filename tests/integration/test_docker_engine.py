"""The daemon and the image that the tests of Docker stand on."""

from contextlib import closing

import docker
import pytest


@pytest.fixture(scope="module")
def client(docker_engine):
    with closing(docker.from_env(version="auto", timeout=60)) as client:
        yield client


def run_bare(client, image, *command):
    """What `command` prints with nothing that a container can do without."""
    output = client.containers.run(
        image,
        list(command),
        remove=True,
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        user="1000:1000",
    )
    return output.decode()


def test_the_image_runs_python_with_no_network_no_rights_and_nothing_to_write(client, python_image):
    assert run_bare(client, python_image, "python3", "-c", "print(1)") == "1\n"
