"""What a user of envweave has of a cluster: IDs, backends, vectors, and the commands that look after them."""

import json
import os
import subprocess
import sys

import pytest

import envweave as ew
from envweave.envs.echo import EchoAction, EchoEnv
from envweave.errors import SessionLostError
from envweave.providers import KubernetesProvider
from support.until import until

OPTIONS = {"image_pull_policy": "Never", "stop_timeout": 0}
MAIN = "from envweave.cli import main; main()"
OWNER = """
import os, signal, sys
import envweave as ew
image, namespace = sys.argv[1:]
options = {"namespace": namespace, "image_pull_policy": "Never", "stop_timeout": 0}
env = ew.make(f"k8s://{image}", provider_options=options)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def options(cluster, namespace):
    return {"namespace": namespace, **OPTIONS}


def pods(admin, namespace):
    return {name for name in admin.names("pod", namespace) if name.startswith(f"envweave-{os.getpid()}-")}


def envweave(*words):
    done = subprocess.run([sys.executable, "-c", MAIN, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_environment_by_the_id_of_its_image(echo_image, options):
    with ew.make(f"k8s://{echo_image}", provider_options=options) as env:
        env.reset()
        assert env.step({"message": "hello"}).reward == 0.5


def test_a_name_with_its_image_and_a_typed_client(echo_image, options):
    with ew.make("echo", backend="kubernetes", docker_image=echo_image, provider_options=options) as env:
        env.reset()
    with EchoEnv(KubernetesProvider(echo_image, **options)) as env:
        env.reset()
        assert env.step(EchoAction("hello")).observation.echoed_message == "hello"


def test_a_pod_that_is_lost_says_so_and_the_next_reset_has_another(echo_image, options, admin, namespace):
    with ew.make(f"k8s://{echo_image}", provider_options=options) as env:
        env.reset()
        (first,) = pods(admin, namespace)
        admin.kill(first, namespace)
        with pytest.raises(SessionLostError) as caught:
            until(lambda: env.step({"message": "a"}).reward is None)  # kubelet takes a moment to end it
        assert [request.reason for request in caught.value.requests] == ["infra_error"]
        env.reset()
        assert env.step({"message": "a"}).info["step"] == 1
        assert first not in pods(admin, namespace)


def test_a_vector_is_spread_over_replicas_and_a_lost_pod_costs_its_rows(echo_image, options, admin, namespace):
    chosen = {**options, "replicas": 2}
    with ew.make_vector(f"k8s://{echo_image}", 6, provider_options=chosen) as vector:
        vector.reset()
        assert vector.step([{"message": "a"}] * 6).reward == [0.1] * 6
        admin.kill(sorted(pods(admin, namespace))[0], namespace)
        lost = until(lambda: sorted(vector.step([{"message": "a"}] * 6).failures))  # kubelet takes a moment to end it
        assert lost in ([0, 1, 2], [3, 4, 5])
        vector.reset(ids=lost)
        assert vector.step([{"message": "a"}] * 6).reward == [0.1] * 6


def test_pods_for_containers(echo_image, options, admin, namespace):
    with ew.make_vector(f"k8s://{echo_image}", 4, containers=2, provider_options=options) as vector:
        vector.reset()
        assert vector.step([{"message": "a"}] * 4).reward == [0.1] * 4
        assert len(pods(admin, namespace)) == 2


def test_what_a_killed_owner_leaves_is_listed_and_collected(echo_image, fresh, cluster):
    subprocess.run([sys.executable, "-c", OWNER, echo_image, fresh], check=False, timeout=120)
    (stray,) = json.loads(envweave("ps", "--namespace", fresh, "--strays", "--json"))
    assert (stray["where"], stray["what"], stray["stray"]) == ("kubernetes", echo_image, True)
    assert stray["name"] in envweave("gc", "--namespace", fresh)
    left = json.loads(envweave("ps", "--namespace", fresh, "--json"))
    assert not [each for each in left if each["where"] == "kubernetes" and each["state"] == "running"]
