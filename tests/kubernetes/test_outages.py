"""The node and the API server go away, and come back."""

import time

import pytest

from envweave.envs.echo import EchoAction, EchoEnv
from envweave.errors import ProviderError
from envweave.providers.base import health
from support.until import PATIENCE, until

pytestmark = pytest.mark.timeout(400)


def found_by(provider):
    """What `check` says, once it finds something wrong."""

    def trouble():
        try:
            provider.check()
        except ProviderError as error:
            return str(error)

    return until(trouble)


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
        assert "is lost: its node 'node1' does not answer any more" in found_by(provider)
        assert health(provider.url)
        with pytest.raises(ProviderError, match=r"is lost: its node 'node1'|finds no node"):
            late.wait_for_ready(PATIENCE)
    until(lambda: works(provider))


def test_an_api_server_that_goes_away_and_comes_back(serving, cluster):
    provider = serving()
    with EchoEnv(provider.url) as env:
        env.reset()
        assert env.step(EchoAction("a")).info["step"] == 1
        with cluster.without("kube-apiserver"):
            with pytest.raises(ProviderError, match="no API server answers"):
                provider.check()
            assert health(provider.url)
        until(lambda: works(provider))
        assert env.step(EchoAction("b")).info["step"] == 2  # the same session, on a new connection
    with EchoEnv(provider.url) as env:
        env.reset()


def test_waiting_outlives_an_api_server_that_is_away_for_a_moment(provide, cluster):
    provider = provide()
    provider.start()
    with cluster.without("kube-apiserver"), pytest.raises(ProviderError, match="no API server answers"):
        provider.wait_for_ready(2)
    provider.wait_for_ready(PATIENCE)
    provider.check()


def test_to_stop_without_an_api_server_takes_no_time(provide, cluster, admin, namespace):
    provider = provide()
    provider.start()
    name = provider.name
    with cluster.without("kube-apiserver"):
        began = time.monotonic()
        provider.stop()
        assert time.monotonic() - began < 15
    from envweave.providers.kubernetes import found

    left = next(each for each in found(namespace) if each.name.endswith(name))
    assert not left.stray  # we are still alive
    left.remove()
    until(lambda: name not in admin.names("pod", namespace))
