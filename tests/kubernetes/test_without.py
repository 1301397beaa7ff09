"""The node and the API server go away, and come back."""

import time

import pytest

from envweave.envs.echo import EchoAction, EchoEnv
from envweave.errors import ProviderError
from envweave.providers.base import health
from envweave.providers.kubernetes import list_workloads
from support.until import PATIENCE, found_by, until

pytestmark = pytest.mark.timeout(400)


def works(provider):
    try:
        provider.check()
    except ProviderError:
        return False
    return health(provider.url) == ""


def test_a_node_that_is_lost_and_comes_back(serving, provide, cluster):
    provider = serving()
    late = provide()
    with cluster.without("kubelet"):
        late.start()
        assert "is lost: its node 'node1' no longer answers" in found_by(provider)
        assert health(provider.url)
        with pytest.raises(ProviderError, match=r"is lost: its node 'node1'|finds no node"):
            late.wait_for_ready(PATIENCE)
    until(lambda: works(provider))


def test_all_goes_on_when_an_api_server_comes_back(serving, provide, cluster, admin, namespace):
    served, awaited, stopped = serving(), provide(), provide()
    awaited.start()
    stopped.start()
    name = stopped.name
    with EchoEnv(served.url) as env, EchoEnv(served, connect_timeout_s=PATIENCE) as own:
        for each in (env, own):
            each.reset()
            assert each.step(EchoAction("a")).info["step"] == 1
        with cluster.without("kube-apiserver"):
            with pytest.raises(ProviderError, match="no API server answers"):
                served.check()
            assert health(served.url)
            with pytest.raises(ProviderError, match=r"within 1 s: no API server answers"):
                awaited.wait_for_ready(1)  # it does not give up before
            began = time.monotonic()
            stopped.stop()
            assert time.monotonic() - began < 10
        until(lambda: works(served))
        for each in (own, env):
            assert each.step(EchoAction("b")).info["step"] == 2  # the same session, on a new connection
    awaited.wait_for_ready(PATIENCE)
    left = next(each for each in list_workloads(namespace) if each.name.endswith(name))
    assert not left.stray  # we are still alive
    provide().start()  # which makes up for it
    until(lambda: name not in admin.names("pod", namespace))


def test_an_api_server_that_answers_nobody_is_not_waited_for_for_ever(serving, cluster):
    provider = serving()
    with cluster.frozen("kube-apiserver"):
        began = time.monotonic()
        with pytest.raises(ProviderError, match="no API server answers"):
            provider.check()
        assert health(provider.url)
        assert time.monotonic() - began < 40
    until(lambda: works(provider))
