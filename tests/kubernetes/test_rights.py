"""The rights in docs/kubernetes/rbac.yaml are enough for all that a provider does, and for nothing else."""

import json
import warnings
from pathlib import Path

import pytest

from envweave.envs.echo import EchoAction, EchoEnv
from envweave.errors import ProviderError
from envweave.providers import running
from envweave.providers.kubernetes import list_workloads
from support.cluster import SERVER
from support.until import PATIENCE

pytestmark = pytest.mark.timeout(400)


@pytest.fixture
def account(admin, fresh, cluster):
    """A kubeconfig of the documented account, in a namespace of its own."""
    admin.apply_rights(fresh)
    return cluster.write_kubeconfig(f"account-{fresh}", admin.token("envweave", fresh), namespace=fresh)


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_documented_rights_are_enough(provide, account, fresh, replicas):
    provider = provide(kubeconfig=account, namespace="", replicas=replicas, lease=2)
    provider.start()
    provider.wait_for_ready(PATIENCE)
    assert provider.namespace == fresh
    for url in provider.urls:
        with EchoEnv(url) as env:
            env.reset()
            assert env.step(EchoAction("hello")).reward == 0.5
    provider.check()
    provider._replicas._renew()
    assert "serving echo" in provider.logs()
    (listed,) = list_workloads(kubeconfig=account)
    assert not listed.stray
    provider.stop(wait=PATIENCE)
    bad = provide(kubeconfig=account, namespace="", replicas=replicas, program=["sleep", "999"])
    bad.start()
    with pytest.raises(ProviderError, match="event: Readiness probe failed"):
        bad.wait_for_ready(6)
    list_workloads(kubeconfig=account)[0].remove()


def test_they_hold_nowhere_else(provide, account, fresh, namespace):
    with pytest.raises(ProviderError) as caught:
        provide(kubeconfig=account, namespace=namespace).start()
    said = str(caught.value)
    assert f"system:serviceaccount:{fresh}:envweave may not create pods" in said
    assert f'in the namespace "{namespace}"' in said
    assert "rbac.yaml" in said
    with pytest.raises(ProviderError, match="may not create deployments"):
        provide(kubeconfig=account, namespace=namespace, replicas=2).start()
    with pytest.raises(ProviderError, match="may not list deployments"):
        list_workloads("all", kubeconfig=account)


def test_without_any_rights_the_first_one_that_is_missing_is_named(provide, admin, fresh, cluster):
    nobody = cluster.write_kubeconfig(f"nobody-{fresh}", admin.token("default", fresh), namespace=fresh)
    with pytest.raises(ProviderError, match=f"system:serviceaccount:{fresh}:default may not create pods"):
        provide(kubeconfig=nobody, namespace="").start()


@pytest.mark.parametrize("verified", [True, False])
def test_a_certificate_is_as_good_as_a_token(provide, cluster, verified):
    certificate, key = cluster.write_certificate("certified", "/O=system:masters/CN=certified")
    path = Path(cluster.write_kubeconfig("certified", ""))
    written = json.loads(path.read_text())
    written["users"][0]["user"] = {"client-certificate": certificate, "client-key": key}
    if not verified:
        written["clusters"][0]["cluster"] = {"server": SERVER, "insecure-skip-tls-verify": True}
    path.write_text(json.dumps(written))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if not verified else "error")  # urllib3 has an opinion on it
        with running(provide(kubeconfig=str(path)), timeout=PATIENCE) as url, EchoEnv(url) as env:
            env.reset()
            assert env.step(EchoAction("hello")).reward == 0.5


def test_a_server_that_another_authority_vouches_for_is_refused(provide, cluster):
    path = Path(cluster.write_kubeconfig("wary", "admin-token"))
    written = json.loads(path.read_text())
    del written["clusters"][0]["cluster"]["certificate-authority-data"]
    path.write_text(json.dumps(written))
    with pytest.raises(ProviderError, match=r"no API server answers .*CERTIFICATE_VERIFY_FAILED"):
        provide(kubeconfig=str(path)).start()


def test_a_wrong_token(provide, cluster):
    wrong = cluster.write_kubeconfig("wrong", "not-a-token")
    with pytest.raises(ProviderError, match="does not accept the credentials \\(401 Unauthorized\\)"):
        provide(kubeconfig=wrong).start()
    with pytest.raises(ProviderError, match="401"):
        list_workloads(kubeconfig=wrong)
