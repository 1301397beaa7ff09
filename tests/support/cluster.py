"""A real Kubernetes of one node for the tests, which is gone afterwards; nothing is pulled from a registry.

etcd, the API server, the controllers, the scheduler, dockerd, kubelet and kube-proxy run in one network namespace of
their own, so that neither this machine's firewall nor another Docker daemon is touched. From this machine the API
server, pods and services are reached by their addresses; there is no cluster DNS. The ranges of addresses are fixed,
so one cluster runs at a time. The binaries are made once by `tests/kubernetes/build_cluster.sh`.
"""

import base64
import fcntl
import io
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from support.engine import PATH, answers, clear, connect, empty

BINARIES = Path(os.environ.get("ENVWEAVE_K8S_BIN") or Path.home() / ".cache/ew-k8s/bin")
NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "pause")
TOOLS = ("dockerd", "runc", "nsenter", "setpriv", "ip", "iptables", "openssl", "socat", "conntrack")
NAME = "envweave-k8s"
PREFIX = "ewk8s-"
HERE, THERE = "10.213.0.1", "10.213.0.2"
PODS, GATEWAY, SERVICES, FIRST_SERVICE = "10.214.0.0/16", "10.214.0.1/16", "10.215.0.0/16", "10.215.0.1"
SERVER = f"https://{THERE}:6443"
NODE = "node1"
START_SECONDS = 120.0
STOP_SECONDS = 15.0
USERS = {
    "admin": 'admin,admin,"system:masters"',
    "kubelet": f'system:node:{NODE},{NODE},"system:nodes"',
    "controllers": "system:kube-controller-manager,controllers",
    "scheduler": "system:kube-scheduler,scheduler",
    "proxy": "system:kube-proxy,proxy",
}


class ClusterError(Exception):
    """No cluster can be had; the message is the reason."""


def why_not() -> str:
    """Empty if this machine can run a cluster, else the reason why it cannot."""
    if missing := [name for name in NEEDED if not os.access(BINARIES / name, os.X_OK)]:
        return f"{BINARIES} lacks {', '.join(missing)}: tests/kubernetes/build_cluster.sh makes them"
    if missing := [name for name in TOOLS if shutil.which(name, path=PATH) is None]:
        return f"not installed: {', '.join(missing)}"
    if os.geteuid() != 0:
        return "only root can start a node"
    if not Path("/sys/fs/cgroup/memory").is_dir():
        return "the node of Kubernetes 1.20 needs control groups of version 1"
    return ""


class Cluster:
    """What runs, by its name. `kubeconfig` is that of an administrator."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = str(folder / "admin.json")
        self.engine = f"unix://{folder}/docker.sock"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[str, ...]] = {}

    def load(self, image: str, from_docker: str) -> None:
        """Copies an image from another daemon to the node, where it has the same name."""
        with closing(connect(from_docker)) as source, closing(connect(self.engine)) as node:
            node.images.load(source.images.get(image).save(named=image))

    def write_kubeconfig(self, name: str, token: str, *, namespace: str = "default", server: str = SERVER) -> str:
        """The path of a kubeconfig for whoever holds the token."""
        path = self.folder / f"{name}.json"
        authority = base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()
        cluster = {"server": server, "certificate-authority-data": authority}
        context = {"cluster": "test", "user": name, "namespace": namespace}
        written = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "test", "context": context}],
        }
        path.write_text(json.dumps(written))
        return str(path)

    def write_certificate(self, name: str, subject: str) -> tuple[str, str]:
        """The paths of a certificate for a user and of its key, which the cluster trusts."""
        shell(f"""
            cd {self.folder}
            openssl ecparam -genkey -name prime256v1 -noout -out {name}.key
            openssl req -new -key {name}.key -subj {subject} -out {name}.csr
            openssl x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out {name}.crt
        """)
        return str(self.folder / f"{name}.crt"), str(self.folder / f"{name}.key")

    def run(self, name: str, *command: str) -> None:
        self._commands[name] = command
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                # One that is killed takes all of its cluster along.
                ["setpriv", "--pdeathsig", "TERM", "nsenter", f"--net=/run/netns/{NAME}", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                env={**os.environ, "PATH": PATH},
            )

    def halt(self, name: str, *, kill: bool = False) -> None:
        """Ends one component, friendly or not."""
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.kill() if kill else process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def resume(self, name: str) -> None:
        """Starts again what was halted."""
        self.run(name, *self._commands[name])

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """A while without one component, which is killed: without `kubelet` the node is lost. It works afterwards."""
        self.halt(name, kill=True)
        try:
            yield
        finally:
            self.resume(name)
            self.wait("the API server", lambda: self.ask("/readyz") == "ok")
            self.wait("the node", self.node_is_ready)

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """A while in which one component does not answer, but keeps its connections."""
        os.kill(self._processes[name].pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._processes[name].pid, signal.SIGCONT)

    def children(self, name: str) -> list[int]:
        """The processes that a component has started itself."""
        parent = str(self._processes[name].pid)
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it has ended meanwhile
                if (folder / "stat").read_text().rpartition(")")[2].split()[1] == parent:
                    found.append(int(folder.name))
        return found

    def ask(self, path: str) -> str:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        request = urllib.request.Request(f"{SERVER}{path}", headers={"Authorization": "Bearer admin-token"})
        with urllib.request.urlopen(request, context=context, timeout=5) as answer:
            return str(answer.read().decode())

    def node_is_ready(self) -> bool:
        conditions = json.loads(self.ask(f"/api/v1/nodes/{NODE}"))["status"]["conditions"]
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def wait(self, what: str, done: Callable[[], object]) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            for name, process in self._processes.items():
                if process.poll() is not None:
                    log = (self.folder / f"{name}.log").read_text(errors="replace")
                    raise ClusterError(f"{name} ended with {process.returncode}: {log[-2000:]}")
            with suppress(urllib.error.URLError, OSError, KeyError, ValueError):
                if done():
                    return
            time.sleep(0.1)
        raise ClusterError(f"{what} is not there after {START_SECONDS:g} s; it is busy here")

    def halt_all(self) -> None:
        for name in ("kubelet", "kube-proxy"):
            self.halt(name)
        if "dockerd" in self._processes:
            with suppress(Exception):  # its containers end with it all the same
                empty(self.engine)
        for name in ("dockerd", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"):
            self.halt(name)


@contextmanager
def running_cluster(images: Iterable[str] = (), from_docker: str = "") -> Iterator[Cluster]:
    """A cluster whose node is ready and has the images. Raises `ClusterError` where there can be none."""
    if reason := why_not():
        raise ClusterError(reason)
    with ExitStack() as stack:
        stack.enter_context(alone())
        for left in Path("/tmp").glob(f"{PREFIX}*"):
            clear(left)  # by a run that was killed: all its processes were killed with it
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir="/tmp"))  # the path of a socket has room for 107 bytes
        stack.callback(clear, folder)
        cluster = Cluster(folder)
        stack.callback(remove_groups)
        stack.callback(remove_network)
        stack.callback(cluster.halt_all)
        remove_network()  # of such a run, too
        make_network()
        make_certificates(folder)
        start_brain(cluster)
        start_node(cluster, images, from_docker)
        yield cluster


@contextmanager
def alone() -> Iterator[None]:
    with Path(f"/tmp/{NAME}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ClusterError("another cluster runs here, and addresses are fixed") from None
        yield


def make_network() -> None:
    shell(f"""
        ip netns add {NAME}
        ip link add ewk8s-here type veth peer name ewk8s-there
        ip link set ewk8s-there netns {NAME}
        ip addr add {HERE}/30 dev ewk8s-here
        ip link set ewk8s-here up
        ip -n {NAME} addr add {THERE}/30 dev ewk8s-there
        ip -n {NAME} link set ewk8s-there up
        ip -n {NAME} link set lo up
        ip -n {NAME} link add pods type bridge
        ip -n {NAME} addr add {GATEWAY} dev pods
        ip -n {NAME} link set pods up
        ip -n {NAME} route add unreachable default
        nsenter --net=/run/netns/{NAME} sysctl -qw net.ipv4.ip_forward=1
        ip route add {PODS} via {THERE}
        ip route add {SERVICES} via {THERE}
    """)


def remove_network() -> None:
    for command in (f"ip route del {PODS}", f"ip route del {SERVICES}", "ip link del ewk8s-here"):
        subprocess.run(command.split(), capture_output=True, check=False, env={**os.environ, "PATH": PATH})
    if Path(f"/run/netns/{NAME}").exists():
        shell(f"ip netns del {NAME}")


def remove_groups() -> None:
    for controller in Path("/sys/fs/cgroup").iterdir():
        for group in ("kubepods", NAME):
            for folder, _, _ in os.walk(controller / group, topdown=False):
                with suppress(OSError):
                    os.rmdir(folder)


def make_certificates(folder: Path) -> None:
    names = "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
    (folder / "names").write_text(
        f"subjectAltName={names},IP:127.0.0.1,IP:{THERE},IP:{FIRST_SERVICE}\nextendedKeyUsage=serverAuth,clientAuth\n"
        "authorityKeyIdentifier=keyid\n"
    )
    authority = "-addext keyUsage=critical,keyCertSign,cRLSign -subj /CN=test-ca"
    valid = "-days 30 -extfile names"
    shell(f"""
        cd {folder}
        openssl ecparam -genkey -name prime256v1 -noout -out ca.key
        openssl req -x509 -new -key ca.key {authority} -days 30 -out ca.crt
        openssl ecparam -genkey -name prime256v1 -noout -out server.key
        openssl req -new -key server.key -subj /CN=kube-apiserver -out server.csr
        openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial {valid} -out server.crt
        openssl genrsa -out accounts.key 2048
        openssl rsa -in accounts.key -pubout -out accounts.pub
    """)
    (folder / "tokens.csv").write_text("".join(f"{user}-token,{rest}\n" for user, rest in USERS.items()))


def start_brain(cluster: Cluster) -> None:
    """Everything but the node."""
    folder = cluster.folder
    for user in USERS:
        cluster.write_kubeconfig(user, f"{user}-token")
    cluster.run(
        "etcd",
        *(f"{BINARIES}/etcd", "--data-dir", f"{folder}/etcd", "--unsafe-no-fsync"),
        *("--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379"),
        *("--listen-peer-urls", "http://127.0.0.1:2380"),
    )
    cluster.run(
        "kube-apiserver",
        *(f"{BINARIES}/kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--secure-port=6443"),
        *("--bind-address=0.0.0.0", f"--advertise-address={THERE}", f"--service-cluster-ip-range={SERVICES}"),
        *(f"--tls-cert-file={folder}/server.crt", f"--tls-private-key-file={folder}/server.key"),
        *(f"--token-auth-file={folder}/tokens.csv", "--authorization-mode=Node,RBAC"),
        *("--enable-admission-plugins=NodeRestriction", f"--client-ca-file={folder}/ca.crt"),
        *("--service-account-issuer=https://kubernetes.default.svc", "--kubelet-preferred-address-types=InternalIP"),
        f"--service-account-key-file={folder}/accounts.pub",
        f"--service-account-signing-key-file={folder}/accounts.key",
    )
    cluster.wait("the API server", lambda: cluster.ask("/readyz") == "ok")
    cluster.run(
        "kube-controller-manager",
        *(f"{BINARIES}/kube-controller-manager", f"--kubeconfig={folder}/controllers.json", "--leader-elect=false"),
        *(f"--service-account-private-key-file={folder}/accounts.key", f"--root-ca-file={folder}/ca.crt"),
        *("--use-service-account-credentials=true", "--bind-address=127.0.0.1"),
        *("--node-monitor-period=1s", "--node-monitor-grace-period=8s"),
    )
    cluster.run(
        "kube-scheduler",
        *(f"{BINARIES}/kube-scheduler", f"--kubeconfig={folder}/scheduler.json", "--leader-elect=false"),
        "--bind-address=127.0.0.1",
    )
    cluster.wait("the first account", lambda: cluster.ask("/api/v1/namespaces/default/serviceaccounts/default"))


def start_node(cluster: Cluster, images: Iterable[str], from_docker: str) -> None:
    folder = cluster.folder
    cluster.run(
        "dockerd",
        *("dockerd", "--host", cluster.engine, "--pidfile", f"{folder}/docker.pid", "--bridge=pods"),
        *("--data-root", f"{folder}/docker", "--exec-root", f"{folder}/exec", "--cgroup-parent", f"/{NAME}"),
        *("--exec-opt", "native.cgroupdriver=cgroupfs", "--log-level", "warn", *runtime(folder)),
    )
    cluster.wait("dockerd", lambda: answers(cluster.engine))
    make_pause(cluster.engine)
    for image in images:
        cluster.load(image, from_docker)
    (folder / "kubelet.yaml").write_text(json.dumps(KUBELET))
    (folder / "kubelet").mkdir()
    cluster.run(
        "kubelet",
        *(f"{BINARIES}/kubelet", f"--kubeconfig={folder}/kubelet.json", f"--config={folder}/kubelet.yaml"),
        *(f"--hostname-override={NODE}", f"--node-ip={THERE}", "--network-plugin=", "--container-runtime=docker"),
        *(f"--root-dir={folder}/kubelet", f"--cert-dir={folder}/kubelet/pki", f"--docker-endpoint={cluster.engine}"),
        f"--experimental-dockershim-root-directory={folder}/dockershim",
        f"--container-runtime-endpoint=unix://{folder}/dockershim.sock",
        *(f"--seccomp-profile-root={folder}/seccomp", f"--volume-plugin-dir={folder}/plugins"),
        *("--pod-infra-container-image=pause:local", "--non-masquerade-cidr=0.0.0.0/0"),
    )
    cluster.run(
        "kube-proxy",
        *(f"{BINARIES}/kube-proxy", f"--kubeconfig={folder}/proxy.json", f"--hostname-override={NODE}"),
        *("--proxy-mode=iptables", f"--cluster-cidr={PODS}", "--conntrack-max-per-core=0"),
        "--masquerade-all=true",  # pods of one bridge would answer each other past the translation of addresses
        *("--conntrack-tcp-timeout-established=0s", "--conntrack-tcp-timeout-close-wait=0s"),
    )
    cluster.wait("the node", cluster.node_is_ready)


KUBELET = {
    "kind": "KubeletConfiguration",
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "enforceNodeAllocatable": [],
    "failSwapOn": False,
    "imageGCHighThresholdPercent": 100,
    "imageGCLowThresholdPercent": 99,
    "evictionHard": {"memory.available": "100Mi"},
    "nodeStatusUpdateFrequency": "2s",
    "syncFrequency": "10s",
    "maxPods": 200,
}


def make_pause(engine: str) -> None:
    """The image that holds the network of a pod; kubelet wants one, and we have no registry to pull it from."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(BINARIES / "pause", "pause")
    with closing(connect(engine)) as client:
        change = 'ENTRYPOINT ["/pause"]'
        client.api.import_image_from_data(packed.getvalue(), repository="pause", tag="local", changes=[change])


def runtime(folder: Path) -> tuple[str, ...]:
    """Arguments of dockerd for a machine without CAP_SYS_RESOURCE.

    There nobody can be given the negative `oom_score_adj` that kubelet wants for pods: zero is asked for instead.
    """
    capabilities = re.search(r"CapEff:\s*(\w+)", Path("/proc/self/status").read_text())
    if capabilities is None or int(capabilities[1], 16) >> 24 & 1:
        return ()
    script = folder / "runc"
    script.write_text(RUNC)
    script.chmod(0o755)
    return ("--add-runtime", f"modest={script}", "--default-runtime", "modest")


RUNC = """#!/bin/sh
bundle= before=
for word in "$@"; do [ "$before" = --bundle ] && bundle=$word; before=$word; done
[ -f "$bundle/config.json" ] && sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$bundle/config.json"
exec runc "$@"
"""


def shell(script: str) -> None:
    done = subprocess.run(
        ["bash", "-ec", script], capture_output=True, text=True, check=False, env={**os.environ, "PATH": PATH}
    )
    if done.returncode:
        raise ClusterError(f"{script.strip()}: {done.stderr.strip()}")
