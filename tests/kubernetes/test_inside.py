"""The provider in a pod of the cluster, with the pod's own account and the documented rights."""

import pytest
from kubernetes import client

from support.until import PATIENCE, until

pytestmark = pytest.mark.timeout(400)

BEGIN = """
import json, sys
from envweave.envs.echo import EchoAction, EchoEnv
from envweave.providers.kubernetes import KubernetesProvider, list_workloads
from kubernetes import client, config

def play(url):
    with EchoEnv(url) as env:
        env.reset()
        assert env.step(EchoAction("hello")).reward == 0.5

def provider(**options):
    return KubernetesProvider(sys.argv[1], image_pull_policy="Never", stop_timeout=0, **options)
"""

BY_ADDRESS = """
one = provider(reach="pod", replicas=2)
one.start()
one.wait_for_ready(90)
assert one.url == one.urls[0] and len(set(one.urls)) == 2, one.urls
for url in one.urls:
    play(url)
assert [each.stray for each in list_workloads()] == [False]
one.check()
one.stop(wait=90)
assert list_workloads() == []
"""

# No DNS runs in the cluster of the tests: the name of the service is written where DNS would have had it.
BY_SERVICE = """
def name_it(one):
    config.load_incluster_config()
    service = client.CoreV1Api().read_namespaced_service(one.name, one.namespace)
    with open("/etc/hosts", "a") as hosts:
        hosts.write(f"{service.spec.cluster_ip} {one.name}.{one.namespace}.svc\\n")

for replicas in (1, 2):
    one = provider(replicas=replicas)
    assert one.start() == f"http://{one.name}.{one.namespace}.svc:8000"
    name_it(one)
    one.wait_for_ready(90)
    play(one.url)
    assert len(one.urls) == replicas, one.urls
    for url in one.urls:
        play(url)
    one.stop()
"""

LEFT = """
import os
one = provider(reach="pod")
one.start()
one.wait_for_ready(90)
print(one.name, flush=True)
os._exit(0)  # nothing is cleaned up here
"""


def ended(pod):
    phase = pod["status"]["phase"]
    return phase if phase in ("Succeeded", "Failed") else ""


@pytest.fixture
def run(admin, fresh, echo_image):
    """Runs a script in a pod that has the documented rights, and returns the name of the pod and what it wrote."""
    admin.apply_rights(fresh)
    rights = client.RbacAuthorizationV1Api(admin.api)
    about = {"name": "sees-services"}
    rules = [{"apiGroups": [""], "resources": ["services"], "verbs": ["get"]}]  # for the script, not for the provider
    rights.create_namespaced_role(fresh, {"metadata": about, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", **about}
    subject = {"kind": "ServiceAccount", "name": "envweave", "namespace": fresh}
    rights.create_namespaced_role_binding(fresh, {"metadata": about, "roleRef": reference, "subjects": [subject]})

    def run(script):
        container = {
            "name": "owner",
            "image": echo_image,
            "imagePullPolicy": "Never",
            "command": ["python3", "-c", BEGIN + script, echo_image],
            "securityContext": {"runAsUser": 0},  # who may write /etc/hosts
        }
        spec = {"serviceAccountName": "envweave", "restartPolicy": "Never", "containers": [container]}
        admin.core.create_namespaced_pod(fresh, {"metadata": {"name": "owner"}, "spec": spec})
        phase = until(lambda: ended(admin.pod("owner", fresh)), 2 * PATIENCE)
        wrote = admin.core.read_namespaced_pod_log("owner", fresh, _preload_content=False).read().decode()
        assert phase == "Succeeded", wrote
        return wrote.strip()

    return run


def test_pods_are_reached_by_their_addresses(run):
    run(BY_ADDRESS)


def test_pods_are_reached_by_the_name_of_their_service(run):
    run(BY_SERVICE)


def test_what_a_pod_has_started_goes_with_it(run, admin, fresh):
    name = run(LEFT).splitlines()[-1]
    (owner,) = admin.pod(name, fresh)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Pod", "owner")
    admin.kill("owner", fresh)
    until(lambda: not admin.left(fresh))
