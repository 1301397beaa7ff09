"""Servers in pods, reached from outside through the API server."""

import contextlib
import http.client
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from envweave.envs.echo import EchoAction, EchoEnv
from envweave.errors import EnvWeaveError, UsageError
from envweave.providers import running
from envweave.providers.base import health
from support.sockets import count_sockets
from support.until import PATIENCE, until

pytestmark = pytest.mark.timeout(400)


def ours():
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("envweave-"))


def test_an_episode_is_played_in_a_pod(provide):
    with running(provide(), timeout=PATIENCE) as url, EchoEnv(url) as env:
        assert url.startswith("http://127.0.0.1:")
        env.reset()
        result = env.step(EchoAction("hello"))
        assert result.observation.echoed_message == "hello"
        assert result.reward == 0.5


def test_a_provider_starts_again_after_its_end_and_not_before(serving):
    provider = serving()
    first = provider.name
    with pytest.raises(UsageError, match="has started already"):
        provider.start()
    provider.stop()
    assert (provider.url, provider.urls, provider.name, provider.logs()) == ("", (), "", "")
    provider.start()
    provider.wait_for_ready(PATIENCE)
    assert provider.name != first
    assert health(provider.url) == ""
    assert "serving echo" in provider.logs(5)
    provider.check()


def test_large_messages_pass_both_ways(serving):
    message = os.urandom(5_000_000).hex()
    with EchoEnv(serving().url) as env:
        env.reset()
        assert env.step(EchoAction(message)).observation.echoed_message == message


def test_many_sessions_at_once_share_the_port(serving):
    url = serving().url

    def play(number):
        with EchoEnv(url) as env:
            env.reset()
            said = [env.step(EchoAction(f"{number}.{step}")).observation.echoed_message for step in range(5)]
            return said == [f"{number}.{step}" for step in range(5)]

    with ThreadPoolExecutor(40) as pool:
        assert all(pool.map(play, range(40)))


def test_a_client_that_has_said_all_still_hears_the_answer(serving):
    address = urlsplit(serving().url)
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE) as sock:
        sock.sendall(b"GET /health HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n")
        sock.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")


def test_connections_end_with_their_pod(serving, admin):
    provider = serving()
    address = urlsplit(provider.url)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE)
    connection.request("GET", "/health")
    assert connection.getresponse().read()
    admin.kill(provider.name, provider.namespace)
    try:
        assert connection.sock.recv(1) == b""
    except ConnectionResetError:
        pass
    finally:
        connection.close()
    until(lambda: health(provider.url))


def test_threads_and_sockets_end_with_stop(provide, admin):
    before, threads = count_sockets(), ours()
    provider = provide()
    provider.start()
    provider.wait_for_ready(PATIENCE)
    address = urlsplit(provider.url)
    idle = [socket.create_connection((address.hostname, address.port)) for _ in range(10)]
    assert health(provider.url) == ""
    assert len(ours()) > len(threads)
    provider.stop()
    assert [sock.recv(1) for sock in idle] == [b""] * 10
    for sock in idle:
        sock.close()
    until(lambda: ours() == threads)
    until(lambda: count_sockets() == before)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname, address.port))


def test_a_dropped_provider_takes_its_pod_along(provide, admin, namespace, echo_image):
    from envweave.providers import KubernetesProvider

    provider = KubernetesProvider(echo_image, namespace=namespace, image_pull_policy="Never", stop_timeout=0)
    provider.start()
    name = provider.name
    del provider
    until(lambda: name not in admin.names("pod", namespace))
    until(lambda: "envweave-lease" not in ours())


WHO = """
import os
from envweave.envs.echo import EchoAction, EchoEnvironment, EchoObservation

class Who(EchoEnvironment):
    def step(self, action: EchoAction) -> EchoObservation:
        return super().step(EchoAction(os.uname().nodename))
"""
SERVE_WHO = f"echo '{WHO}' > /tmp/who.py && cd /tmp && PYTHONPATH=/tmp exec envweave serve pkg://who:Who --host 0.0.0.0"
SAYS_WHO = ["sh", "-c", SERVE_WHO]


def server_at(url):
    """The name of the pod that answers to a client that is new there."""
    with EchoEnv(url) as env:
        env.reset()
        return env.step(EchoAction("who are you?")).observation.echoed_message


def cut_connections(cluster):
    """Ends the processes that carry bytes on the node, as a network does that fails for a moment; how many it were."""
    cut = 0
    for pid in cluster.children("kubelet"):
        with contextlib.suppress(OSError):  # some end by themselves
            if b"TCP4:localhost:8000" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                cut += 1
    return cut


def test_each_url_of_several_replicas_is_one_pod(serving):
    provider = serving(replicas=3, program=SAYS_WHO)
    assert len(set(provider.urls)) == 3
    assert provider.url == provider.urls[0]
    seen = [{server_at(url) for _ in range(4)} for url in provider.urls]  # each is a connection of its own
    assert [len(servers) for servers in seen] == [1, 1, 1]
    assert {name.rpartition("-")[0].rpartition("-")[0] for servers in seen for name in servers} == {provider.name}
    assert len(set.union(*seen)) == 3


def test_sessions_go_on_in_their_pods_after_lost_connections(serving, cluster):
    urls = serving(replicas=2).urls
    with EchoEnv(urls[0]) as first, EchoEnv(urls[1]) as second:
        for env in (first, second):
            env.reset()
        for step in range(1, 4):
            for env in (first, second):
                assert env.step(EchoAction("a")).info["step"] == step
            assert cut_connections(cluster) >= 2


def test_a_pod_that_ends_is_replaced_and_its_url_leads_to_the_next(serving, admin):
    provider = serving(replicas=2, program=SAYS_WHO)
    urls = provider.urls
    before = [server_at(url) for url in urls]
    envs = [EchoEnv(url) for url in urls]
    for env in envs:
        env.reset()
        env.step(EchoAction("a"))
    admin.kill(before[0], provider.namespace)
    provider.check()  # the other one is still there

    until(lambda: health(urls[0]) == "")
    assert provider.urls == urls
    assert server_at(urls[0]) not in before
    assert server_at(urls[1]) == before[1]
    assert envs[1].step(EchoAction("b")).info["step"] == 2
    with pytest.raises(EnvWeaveError):
        envs[0].step(EchoAction("b"))
    for env in envs:
        env.close()


def test_pods_are_reached_by_their_address_too(serving):
    provider = serving(reach="pod", replicas=2)
    assert len(provider.urls) == 2
    assert all("10.214." in url for url in provider.urls)
    with EchoEnv(provider.urls[1]) as env:
        env.reset()
        assert env.step(EchoAction("hello")).reward == 0.5
