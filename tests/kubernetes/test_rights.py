"""The rights in docs/kubernetes/rbac.yaml are enough for all that a provider does, and for nothing else."""

import pytest

from envweave.envs.echo import EchoAction, EchoEnv
from envweave.errors import ProviderError
from envweave.providers.kubernetes import found
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
    (listed,) = found(kubeconfig=account)
    assert not listed.stray
    provider.stop(wait=PATIENCE)
    bad = provide(kubeconfig=account, namespace="", replicas=replicas, command=["sleep", "999"])
    bad.start()
    with pytest.raises(ProviderError, match="event: Readiness probe failed"):
        bad.wait_for_ready(6)
    found(kubeconfig=account)[0].remove()


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
        found("all", kubeconfig=account)


def test_without_any_rights_the_first_one_that_is_missing_is_named(provide, admin, fresh, cluster):
    nobody = cluster.write_kubeconfig(f"nobody-{fresh}", admin.token("default", fresh), namespace=fresh)
    with pytest.raises(ProviderError, match=f"system:serviceaccount:{fresh}:default may not create pods"):
        provide(kubeconfig=nobody, namespace="").start()


def test_a_wrong_token(provide, cluster):
    wrong = cluster.write_kubeconfig("wrong", "not-a-token")
    with pytest.raises(ProviderError, match="does not know us \\(401 Unauthorized\\)"):
        provide(kubeconfig=wrong).start()
    with pytest.raises(ProviderError, match="401"):
        found(kubeconfig=wrong)
