"""One start on a cluster: what it has made there, how it is reached, and how it ends."""

from __future__ import annotations

import atexit
import functools
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from envweave.errors import ProviderError
from envweave.providers.base import in_owner, labels
from envweave.providers.kubernetes import manifests
from envweave.providers.kubernetes.cluster import ClusterError, Connection, connected
from envweave.providers.kubernetes.diagnosis import is_ready
from envweave.providers.kubernetes.forwarding import Forward
from envweave.providers.kubernetes.heartbeat import Heartbeat
from envweave.providers.kubernetes.workload import WorkloadOptions

_BEATS = 4
"""Signs of life in the time of one lease."""
_TRIES, _PAUSE = 3, 0.5
"""How often, and after how many seconds, something is deleted again while the API server has no time."""
_GONE_PAUSE = 0.2
_OWED: set[Replicas] = set()
"""What was to be removed when the API server did not answer."""


class Replicas:
    """A pod or a deployment, and its service. Its names are known before anything is created.

    It knows nothing of the provider that holds it, so that it can be ended when that is dropped.
    """

    def __init__(self, connection: Connection, name: str, options: WorkloadOptions, pid: int) -> None:
        self.connection = connection
        self.name = name
        self.options = options
        self.namespace = options.namespace or connection.namespace
        self.kind = "Pod" if options.replicas == 1 else "Deployment"
        here = "service" if connection.inside else "port-forward"
        self.reach = here if options.reach == "auto" else options.reach
        self.began = time.monotonic()
        self._pid = pid
        self._ours = True
        self._places = [""] * options.replicas
        self._addresses: dict[str, str] = {}
        self._lock = threading.Lock()
        self._forwards: list[Forward] = []
        self._heartbeat: Heartbeat | None = None

    def create(self) -> None:
        """Raises `ProviderError`; then some of it may be there, which `end` removes."""
        make_up()
        make = manifests.pod if self.kind == "Pod" else manifests.deployment
        expires = manifests.expiry(self.options.lease)
        owners = _own_pod(self.connection, self.namespace)
        try:
            root = self.connection.create(make(self.name, self.options, labels(), expires, owners), self.namespace)
        except ClusterError as error:
            self._ours = not error.taken
            raise
        belongs = [manifests.owner(root)]
        front = manifests.service(self.name, self.options, labels(), expires, belongs)
        self.connection.create(front, self.namespace)
        if self.reach == "port-forward":
            for place in range(self.options.replicas):
                self._forwards.append(Forward(functools.partial(self._dial, place)))
        self._heartbeat = Heartbeat(self._renew, self.options.lease / _BEATS)

    def pods(self) -> list[dict[str, Any]]:
        """As they are now, oldest first; sessions find their way by what is seen here."""
        found = self.connection.everything("Pod", self.namespace, f"{manifests.WORKLOAD}={self.name}")
        found.sort(key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
        self._place(found)
        return found

    @property
    def service_url(self) -> str:
        return f"http://{self.name}.{self.namespace}.svc:{self.options.port}"

    @property
    def url(self) -> str:
        return self.service_url if self.reach == "service" else next(iter(self.urls), "")

    @property
    def urls(self) -> tuple[str, ...]:
        """One for each pod. Those of `port-forward` stay, those of pods are as they were when last looked at."""
        if self._forwards:
            return tuple(f"http://127.0.0.1:{forward.port}" for forward in self._forwards)
        if self.reach == "service" and self.options.replicas == 1:
            return (self.service_url,)
        with self._lock:
            known = [address for place in self._places if (address := self._addresses.get(place))]
        port = self.options.port
        return tuple(f"http://[{each}]:{port}" if ":" in each else f"http://{each}:{port}" for each in known)

    @property
    def forwarding_trouble(self) -> str:
        return next((forward.trouble for forward in self._forwards if forward.trouble), "")

    def end(self, wait: float = 0.0) -> None:
        """Where the API server does not answer, it is done with our next start, or at exit."""
        if not in_owner(self._pid):
            return
        if self._heartbeat is not None:
            self._heartbeat.stop()
        for forward in self._forwards:
            forward.close()
        try:
            if self._ours:
                self._delete(self.kind, manifests.grace(self.options) if self.kind == "Pod" else None)
                self._delete("Service", None)  # it would go by itself, but later
                self._wait_until_gone(wait)
        except ProviderError:
            _OWED.add(self)
        finally:
            self.connection.close()

    def _delete(self, kind: str, grace: int | None) -> None:
        for tries in range(_TRIES):
            try:
                self.connection.delete(kind, self.name, self.namespace, grace)
                return
            except ClusterError as error:
                # Without an answer there is a wait in every try, and nobody there to hear us.
                if not error.passing or error.status is None or tries == _TRIES - 1:
                    raise
                time.sleep(_PAUSE)

    def _wait_until_gone(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.pods():
            time.sleep(_GONE_PAUSE)

    def _renew(self) -> None:
        expires = manifests.expiry(self.options.lease)
        self.connection.annotate(self.kind, self.name, self.namespace, {manifests.EXPIRES: expires})

    def _place(self, pods: Sequence[dict[str, Any]]) -> None:
        """Each place has its pod until that is gone; then it gets one that is ready and that no other place has."""
        alive = {
            pod["metadata"]["name"]: pod
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
            and pod["status"].get("phase") not in ("Failed", "Succeeded")
        }
        with self._lock:
            kept = [place if place in alive else "" for place in self._places]
            free = iter([name for name, pod in alive.items() if name not in kept and is_ready(pod)])
            if self.options.replicas == 1:  # its name is known, ready or not
                free = iter(name for name in alive if name not in kept)
            self._places = [place or next(free, "") for place in kept]
            self._addresses = {name: pod["status"].get("podIP", "") for name, pod in alive.items()}

    def _dial(self, place: int) -> socket.socket:
        """A connection to the pod of that place, and to no other while that lives."""
        if self.kind == "Pod":
            return self.connection.dial(self.name, self.namespace, self.options.port)
        name = self._places[place]
        if name:
            try:
                return self.connection.dial(name, self.namespace, self.options.port)
            except ClusterError:
                self.pods()
                if self._places[place] in ("", name):
                    raise
        else:
            self.pods()
        if not self._places[place]:
            raise ProviderError("its pod is gone, and the next one is not ready yet")
        return self.connection.dial(self._places[place], self.namespace, self.options.port)


@atexit.register
def make_up() -> None:
    """Remove what should be gone already, where the API server answers again."""
    for owed in list(_OWED):
        with suppress(ProviderError), connected(owed.options.kubeconfig, owed.options.context) as connection:
            connection.delete(owed.kind, owed.name, owed.namespace)
            connection.delete("Service", owed.name, owed.namespace)
            _OWED.discard(owed)


def _own_pod(connection: Connection, namespace: str) -> list[manifests.Manifest]:
    """A reference to the pod that we are in: what it has started goes with it. Empty if we are in none there."""
    if not connection.inside or namespace != connection.namespace:
        return []
    with suppress(ClusterError, OSError):
        found = connection.read("Pod", socket.gethostname(), namespace)
        ours = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None)}
        address = (found.get("status") or {}).get("podIP")
        if not address or address in ours:  # that of a pod that has just begun is not known there yet
            return [manifests.owner({"kind": "Pod", "apiVersion": "v1", **found})]
    return []
