"""A server in a pod of a Kubernetes cluster, or several, reached from inside the cluster or through its API server."""

from __future__ import annotations

import os
import secrets
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from http.client import NOT_FOUND
from typing import Any, ClassVar

from envweave.core import process_identity
from envweave.errors import ProviderError, ProviderUnreachableError
from envweave.providers.base import LOG_TAIL, READY_TIMEOUT, format_log, health, is_stray
from envweave.providers.image import ImageProvider
from envweave.providers.kubernetes import manifests
from envweave.providers.kubernetes.cluster import ClusterClient, ClusterError
from envweave.providers.kubernetes.diagnosis import (
    DELETED,
    Trouble,
    deployment_trouble,
    is_ready,
    node_trouble,
    state_of,
    trouble,
    warnings,
)
from envweave.providers.kubernetes.replicas import Replicas
from envweave.providers.kubernetes.workload import WorkloadOptions
from envweave.providers.resource import Resource

_NODE_CHECK_AFTER = 5.0
"""Seconds after which the node of a pod that is not ready is checked."""
_REMOVED = Trouble("is gone: someone else removed it")


class KubernetesProvider(ImageProvider):
    """One pod, or with `replicas` a deployment of several, and a service in front of them.

        with running(KubernetesProvider("registry.example/echo-env:1", memory="512m")) as url: ...

    Options are those of `WorkloadOptions`. The cluster is that of `kubeconfig`, `KUBECONFIG`, the service account of
    this pod, or `~/.kube/config`, in this order. `urls` has one URL per pod; a session stays with its pod.
    """

    kind: ClassVar[str] = "kubernetes"
    options_type = WorkloadOptions
    options: WorkloadOptions
    _replicas: Replicas | None = None
    _was_ready = False
    _waiting = False
    _may_read_nodes = True

    def _start(self) -> str:
        client = ClusterClient(self.options.kubeconfig, self.options.context)
        name = f"envweave-{os.getpid()}-{secrets.token_hex(6)}"
        made = self._replicas = Replicas(client, name, self.options)
        self._finalizer = weakref.finalize(self, made.end)
        self._was_ready = False
        made.create()
        if made.reach == "pod":  # its address is not known before it is scheduled
            self._wait_until(made.address_problem, READY_TIMEOUT, self._unhealthy_error)
        return made.url

    @property
    def name(self) -> str:
        """Name of the pod or deployment and of its service; empty if there is none."""
        return self._replicas.name if self._replicas else ""

    @property
    def namespace(self) -> str:
        return self._replicas.namespace if self._replicas else self.options.namespace

    @property
    def servers(self) -> int:
        return self.options.replicas

    @property
    def urls(self) -> tuple[str, ...]:
        """One URL per pod. Those of `port-forward` stay the same; addresses of pods are as of the last `check`."""
        return self._replicas.urls if self._replicas and self.url else ()

    def wait_for_ready(self, timeout: float | str = READY_TIMEOUT, timeout_s: float | None = None) -> None:
        super().wait_for_ready(timeout, timeout_s)
        self._was_ready = True

    def _wait_until(
        self, problem: Callable[[], str], seconds: float, failure: Callable[[str, float], ProviderError]
    ) -> None:
        """Wait, and ignore temporary failures of the API server."""

        def found() -> str:
            try:
                return problem()
            except ClusterError as error:
                if not error.temporary:
                    raise
                return error.message

        self._waiting = True
        try:
            super()._wait_until(found, seconds, failure)
        finally:
            self._waiting = False

    def _health(self) -> str:
        made = self._started()
        pods = made.pods()
        unready = [state_of(pod) for pod in pods if not is_ready(pod)]
        ready = len(pods) - len(unready)
        if ready < self.options.replicas:
            return f"{ready} of {self.options.replicas} pods are ready ({', '.join(unready) or 'there is no pod yet'})"
        self.url = made.url
        problem = next((found for found in map(health, dict.fromkeys((made.url, *made.urls))) if found), "")
        return f"{problem} ({made.forwarding_trouble})" if problem and made.forwarding_trouble else problem

    def _unhealthy_error(self, problem: str, seconds: float) -> ProviderError:
        made = self._started()
        events = ""
        with suppress(ProviderError):  # we may not be allowed to read events
            for pod in made.pods():
                events += warnings(made.client.events(pod["metadata"]["name"], made.namespace))
        where = f"{made.namespace}/{made.name}"
        return ProviderError(
            f"no healthy server in {where} within {seconds:g} s: {problem}{events}{self.formatted_log()}",
            "does it listen on all addresses and answer /health? a longer timeout may help on a busy cluster",
        )

    def check(self) -> None:
        made = self._started()
        try:
            pods = made.pods()
            if made.kind == "Deployment":
                self._check_deployment(made, pods)
            elif pods:
                self._check_pod(made, pods[0])
            else:
                raise self._failure(made, _REMOVED)
        except ClusterError as error:
            if not error.temporary:
                raise
            if not self._waiting:
                raise ProviderUnreachableError(error.message, error.hint) from error
        if self.url and made.reach == "pod":
            self.url = made.url or self.url

    def _check_deployment(self, made: Replicas, pods: list[dict[str, Any]]) -> None:
        """Once all pods were ready, it is enough that one is: the deployment replaces the others."""
        try:
            deployment = made.client.read("Deployment", made.name, made.namespace)
        except ClusterError as error:
            if error.status != NOT_FOUND:
                raise
            raise self._failure(made, _REMOVED) from None
        if deployment["metadata"].get("deletionTimestamp"):
            raise self._failure(made, DELETED)
        if self._was_ready and any(is_ready(pod) for pod in pods):
            return
        if found := deployment_trouble(deployment):
            raise self._failure(made, found)
        for pod in pods:
            if not pod["metadata"].get("deletionTimestamp"):
                self._check_pod(made, pod)

    def _check_pod(self, made: Replicas, pod: dict[str, Any]) -> None:
        waited = time.monotonic() - made.began
        found = trouble(pod, waited=waited, patience=self.options.unschedulable_after)
        if found is None and not is_ready(pod) and waited > _NODE_CHECK_AFTER:
            found = self._node_trouble(made, str(pod["spec"].get("nodeName") or ""))
        if found is not None:
            raise self._failure(made, found, pod["metadata"]["name"])

    def _node_trouble(self, made: Replicas, node: str) -> Trouble | None:
        if not node or not self._may_read_nodes:
            return None
        try:
            problem = node_trouble(made.client.node(node))
        except ClusterError as error:
            gone = error.status == NOT_FOUND
            self._may_read_nodes = error.temporary or gone
            return Trouble(f"is lost: its node {node!r} is gone") if gone else None
        return Trouble(f"is lost: its node {node!r} does not work: {problem}") if problem else None

    def _failure(self, made: Replicas, found: Trouble, pod: str = "") -> ProviderError:
        """Return the error, with the log of the pod if one is named."""
        log = ""
        with suppress(ProviderError):
            if pod:
                log = made.client.log(pod, made.namespace, manifests.CONTAINER, LOG_TAIL, previous=found.previous)
        shown = format_log(log) if log or "exit code" in found.what else ""
        return ProviderError(f"the {made.kind.lower()} of {self.options.image} {found.what}{shown}", found.hint)

    def logs(self, tail: int | None = None) -> str:
        made = self._replicas
        texts: dict[str, str] = {}
        with suppress(ProviderError):
            for pod in made.pods() if made is not None else ():
                name = pod["metadata"]["name"]
                with suppress(ProviderError):  # a pod that is not started has no log
                    texts[name] = self._started().client.log(name, self.namespace, manifests.CONTAINER, tail)
        if len(texts) < 2:
            return "".join(texts.values())
        return "".join(f"{name}:\n{text}" for name, text in texts.items())

    def stop(self, *, wait: float = 0.0) -> None:
        """Tell the cluster to delete everything, and wait up to `wait` seconds until the pods are gone."""
        finalizer, self._finalizer = self._finalizer, None
        made, self._replicas = self._replicas, None
        self.url = ""
        if finalizer is not None and finalizer.detach() and made is not None:
            made.end(wait)

    def _started(self) -> Replicas:
        if self._replicas is None:
            raise ProviderError("there is no pod", "call start() first")
        return self._replicas


def list_workloads(
    namespace: str | None = None, kubeconfig: str | None = None, context: str | None = None
) -> list[Resource]:
    """Return the workloads that envweave started. Raises `ProviderError`.

    `namespace` may be `all`; None means that of the kubeconfig.
    """
    with closing(ClusterClient(kubeconfig, context)) as client:
        where = None if namespace == "all" else namespace or client.namespace
        selector = f"envweave.owner,{manifests.WORKLOAD}"
        listed = [("Deployment", each) for each in client.list_objects("Deployment", where, selector)]
        pods = client.list_objects("Pod", where, selector)
        listed += [("Pod", each) for each in pods if not _belongs_to_deployment(each)]
    return [_resource(kind, each, kubeconfig, context) for kind, each in listed]


def _resource(kind: str, found: Mapping[str, Any], kubeconfig: str | None, context: str | None) -> Resource:
    about = found["metadata"]
    marks = about.get("labels") or {}
    # Owners on this machine can be looked up; for others only the lease counts.
    here = marks.get("envweave.world") == process_identity.machine_id()
    name, namespace = about["name"], about["namespace"]
    spec = found["spec"] if kind == "Pod" else found["spec"]["template"]["spec"]
    port = next((each["containerPort"] for each in spec["containers"][0].get("ports") or ()), 0)

    def remove() -> None:
        with closing(ClusterClient(kubeconfig, context)) as client:
            client.delete("Service", name, namespace)
            client.delete(kind, name, namespace)

    return Resource.from_labels(
        marks,
        stray=is_stray(marks) if here else manifests.has_expired(about),
        where="kubernetes",
        name=f"{namespace}/{name}",
        what=str((about.get("annotations") or {}).get(manifests.IMAGE) or spec["containers"][0].get("image") or ""),
        url=f"http://{name}.{namespace}.svc:{port}" if port else "",
        state=state_of(found) if kind == "Pod" else _ready_count(found),
        since=about["creationTimestamp"],
        remove=remove,
    )


def _belongs_to_deployment(pod: Mapping[str, Any]) -> bool:
    return any(each.get("kind") == "ReplicaSet" for each in pod["metadata"].get("ownerReferences") or ())


def _ready_count(deployment: Mapping[str, Any]) -> str:
    status = deployment.get("status") or {}
    return f"{status.get('readyReplicas') or 0} of {deployment['spec'].get('replicas') or 0} ready"
