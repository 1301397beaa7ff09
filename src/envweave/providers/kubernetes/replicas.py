"""The objects of one start on a cluster: created, reached and deleted together."""

from __future__ import annotations

import atexit
import functools
import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from http.client import CONFLICT
from typing import TYPE_CHECKING, Any

from envweave.core.threads import run_in_thread
from envweave.errors import ProviderError
from envweave.providers.base import labels
from envweave.providers.kubernetes import manifests
from envweave.providers.kubernetes.cluster import ClusterClient, ClusterError
from envweave.providers.kubernetes.diagnosis import is_ready
from envweave.providers.kubernetes.port_forward import PortForward
from envweave.providers.kubernetes.workload import WorkloadOptions

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_RENEWALS = 4
"""Renewals in the time of one lease; after a failure the next one comes four times as soon."""
_TRIES, _PAUSE = 3, 0.5
"""How often a delete is tried while the API server is busy, and seconds between two tries."""
_GONE_PAUSE = 0.2
_UNDELETED: set[Replicas] = set()
"""Starts whose API server did not answer when they were to be deleted."""


class Replicas:
    """A pod or a deployment, and its service. Their name is known before anything is created.

    It has no reference to the provider, so that the provider's finalizer can end it.
    """

    def __init__(self, client: ClusterClient, name: str, options: WorkloadOptions) -> None:
        self.client = client
        self.name = name
        self.options = options
        self.namespace = options.namespace or client.namespace
        self.kind = "Pod" if options.replicas == 1 else "Deployment"
        default = "service" if client.inside else "port-forward"
        self.reach = default if options.reach == "auto" else options.reach
        self.began = time.monotonic()
        self._pid = os.getpid()
        self._created_by_us = True
        self._pods = [""] * options.replicas
        """The name of the pod behind each URL."""
        self._addresses: dict[str, str] = {}
        self._lock = threading.Lock()
        self._forwards: list[PortForward] = []
        self._ended = threading.Event()

    def create(self) -> None:
        """Raises `ProviderError`; then some objects may exist, which `end` deletes."""
        delete_undeleted()
        make = manifests.pod if self.kind == "Pod" else manifests.deployment
        expires = manifests.expiry(self.options.lease)
        owners = _own_pod(self.client, self.namespace)
        try:
            root = self.client.create(make(self.name, self.options, labels(), expires, owners), self.namespace)
        except ClusterError as error:
            self._created_by_us = error.status != CONFLICT
            raise
        service = manifests.service(self.name, self.options, labels(), expires, [manifests.owner(root)])
        self.client.create(service, self.namespace)
        if self.reach == "port-forward":
            for index in range(self.options.replicas):
                self._forwards.append(PortForward(functools.partial(self._open_port, index)))
        threading.Thread(target=self._renew_until_end, name="envweave-lease", daemon=True).start()

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods, oldest first, and update the pod behind each URL."""
        found = self.client.list_objects("Pod", self.namespace, f"{manifests.WORKLOAD}={self.name}")
        found.sort(key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
        self._assign(found)
        return found

    def address_problem(self) -> str:
        return "" if self.pods() and self.urls else "no pod has an address"

    @property
    def service_url(self) -> str:
        return f"http://{self.name}.{self.namespace}.svc:{self.options.port}"

    @property
    def url(self) -> str:
        return self.service_url if self.reach == "service" else next(iter(self.urls), "")

    @property
    def urls(self) -> tuple[str, ...]:
        """One for each pod. Those of port-forwards stay the same; addresses of pods are as of the last `pods`."""
        if self._forwards:
            return tuple(f"http://127.0.0.1:{forward.port}" for forward in self._forwards)
        if self.reach == "service" and self.options.replicas == 1:
            return (self.service_url,)
        with self._lock:
            known = [address for pod in self._pods if (address := self._addresses.get(pod))]
        port = self.options.port
        return tuple(f"http://[{each}]:{port}" if ":" in each else f"http://{each}:{port}" for each in known)

    @property
    def forwarding_trouble(self) -> str:
        return next((forward.trouble for forward in self._forwards if forward.trouble), "")

    def end(self, wait: float = 0.0) -> None:
        """Delete everything; if the API server does not answer, with the next start or at exit."""
        if os.getpid() != self._pid:  # a forked copy does not own it
            return
        self._ended.set()
        for forward in self._forwards:
            forward.close()
        try:
            if self._created_by_us:
                self._delete(self.kind, manifests.grace(self.options) if self.kind == "Pod" else None)
                self._delete("Service", None)  # the cluster would do it too, but later
                self._wait_until_gone(wait)
        except ProviderError:
            _UNDELETED.add(self)
        finally:
            self.client.close()

    def _delete(self, kind: str, grace: int | None) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                self.client.delete(kind, self.name, self.namespace, grace)
                return
            except ClusterError as error:
                if not error.temporary or error.status is None or attempt == _TRIES:  # no status: it has timed out
                    raise
                time.sleep(_PAUSE)

    def _wait_until_gone(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.pods():
            time.sleep(_GONE_PAUSE)

    def _renew_until_end(self) -> None:
        every = pause = self.options.lease / _RENEWALS
        while not self._ended.wait(pause):
            try:
                self._renew()
                pause = every
            except Exception:  # the next renewal may succeed
                pause = every / _RENEWALS

    def _renew(self) -> None:
        expires = {manifests.EXPIRES: manifests.expiry(self.options.lease)}
        self.client.annotate(self.kind, self.name, self.namespace, expires)

    def _assign(self, pods: Sequence[dict[str, Any]]) -> None:
        """Keep the pod of each URL while it lives; then assign one that is ready and has no URL yet."""
        alive = {
            pod["metadata"]["name"]: pod
            for pod in pods
            if not pod["metadata"].get("deletionTimestamp")
            and pod["status"].get("phase") not in ("Failed", "Succeeded")
        }
        single = self.options.replicas == 1  # its name is known before it is ready
        with self._lock:
            kept = [pod if pod in alive else "" for pod in self._pods]
            free = (name for name, pod in alive.items() if name not in kept and (single or is_ready(pod)))
            self._pods = [pod or next(free, "") for pod in kept]
            self._addresses = {name: pod["status"].get("podIP", "") for name, pod in alive.items()}

    async def _open_port(self, index: int) -> ClientConnection:
        """Connect to the pod behind a URL. Another pod takes its place only if it is gone."""
        if self.kind == "Pod":
            return await self.client.open_port(self.name, self.namespace, self.options.port)
        name = self._pods[index]
        if name:
            try:
                return await self.client.open_port(name, self.namespace, self.options.port)
            except ClusterError:
                await run_in_thread(self.pods)
                if self._pods[index] in ("", name):
                    raise
        else:
            await run_in_thread(self.pods)
        if not self._pods[index]:
            raise ProviderError("its pod is gone, and the next one is not ready yet")
        return await self.client.open_port(self._pods[index], self.namespace, self.options.port)


@atexit.register
def delete_undeleted() -> None:
    """Delete what could not be deleted earlier."""
    for pending in list(_UNDELETED):
        with (
            suppress(ProviderError),
            closing(ClusterClient(pending.options.kubeconfig, pending.options.context)) as client,
        ):
            client.delete(pending.kind, pending.name, pending.namespace)
            client.delete("Service", pending.name, pending.namespace)
            _UNDELETED.discard(pending)


def _own_pod(client: ClusterClient, namespace: str) -> list[manifests.Manifest]:
    """Return a reference to the pod that this process runs in, so that its objects are deleted with it."""
    if not client.inside or namespace != client.namespace:
        return []
    with suppress(ClusterError, OSError):
        found = client.read("Pod", socket.gethostname(), namespace)
        ours = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None)}
        address = (found.get("status") or {}).get("podIP")
        if not address or address in ours:  # a pod that has just started may have no address yet
            return [manifests.owner({"kind": "Pod", "apiVersion": "v1", **found})]
    return []
