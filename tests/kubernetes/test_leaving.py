"""What is started is removed: by its provider, by its owner's end, or by whoever looks for strays later."""

import os
import signal
import subprocess
import sys
import threading
import traceback

import pytest

from envweave.errors import ProviderError
from envweave.providers.base import health
from envweave.providers.kubernetes import list_workloads
from envweave.providers.kubernetes.manifests import EXPIRES
from support.sockets import count_sockets
from support.until import PATIENCE, until

pytestmark = pytest.mark.timeout(400)


def entry(name, namespace):
    return next((each for each in list_workloads(namespace) if each.name == f"{namespace}/{name}"), None)


def test_ten_starts_leave_nothing(provide, admin, fresh):
    provider = provide(namespace=fresh)
    threads, sockets = {thread.name for thread in threading.enumerate()}, count_sockets()
    for _ in range(10):
        provider.start()
        provider.wait_for_ready(PATIENCE)
        provider.stop()
    provider.start(replicas=2)
    provider.stop()
    assert {thread.name for thread in threading.enumerate()} <= threads
    assert count_sockets() <= sockets
    until(lambda: not admin.left(fresh))


def test_stop_is_harmless_before_a_start_and_twice(provide, admin, namespace):
    provider = provide()
    provider.stop()
    provider.start()
    name = provider.name
    provider.stop()
    provider.stop()
    until(lambda: name not in admin.names("pod", namespace) | admin.names("service", namespace))


def test_stop_can_wait_until_all_is_gone(serving, admin, namespace):
    provider = serving(replicas=2)
    name = provider.name
    provider.stop(wait=PATIENCE)
    assert not [pod for pod in admin.names("pod", namespace) if pod.startswith(name)]


def test_what_runs_is_found_with_all_that_is_known_of_it(serving, namespace, echo_image):
    one, several = serving(), serving(replicas=2)
    bare, deployed = entry(one.name, namespace), entry(several.name, namespace)
    assert bare.where == "kubernetes"
    assert bare.what == echo_image
    assert bare.state == "running"
    assert bare.url == f"http://{one.name}.{namespace}.svc:8000"
    assert not bare.stray
    assert deployed.state == "2 of 2 ready"
    assert not [each for each in list_workloads(namespace) if each.name.startswith(f"{deployed.name}-")]  # none twice
    assert {bare.name, deployed.name} <= {each.name for each in list_workloads("all")}
    assert bare.name not in {each.name for each in list_workloads()}  # the kubeconfig says `default`


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_service_goes_with_what_it_is_for(provide, admin, namespace, replicas):
    provider = provide(replicas=replicas)
    provider.start()
    name = provider.name
    assert name in admin.names("service", namespace)
    if replicas == 1:
        admin.kill(name, namespace)
    else:
        admin.apps.delete_namespaced_deployment(name, namespace)
    until(lambda: name not in admin.names("service", namespace))


OWNER = """
import sys, time
from envweave.providers.kubernetes import KubernetesProvider
image, namespace, replicas = sys.argv[1:]
options = {"image_pull_policy": "Never", "stop_timeout": 0, "replicas": int(replicas)}
provider = KubernetesProvider(image, namespace=namespace, **options)
provider.start()
provider.wait_for_ready(90)
print(provider.name, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_a_killed_owner_leaves_is_a_stray_and_can_be_removed(admin, fresh, echo_image, replicas, cluster):
    command = [sys.executable, "-c", OWNER, echo_image, fresh, str(replicas)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        name = owner.stdout.readline().strip()
        assert name
        assert not entry(name, fresh).stray
        owner.send_signal(signal.SIGKILL)
    stray = entry(name, fresh)
    assert stray.stray
    stray.remove()
    until(lambda: not admin.left(fresh))
    stray.remove()  # harmless


def test_an_owner_that_exits_takes_its_pods_along(admin, fresh, echo_image, cluster):
    command = [sys.executable, "-c", OWNER.replace("time.sleep(600)", ""), echo_image, fresh, "1"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    until(lambda: not admin.left(fresh))


def test_a_lease_is_renewed_while_its_owner_lives(serving, admin):
    provider = serving(lease=4)

    def expires():
        return admin.pod(provider.name, provider.namespace)["metadata"]["annotations"][EXPIRES]

    first = expires()
    second = until(lambda: (later := expires()) != first and later)
    until(lambda: expires() not in (first, second))


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_owner_elsewhere_is_gone_when_its_lease_is(provide, admin, namespace, replicas):
    provider = provide(replicas=replicas)
    provider.start()  # its lease is five minutes, so nobody renews it during this test
    patch = admin.core.patch_namespaced_pod if replicas == 1 else admin.apps.patch_namespaced_deployment
    patch(provider.name, namespace, {"metadata": {"labels": {"envweave.world": "another"}}})
    assert entry(provider.name, namespace).owner == "elsewhere"
    assert not entry(provider.name, namespace).stray
    past = {"metadata": {"annotations": {EXPIRES: "2026-01-01T00:00:00+00:00"}}}
    patch(provider.name, namespace, past)
    assert entry(provider.name, namespace).stray


def test_secrets_are_in_no_refusal(provide):
    provider = provide(env_vars={"TOKEN": "hunter2"}, port=1, limits={"memory": "many"})
    with pytest.raises(ProviderError, match="quantities must match") as caught:
        provider.start()
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_secrets_are_in_no_message(provide, namespace):
    provider = provide(env_vars={"TOKEN": "hunter2"}, program=["python3", "-c", "raise SystemExit(3)"])
    provider.start()
    with pytest.raises(Exception, match="exit code 3") as caught:
        provider.wait_for_ready(PATIENCE)
    shown = repr(caught.value) + repr(provider.options) + repr(list_workloads(namespace)) + str(vars(provider))
    assert "hunter2" not in shown


def test_a_forked_copy_ends_nothing(provide, serving):
    provider = serving()
    child = os.fork()
    if child == 0:  # it has copies of everything, and stops what it has
        try:
            provider.stop()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    provider.check()
    assert health(provider.url) == ""
