"""A server in a pod of a Kubernetes cluster, or several, reached from inside the cluster or through its API server."""

from __future__ import annotations

import os
import secrets
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from envweave.core import process_identity
from envweave.errors import ProviderError, ProviderUnreachableError, UsageError
from envweave.providers.base import LOG_TAIL, READY_TIMEOUT, Provider, format_log, health, is_stray, wait_until
from envweave.providers.kubernetes import manifests
from envweave.providers.kubernetes.cluster import ClusterClient, ClusterError, cluster_client
from envweave.providers.kubernetes.diagnosis import (
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


class KubernetesProvider(Provider):
    """One pod, or with `replicas` a deployment of several, and a service in front of them.

        with running(KubernetesProvider("registry.example/echo-env:1", memory="512m")) as url: ...

    Options are those of `WorkloadOptions`. The cluster is that of `kubeconfig`, `KUBECONFIG`, the service account of
    this pod, or `~/.kube/config`, in this order. `urls` has one URL per pod; a session stays with its pod.
    """

    kind: ClassVar[str] = "kubernetes"

    def __init__(self, image: str = "", **options: Any) -> None:
        self.options = WorkloadOptions.chosen({"image": image, **options})
        self._replicas: Replicas | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._was_ready = False
        self._waiting = False
        self._may_read_nodes = True

    def start(self, image: str = "", **options: Any) -> str:
        if self._replicas is not None:
            raise UsageError(f"{self.name} has started already", "stop() it first, or use another provider")
        given = {"image": image, **options} if image else options
        chosen = self.options = WorkloadOptions.chosen(given, self.options)
        chosen.check()
        client = ClusterClient(chosen.kubeconfig, chosen.context)
        made = self._replicas = Replicas(client, f"envweave-{os.getpid()}-{secrets.token_hex(6)}", chosen)
        self._finalizer = weakref.finalize(self, made.end)
        self._was_ready = False
        try:
            made.create()
            if made.reach == "pod":  # its address is not known before it is scheduled
                self._wait(lambda: "" if made.pods() and made.urls else "no pod has an address", READY_TIMEOUT)
        except BaseException:
            self.stop()
            raise
        self.url = made.url
        return self.url

    @property
    def name(self) -> str:
        """Name of the pod or deployment and of its service; empty if there is none."""
        return self._replicas.name if self._replicas else ""

    @property
    def namespace(self) -> str:
        return self._replicas.namespace if self._replicas else self.options.namespace

    @property
    def ready_timeout(self) -> float:  # type: ignore[override]
        return self.options.ready_timeout

    @property
    def env_vars(self) -> Mapping[str, str]:
        return self.options.env_vars

    @property
    def servers(self) -> int:
        return self.options.replicas

    @property
    def urls(self) -> tuple[str, ...]:
        """One URL per pod. Those of `port-forward` stay the same; addresses of pods are as of the last `check`."""
        return self._replicas.urls if self._replicas and self.url else ()

    def _wait_until_healthy(self, seconds: float) -> None:
        self._wait(self._health, seconds)
        self._was_ready = True

    def _wait(self, problem: Callable[[], str], seconds: float) -> None:
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
            wait_until(found, seconds, self._check_while_waiting, self._unhealthy_error)
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
            found = self._pod_trouble(made, pods) if made.kind == "Pod" else self._deployment_trouble(made, pods)
        except ClusterError as error:
            if not error.temporary:
                raise
            if self._waiting:
                return
            raise ProviderUnreachableError(error.message, error.hint) from error
        if self.url and made.reach == "pod":
            self.url = made.url or self.url
        if found is None:
            return
        pod, what = found
        log = ""
        if pod:
            with suppress(ProviderError):
                log = made.client.log(pod, made.namespace, manifests.CONTAINER, LOG_TAIL, previous=what.previous)
        shown = format_log(log) if log or "exit code" in what.what else ""
        raise ProviderError(f"the {made.kind.lower()} of {self.options.image} {what.what}{shown}", what.hint)

    def _pod_trouble(self, made: Replicas, pods: list[dict[str, Any]]) -> tuple[str, Trouble] | None:
        return self._trouble(made, pods[0]) if pods else ("", _REMOVED)

    def _deployment_trouble(self, made: Replicas, pods: list[dict[str, Any]]) -> tuple[str, Trouble] | None:
        """Once all pods were ready, it is enough that one is: the deployment replaces the others."""
        try:
            deployment = made.client.read("Deployment", made.name, made.namespace)
        except ClusterError as error:
            if error.gone:
                return "", _REMOVED
            raise
        if deployment["metadata"].get("deletionTimestamp"):
            return "", Trouble("is being deleted: someone else removed it")
        if self._was_ready and any(is_ready(pod) for pod in pods):
            return None
        if found := deployment_trouble(deployment):
            return "", found
        current = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        return next(filter(None, (self._trouble(made, pod) for pod in current)), None)

    def _trouble(self, made: Replicas, pod: dict[str, Any]) -> tuple[str, Trouble] | None:
        waited = time.monotonic() - made.began
        found = trouble(pod, waited=waited, patience=self.options.unschedulable_after)
        if found is None and not is_ready(pod) and waited > _NODE_CHECK_AFTER:
            found = self._node_trouble(made, str(pod["spec"].get("nodeName") or ""))
        return None if found is None else (pod["metadata"]["name"], found)

    def _node_trouble(self, made: Replicas, node: str) -> Trouble | None:
        if not node or not self._may_read_nodes:
            return None
        try:
            problem = node_trouble(made.client.node(node))
        except ClusterError as error:
            self._may_read_nodes = error.temporary or error.gone
            return Trouble(f"is lost: its node {node!r} is gone") if error.gone else None
        return Trouble(f"is lost: its node {node!r} does not work: {problem}") if problem else None

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
    with cluster_client(kubeconfig, context) as client:
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
        with cluster_client(kubeconfig, context) as client:
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
