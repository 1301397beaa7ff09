"""A port of a pod on this machine, with a WebSocket server that speaks as the API server does, with and without TLS."""

import asyncio
import json
import logging
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from support.need import need
from support.until import until

pytest.importorskip("kubernetes")

from envweave.providers.kubernetes.cluster import ClusterClient, ClusterError
from envweave.providers.kubernetes.port_forward import PortForward

CHANNELS = "v4.channel.k8s.io"
TOKEN = "s3cret-s3cret"


def read_exactly(sock, size):
    held = b""
    while len(held) < size:
        if not (more := sock.recv(size - len(held))):
            raise EOFError
        held += more
    return held


def greet(pod):
    """The first message of each channel names the port."""
    pod.send(b"\x00\x40\x1f")
    pod.send(b"\x01\x40\x1f")


def echoing(pod):
    """A pod that gives everything back."""
    greet(pod)
    for message in pod:
        assert message[:1] == b"\x00"
        for start in range(1, len(message), 30_000):
            pod.send(b"\x00" + message[start : start + 30_000])


class Cluster:
    """An API server that knows one pod, and a kubeconfig for it."""

    def __init__(self, folder, pod, *, certificates=None, refuse=None, **user):
        self.requests = []
        tls = None
        if certificates is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificates / "server.crt", certificates / "server.key")
            tls.load_verify_locations(certificates / "ca.crt")
            tls.verify_mode = ssl.CERT_REQUIRED

        def answer(connection, request):
            self.requests.append(request)
            if refuse is not None:
                status, body = refuse
                return connection.respond(HTTPStatus(status), json.dumps(body))
            return None

        def serving(connection):
            with suppress(ConnectionClosed):
                pod(connection)

        self._server = serve(
            serving, "127.0.0.1", 0, ssl=tls, subprotocols=[CHANNELS], process_request=answer, compression=None
        )
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.port = self._server.socket.getsockname()[1]
        scheme = "http" if tls is None else "https"
        cluster = {"server": f"{scheme}://127.0.0.1:{self.port}"}
        if certificates is not None:
            cluster["certificate-authority"] = str(certificates / "ca.crt")
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "me", "user": user}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "current-context": "here",
        }
        path = folder / f"kubeconfig-{self.port}"
        path.write_text(json.dumps(config))
        self.client = ClusterClient(str(path))
        self.open_port = partial(self.client.open_port, "pod-1", "default", 8000)

    def close(self):
        self.client.close()
        self._server.shutdown()
        self._thread.join(10)


@pytest.fixture
def cluster(tmp_path):
    made = []

    def make(pod, **options):
        made.append(Cluster(tmp_path, pod, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def forward(cluster):
    """Makes forwards to a pod that behaves as told."""
    made = []

    def make(pod, **options):
        made.append(PortForward(cluster(pod, **options).open_port))
        return made[-1]

    yield make
    for each in made:
        each.close()
        assert not each._tasks
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", each.port), timeout=5)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A folder with the keys and certificates of an authority, a server and a client."""
    if shutil.which("openssl") is None:
        need("openssl", "there is no openssl")
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(*new, "-x509", "-days", "2", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca")
    (folder / "server.ext").write_text("subjectAltName=IP:127.0.0.1")
    (folder / "client.ext").write_text("extendedKeyUsage=clientAuth")
    for name in ("server", "client"):
        openssl(*new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signing = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext")
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *signing)
    return Path(folder)


def connected(forward):
    return socket.create_connection(("127.0.0.1", forward.port), timeout=30)


def test_what_is_sent_comes_back(forward):
    with connected(forward(echoing)) as sock:
        for message in (b"a", os.urandom(70_000)):
            sock.sendall(message)
            assert read_exactly(sock, len(message)) == message


def test_many_connections_do_not_mix(forward):
    there = forward(echoing)

    def talk(number):
        with connected(there) as sock:
            message = bytes((number,)) * 20_000
            sock.sendall(message)
            return read_exactly(sock, len(message)) == message

    with ThreadPoolExecutor(30) as pool:
        assert all(pool.map(talk, range(30)))


def test_a_request_names_the_pod_and_the_port_and_carries_the_token_which_is_not_logged(cluster, caplog):
    caplog.set_level(logging.DEBUG)
    there = cluster(echoing, token=TOKEN)

    async def talk():
        async with await there.open_port() as pod:
            return pod.subprotocol

    assert asyncio.run(talk()) == CHANNELS
    (request,) = there.requests
    assert request.path == "/api/v1/namespaces/default/pods/pod-1/portforward?ports=8000"
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert "Origin" not in request.headers
    ours = [record for record in caplog.records if record.name != "websockets.server"]  # that is the API server
    assert TOKEN not in "".join(record.getMessage() for record in ours)


def test_tls_with_a_client_certificate_carries_megabytes(forward, certificates):
    identity = {"client-certificate": f"{certificates}/client.crt", "client-key": f"{certificates}/client.key"}
    with connected(forward(echoing, certificates=certificates, **identity)) as sock:
        message = os.urandom(5_000_000)
        sender = threading.Thread(target=sock.sendall, args=(message,))
        sender.start()
        assert read_exactly(sock, len(message)) == message
        sender.join()


def test_a_certificate_of_another_authority_is_refused(cluster, certificates):
    there = cluster(echoing, certificates=certificates)
    there.client.configuration.ssl_ca_cert = None  # those of the system
    with pytest.raises(ClusterError, match="certificate verify failed") as caught:
        asyncio.run(there.open_port())
    assert caught.value.temporary


def test_a_refusal_of_the_api_server_is_an_error_with_its_reason(cluster):
    told = {"kind": "Status", "message": 'pods "pod-1" is forbidden: User "me" cannot create resource "pods"'}
    there = cluster(echoing, refuse=(403, told))
    with pytest.raises(ClusterError, match="me may not create pods") as caught:
        asyncio.run(there.open_port())
    assert caught.value.status == 403
    assert not caught.value.temporary


def test_an_api_server_that_is_away_is_said_to_be(cluster):
    there = cluster(echoing)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        there.client.configuration.host = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ClusterError, match="no API server answers") as caught:
            asyncio.run(there.open_port())
    assert caught.value.temporary


def test_a_message_in_pieces_with_a_ping_between_is_one_message(forward):
    def in_pieces(pod):
        def pieces():
            yield b"\x00ab"
            assert pod.ping().wait(30)
            yield b"cd"

        greet(pod)
        pod.send(pieces())

    with connected(forward(in_pieces)) as sock:
        assert b"".join(iter(lambda: sock.recv(100), b"")) == b"abcd"


def test_a_client_that_does_not_read_holds_the_pod_up_and_loses_nothing(forward):
    total, sent = 20_000_000, []

    def talkative(pod):
        greet(pod)
        for _ in range(total // 20_000):
            pod.send(b"\x00" + bytes(20_000))
            sent.append(20_000)

    with connected(forward(talkative)) as sock:
        while True:  # until nobody takes any more
            before = len(sent)
            time.sleep(0.3)
            if before and len(sent) == before:
                break
        assert sum(sent) < total
        assert sum(len(chunk) for chunk in iter(lambda: sock.recv(65536), b"")) == total


def test_a_pod_that_does_not_read_holds_the_client_up_and_loses_nothing(forward):
    total, go, read = 20_000_000, threading.Event(), []

    def slow(pod):
        greet(pod)
        go.wait(30)
        for message in pod:
            read.append(len(message) - 1)
            if sum(read) == total:
                pod.send(b"\x00done")
                return

    with connected(forward(slow)) as sock:
        sock.settimeout(1.0)
        sent = 0
        with suppress(TimeoutError):
            while sent < total:
                sent += sock.send(bytes(min(65536, total - sent)))
        assert sent < total
        sock.settimeout(30.0)
        go.set()
        sock.sendall(bytes(total - sent))
        assert read_exactly(sock, 4) == b"done"


def test_the_end_of_the_pod_is_the_end_of_the_connection_after_all_is_read(forward):
    def brief(pod):
        greet(pod)
        pod.send(b"\x00bye")

    with connected(forward(brief)) as sock:
        assert b"".join(iter(lambda: sock.recv(100), b"")) == b"bye"


def test_a_pod_that_is_cut_off_ends_the_connection_after_all_is_read(forward):
    def cut_off(pod):
        greet(pod)
        pod.send(b"\x00bye")
        pod.socket.shutdown(socket.SHUT_RDWR)

    there = forward(cut_off)
    with connected(there) as sock:
        assert b"".join(iter(lambda: sock.recv(100), b"")) == b"bye"
    assert "no close frame" in until(lambda: there.trouble)


def test_an_error_of_the_api_server_ends_the_connection_and_is_kept(forward):
    def refusing(pod):
        greet(pod)
        pod.send(b"\x01nobody listens")
        for _ in pod:
            pass

    there = forward(refusing)
    with connected(there) as sock:
        assert sock.recv(1) == b""
    assert until(lambda: there.trouble) == "nobody listens"


def test_a_client_that_has_said_all_hears_the_rest(forward):
    said_all = threading.Event()

    def late(pod):
        greet(pod)
        pod.recv()
        said_all.wait(30)
        pod.send(b"\x00late")

    with connected(forward(late)) as sock:
        sock.sendall(b"x")
        sock.shutdown(socket.SHUT_WR)
        said_all.set()
        assert sock.recv(100) == b"late"
        assert sock.recv(100) == b""


def test_a_client_that_has_said_all_is_given_up_when_the_pod_stays_silent(forward, monkeypatch):
    monkeypatch.setattr("envweave.providers.kubernetes.port_forward.SILENCE", 0.2)
    ended = threading.Event()

    def silent(pod):
        greet(pod)
        for _ in pod:
            pass
        ended.set()

    with connected(forward(silent)) as sock:
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b""
        assert ended.wait(30)


def test_a_client_that_is_gone_ends_the_websocket(forward, monkeypatch):
    monkeypatch.setattr("envweave.providers.kubernetes.port_forward.SILENCE", 1000.0)
    ended = threading.Event()

    def talking(pod):
        try:
            greet(pod)
            pod.send(b"\x00hello")
            for _ in pod:
                pass
        finally:
            ended.set()

    with connected(forward(talking)) as sock:
        assert sock.recv(5) == b"hello"
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close resets the connection
    assert ended.wait(30)


def test_a_connection_that_fails_ends_alone(cluster):
    failing, there = [True], cluster(echoing)

    async def connect():
        if failing:
            raise RuntimeError("the API server is away")
        return await there.open_port()

    forward = PortForward(connect)
    try:
        with connected(forward) as sock:
            assert sock.recv(1) == b""
        assert until(lambda: forward.trouble) == "the API server is away"
        failing.clear()
        with connected(forward) as sock:
            sock.sendall(b"here")
            assert read_exactly(sock, 4) == b"here"
    finally:
        forward.close()


def test_close_ends_connections_the_thread_and_the_port(forward):
    there = forward(echoing)
    clients = [connected(there) for _ in range(20)]
    for client in clients:
        client.sendall(b"x")
        assert client.recv(1) == b"x"
    there.close()
    there.close()
    assert [client.recv(1) for client in clients] == [b""] * 20
    for client in clients:
        client.close()
    with pytest.raises(ConnectionRefusedError):
        connected(there)


def test_close_does_not_wait_for_a_connection_that_is_being_opened():
    opening = threading.Event()

    async def connect():
        opening.set()
        await asyncio.Event().wait()

    forward = PortForward(connect)
    with connected(forward) as sock:
        assert opening.wait(30)
        forward.close()
        assert sock.recv(1) == b""
