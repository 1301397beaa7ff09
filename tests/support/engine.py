"""A Docker daemon for the tests: the one that answers already, or one of our own that is gone afterwards.

Our own lives beside any other daemon: data, sockets and bridge carry a name that nobody else has, and it writes no
firewall rules. Ports published to this machine work (Docker's proxy carries them), and so does the host's network;
containers on the bridge do not reach the world, as nobody translates their addresses.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import docker
from docker.errors import APIError, DockerException

DEFAULT_URL = "unix:///var/run/docker.sock"
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"  # daemons live in sbin
START_SECONDS = 60.0
STOP_SECONDS = 30.0


class EngineError(Exception):
    """No daemon can be had; the message is the reason."""


def connect(url: str) -> docker.DockerClient:
    """A client of the daemon at `url`, which has answered when this returns; the caller closes it."""
    return docker.from_env(environment={**os.environ, "DOCKER_HOST": url}, version="auto", timeout=60)


def answers(url: str) -> bool:
    try:
        if url.startswith("unix://"):  # the SDK would leave a socket open where nobody listens
            with socket.socket(socket.AF_UNIX) as listener:
                listener.connect(url.removeprefix("unix://"))
        with closing(connect(url)) as client:
            return bool(client.ping())
    except (DockerException, OSError):
        return False


@contextmanager
def running_engine(*, bridge: bool = True) -> Iterator[str]:
    """The URL of the daemon that `DOCKER_HOST` names, of the machine's own, or of one that is started and stopped here.

    Raises EngineError where there is none.
    """
    for url in (os.environ.get("DOCKER_HOST"), DEFAULT_URL):
        if url and answers(url):
            yield url
            return
    with private_engine(bridge=bridge) as url:
        yield url


@contextmanager
def private_engine(*, bridge: bool = True) -> Iterator[str]:
    """A daemon of our own. Without a bridge it needs nothing of the network, and its containers have none."""
    with restartable_engine(bridge=bridge) as engine:
        yield engine.url


@contextmanager
def restartable_engine(*, bridge: bool = True) -> Iterator["Engine"]:
    """A daemon of our own that can be stopped and started again on the same data."""
    if shutil.which("dockerd", path=PATH) is None:
        raise EngineError("no Docker daemon answers and dockerd is not installed")
    if os.geteuid() != 0:
        raise EngineError("no Docker daemon answers and only root can start one")
    if bridge and shutil.which("ip", path=PATH) is None:
        raise EngineError("no Docker daemon answers and `ip`, which makes the bridge of our own, is not installed")
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="ewd", dir="/tmp"))  # the path of a socket has room for 107 bytes
        stack.callback(clear, folder)
        if bridge:
            run("ip", "link", "add", folder.name, "type", "bridge")
            stack.callback(run, "ip", "link", "delete", folder.name)
        engine = Engine(folder, bridge)
        stack.callback(engine.stop)
        engine.start()
        stack.callback(engine.empty)
        yield engine


class Engine:
    """One daemon and its folder."""

    def __init__(self, folder: Path, bridge: bool) -> None:
        self.url = f"unix://{folder}/docker.sock"
        self._folder = folder
        self._bridge = bridge
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin, and wait until it answers; nothing if it runs."""
        if self._process is not None:
            return
        with (self._folder / "log").open("ab") as log:
            words = command(self._folder, self.url, bridge=self._bridge)
            self._process = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, "PATH": PATH})
        wait_for(self.url, self._process, self._folder)

    def stop(self) -> None:
        """End it, and its containers with it; nothing if it does not run."""
        process, self._process = self._process, None
        if process is not None:
            stop(process)

    def empty(self) -> None:
        self.start()
        empty(self.url)


def command(folder: Path, url: str, *, bridge: bool) -> list[str]:
    return [
        *("setpriv", "--pdeathsig", "TERM"),  # a pytest that is killed takes its daemon along
        # `--bridge none` deletes the docker0 that it finds, whosoever it is: let it find none.
        *(() if bridge else ("unshare", "--net")),
        *("dockerd", "--host", url, "--pidfile", f"{folder}/pid"),
        *("--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"),
        *("--bridge", folder.name if bridge else "none"),
        *("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
        *("--shutdown-timeout", "5", "--log-level", "warn"),
    ]


def wait_for(url: str, process: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not answers(url):
        if process.poll() is not None or time.monotonic() > deadline:
            state = "still starts" if process.poll() is None else f"ended with {process.returncode}"
            raise EngineError(f"dockerd {state}: {(folder / 'log').read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)


def empty(url: str) -> None:
    """Removes what tests have left: containers would hold up the end of the daemon, bridges of networks outlive it."""
    with closing(connect(url)) as client:
        for container in client.containers.list(all=True, ignore_removed=True):
            try:
                container.remove(force=True, v=True)
            except APIError as error:
                if error.status_code not in (404, 409):  # it ended by itself, or is being removed
                    raise
        client.networks.prune()


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()  # containerd, its child, is killed along by the kernel
        process.wait()


def clear(folder: Path) -> None:
    """Removes the folder of a daemon that has ended, and what is still mounted in it."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in sorted((mount for mount in mounts if mount.startswith(f"{folder}/")), reverse=True):
        run("umount", "--lazy", mount)
    shutil.rmtree(folder)


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": PATH})
    if done.returncode:
        raise EngineError(f"{' '.join(command)}: {done.stderr.strip()}")
