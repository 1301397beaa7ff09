"""What goes wrong is named, soon and with the last words of the server."""

import time

import pytest
from kubernetes.stream import stream

from envweave.errors import ProviderError
from envweave.providers import KubernetesProvider
from envweave.providers.base import health
from support.until import PATIENCE, found_by, until

pytestmark = pytest.mark.timeout(400)


def failure(provider, timeout=PATIENCE):
    """What a start that fails says; it does not wait for the end of the timeout, and leaves nothing when it stops."""
    began = time.monotonic()
    try:
        provider.start()
        provider.wait_for_ready(timeout)
    except ProviderError as error:
        assert time.monotonic() - began < timeout
        return str(error)
    finally:
        provider.stop()
    pytest.fail("it starts")


def python(code):
    return ["python3", "-c", code]


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_missing_image(provide, replicas):
    said = failure(provide("nowhere.example/none:1", replicas=replicas))
    assert "has no image 'nowhere.example/none:1' (ErrImageNeverPull)" in said


def test_an_image_that_cannot_be_pulled(provide):
    said = failure(provide("localhost:1/none:1", image_pull_policy="IfNotPresent"))
    assert "has no image 'localhost:1/none:1' (Err" in said or "(ImagePullBackOff)" in said
    assert "hint: is its name right" in said


def test_a_name_that_is_no_image(provide):
    assert "(InvalidImageName)" in failure(provide("Not An Image"))


def test_a_crash_shows_the_last_words(provide):
    said = failure(provide(program=python("print('about to fail', flush=True); raise SystemExit(3)")))
    assert "has ended with exit code 3" in said
    assert "about to fail" in said


def test_a_crash_again_and_again_shows_the_last_words(provide):
    said = failure(provide(replicas=2, program=python("print('about to fail', flush=True); raise SystemExit(3)")))
    assert "keeps ending with exit code 3" in said
    assert "about to fail" in said


def test_too_little_memory(provide):
    said = failure(provide(memory="64m", program=python("x = bytearray(500_000_000); input()")))
    assert "ran out of memory and was killed (exit code 137)" in said
    assert "hint: memory=" in said


def test_a_command_that_is_not_in_the_image(provide):
    assert "nonesuch" in failure(provide(program=["nonesuch"]))


def test_an_image_that_wants_to_be_root(provide):
    said = failure(provide("pause:local"))
    assert "cannot be created (CreateContainerConfigError)" in said
    assert "hint: user=1000" in said


def test_no_node_that_fits(provide):
    said = failure(provide(node_selector={"no": "such"}, unschedulable_after=1))
    assert "finds no node: 0/1 nodes are available" in said
    assert "hint: request less" in said


def test_more_than_any_node_has(provide):
    assert "Insufficient cpu" in failure(provide(requests={"cpu": "64"}, unschedulable_after=1, reach="pod"))


def test_a_server_that_never_answers(provide):
    provider = provide(program=python("print('not serving', flush=True); __import__('time').sleep(999)"))
    provider.start()
    with pytest.raises(ProviderError) as caught:
        provider.wait_for_ready(8)
    said = str(caught.value)
    assert "0 of 1 pods are ready" in said
    assert "event: Readiness probe failed" in said
    assert "not serving" in said


def test_a_quota(provide, admin, fresh):
    admin.core.create_namespaced_resource_quota(fresh, {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}})
    said = failure(provide(namespace=fresh))
    assert f"the quota of namespace '{fresh}' does not allow it" in said
    assert "exceeded quota: none" in failure(provide(namespace=fresh, replicas=2))
    until(lambda: not admin.left(fresh))


def test_a_start_that_fails_halfway_leaves_nothing(provide, admin, fresh):
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"services": "0"}}}
    admin.core.create_namespaced_resource_quota(fresh, quota)
    provider = provide(namespace=fresh)
    with pytest.raises(ProviderError, match="quota"):
        provider.start()
    assert (provider.url, provider.name) == ("", "")
    provider.stop()
    until(lambda: not admin.left(fresh))


def test_a_namespace_that_there_is_not(provide):
    assert "there is no namespace 'nowhere'" in failure(provide(namespace="nowhere"))


def test_an_option_that_the_cluster_refuses(provide):
    said = failure(provide(limits={"memory": "many"}))
    assert "the cluster" in said
    said = failure(provide(labels={"team": "not a label!"}))
    assert "the cluster refuses an option: metadata.labels: Invalid value" in said
    assert "requests: Invalid value" in failure(provide(memory="64m", requests={"memory": "1Gi"}))


def test_a_name_that_is_taken(provide, serving, monkeypatch):
    first = serving()
    monkeypatch.setattr("secrets.token_hex", lambda _: first.name.rpartition("-")[2])
    assert "the name is taken" in failure(provide())
    first.check()  # and whoever has it keeps it
    assert health(first.url) == ""


def test_an_api_server_that_is_not_there(provide, cluster, echo_image):
    nobody = cluster.write_kubeconfig("nobody", "x", server="https://127.0.0.1:1")
    said = failure(provide(kubeconfig=nobody))
    assert "no API server answers at https://127.0.0.1:1" in said
    assert "Connection refused" in said


def test_no_cluster_at_all(monkeypatch, tmp_path):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    said = failure(KubernetesProvider("x"))
    assert "no cluster is known: no service account of a pod" in said
    assert "no kubeconfig ~/.kube/config that can be used" in said
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    assert f"no kubeconfig {tmp_path}/missing" in failure(KubernetesProvider("x"))


def test_a_context_that_there_is_not(provide):
    assert "other" in failure(provide(context="other"))


def test_a_server_that_ends_while_it_is_used(serving, admin):
    provider = serving()
    provider.check()
    call = admin.core.connect_get_namespaced_pod_exec
    where = provider.name, provider.namespace
    done = stream(call, *where, command=["sh", "-c", "kill 1"], stdout=True, _preload_content=False)
    done.run_forever(PATIENCE)
    done.sock.shutdown()  # close() would leave it open after the other side has closed
    said = found_by(provider)
    assert "has ended with exit code" in said
    assert "serving echo" in said


def test_a_pod_that_somebody_removes(serving, admin):
    provider = serving()
    admin.kill(provider.name, provider.namespace)
    assert "someone else removed it" in found_by(provider)
    provider.stop()


def test_a_deployment_that_somebody_removes(serving, admin):
    provider = serving(replicas=2)
    admin.apps.delete_namespaced_deployment(provider.name, provider.namespace)
    assert "someone else removed it" in found_by(provider)


def test_a_lifetime_ends(provide):
    provider = provide(lifetime=2)
    provider.start()
    assert "has reached its lifetime" in found_by(provider)
