"""A server in a pod of a Kubernetes cluster, or several of them, reached from inside the cluster or from anywhere."""

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
from envweave.providers.base import LAST_LINES, READY_TIMEOUT, Provider, health, is_stray, shown, wait_until
from envweave.providers.kubernetes import manifests
from envweave.providers.kubernetes.cluster import ClusterError, Connection, connected
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
from envweave.providers.started import Started

_NODE_PATIENCE = 5.0
"""Seconds after which we ask what is wrong with the node of a pod that does not begin."""


class KubernetesProvider(Provider):
    """One pod, or with `replicas` a deployment of several, and a service before them.

        with running(KubernetesProvider("registry.example/echo-env:1", memory="512m")) as url: ...

    Options are those of `WorkloadOptions`. The cluster is the one that `kubeconfig`, `KUBECONFIG`, the account of the
    pod that we are in, or `~/.kube/config` names, in this order. `urls` has one for each pod: a session belongs to one
    of them, and so do its reconnects.
    """

    kind: ClassVar[str] = "kubernetes"

    def __init__(self, image: str = "", **options: Any) -> None:
        self.options = WorkloadOptions.chosen({"image": image, **options})
        self._replicas: Replicas | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._was_ready = False
        self._waiting = False
        self._sees_nodes = True

    def start(self, image: str = "", **options: Any) -> str:
        if self._replicas is not None:
            raise UsageError(f"{self.name} has started already", "stop() it first, or use another provider")
        given = {"image": image, **options} if image else options
        chosen = self.options = WorkloadOptions.chosen(given, self.options)
        chosen.check()
        connection = Connection(chosen.kubeconfig, chosen.context)
        name = f"envweave-{os.getpid()}-{secrets.token_hex(6)}"
        made = self._replicas = Replicas(connection, name, chosen, os.getpid())
        self._finalizer = weakref.finalize(self, made.end)
        self._was_ready = False
        try:
            made.create()
            if made.reach == "pod":  # its address is not known before it has one
                self._wait(lambda: "" if made.pods() and made.urls else "no pod has an address", READY_TIMEOUT)
        except BaseException:
            self.stop()
            raise
        self.url = made.url
        return self.url

    @property
    def name(self) -> str:
        """What the pod or deployment, and its service, are called; empty where there are none."""
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
        """One for each pod. By `port-forward` they stay the same; those of pods are as the last `check` saw them."""
        return self._replicas.urls if self._replicas and self.url else ()

    def wait_for_ready(self, timeout: float | str = READY_TIMEOUT, timeout_s: float | None = None) -> None:
        limit = timeout_s if timeout_s is not None else READY_TIMEOUT if isinstance(timeout, str) else timeout
        if not self.url:
            raise UsageError("there is no server to wait for", "call start() first")
        self._wait(self._healthy, limit)
        self._was_ready = True

    def _wait(self, state: Callable[[], str], seconds: float) -> None:
        """An API server that has no time for a moment is no reason to give up."""

        def asked() -> str:
            try:
                return state()
            except ClusterError as error:
                if not error.passing:
                    raise
                return error.message

        self._waiting = True
        try:
            wait_until(asked, seconds, self._go_on, self._never_healthy)
        finally:
            self._waiting = False

    def _healthy(self) -> str:
        made = self._started()
        pods = made.pods()
        ready = [pod for pod in pods if is_ready(pod)]
        if len(ready) < self.options.replicas:
            states = ", ".join(state_of(pod) for pod in pods if not is_ready(pod)) or "there is no pod yet"
            return f"{len(ready)} of {self.options.replicas} pods are ready ({states})"
        self.url = made.url
        wanted = dict.fromkeys((made.url, *made.urls))
        found = next((state for state in map(health, wanted) if state), "")
        return f"{found} ({made.forwarding_trouble})" if found and made.forwarding_trouble else found

    def _never_healthy(self, state: str, seconds: float) -> ProviderError:
        made = self._started()
        told = ""
        with suppress(ProviderError):  # not everybody may read events
            for pod in made.pods():
                told += warnings(made.connection.events(pod["metadata"]["name"], made.namespace))
        return ProviderError(
            f"no healthy server in {made.namespace}/{made.name} within {seconds:g} s: {state}{told}{self.last_words()}",
            "does it listen on all addresses and answer /health? a longer timeout may help on a busy cluster",
        )

    def check(self) -> None:
        made = self._started()
        try:
            pods = made.pods()
            found = self._pod_trouble(made, pods) if made.kind == "Pod" else self._deployment_trouble(made, pods)
        except ClusterError as error:
            if error.passing and not self._waiting:
                raise ProviderUnreachableError(error.message, error.hint) from error
            if error.passing:
                return
            raise
        if self.url and made.reach == "pod":
            self.url = made.url or self.url
        if found is None:
            return
        pod, what = found
        log = ""
        if pod:
            with suppress(ProviderError):
                log = made.connection.log(pod, made.namespace, manifests.CONTAINER, LAST_LINES, previous=what.previous)
        words = shown(log) if log or "exit code" in what.what else ""
        raise ProviderError(f"the {made.kind.lower()} of {self.options.image} {what.what}{words}", what.hint)

    def _pod_trouble(self, made: Replicas, pods: list[dict[str, Any]]) -> tuple[str, Trouble] | None:
        if not pods:
            return "", Trouble("is gone: somebody removed it")
        return self._trouble(made, pods[0])

    def _deployment_trouble(self, made: Replicas, pods: list[dict[str, Any]]) -> tuple[str, Trouble] | None:
        """Once all were ready one that ends is replaced, which is no trouble while another is ready."""
        try:
            deployment = made.connection.read("Deployment", made.name, made.namespace)
        except ClusterError as error:
            if error.gone:
                return "", Trouble("is gone: somebody removed it")
            raise
        if deployment["metadata"].get("deletionTimestamp"):
            return "", Trouble("is being deleted: somebody removed it")
        if self._was_ready and any(is_ready(pod) for pod in pods):
            return None
        if found := deployment_trouble(deployment):
            return "", found
        current = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        return next(filter(None, (self._trouble(made, pod) for pod in current)), None)

    def _trouble(self, made: Replicas, pod: dict[str, Any]) -> tuple[str, Trouble] | None:
        waited = time.monotonic() - made.began
        name = pod["metadata"]["name"]
        found = trouble(pod, waited=waited, patience=self.options.unschedulable_after)
        if found is None and not is_ready(pod) and waited > _NODE_PATIENCE:
            found = self._node_trouble(made, str(pod["spec"].get("nodeName") or ""))
        return None if found is None else (name, found)

    def _node_trouble(self, made: Replicas, node: str) -> Trouble | None:
        if not node or not self._sees_nodes:
            return None
        try:
            said = node_trouble(made.connection.node(node))
        except ClusterError as error:
            self._sees_nodes = error.passing or error.gone
            return Trouble(f"is lost: its node {node!r} is gone") if error.gone else None
        return Trouble(f"is lost: its node {node!r} does not work: {said}") if said else None

    def logs(self, tail: int | None = None) -> str:
        made = self._replicas
        texts: dict[str, str] = {}
        with suppress(ProviderError):
            for pod in made.pods() if made is not None else ():
                name = pod["metadata"]["name"]
                with suppress(ProviderError):  # one that waits has no log yet
                    texts[name] = self._started().connection.log(name, self.namespace, manifests.CONTAINER, tail)
        if len(texts) < 2:
            return "".join(texts.values())
        return "".join(f"{name}:\n{text}" for name, text in texts.items())

    def stop(self, *, wait: float = 0.0) -> None:
        """The cluster is told and left to it; `wait` is for how many seconds to see it done, at most."""
        finalizer, self._finalizer = self._finalizer, None
        made, self._replicas = self._replicas, None
        self.url = ""
        if finalizer is not None and finalizer.detach() and made is not None:
            made.end(wait)

    def _started(self) -> Replicas:
        if self._replicas is None:
            raise ProviderError("there is no pod", "call start() first")
        return self._replicas


def found(namespace: str | None = None, kubeconfig: str | None = None, context: str | None = None) -> list[Started]:
    """All that envweave has started in a namespace, None being one's own, or in `all`. Raises `ProviderError`."""
    with connected(kubeconfig, context) as connection:
        where = None if namespace == "all" else namespace or connection.namespace
        chosen = f"envweave.owner,{manifests.WORKLOAD}"
        deployments = connection.everything("Deployment", where, chosen)
        pods = [pod for pod in connection.everything("Pod", where, chosen) if not _is_replica(pod)]
    listed = [("Deployment", each) for each in deployments] + [("Pod", each) for each in pods]
    return [_entry(kind, each, kubeconfig, context) for kind, each in listed]


def _entry(kind: str, thing: Mapping[str, Any], kubeconfig: str | None, context: str | None) -> Started:
    about = thing["metadata"]
    marked = about.get("labels") or {}
    # A process of our own world can be looked at; of any other, only its lease tells.
    here = marked.get("envweave.world") == process_identity.machine_id()
    name, namespace = about["name"], about["namespace"]
    spec = thing["spec"] if kind == "Pod" else thing["spec"]["template"]["spec"]
    port = next((each["containerPort"] for each in spec["containers"][0].get("ports") or ()), 0)

    def remove() -> None:
        with connected(kubeconfig, context) as connection:
            connection.delete("Service", name, namespace)
            connection.delete(kind, name, namespace)

    return Started.labelled(
        marked,
        stray=is_stray(marked) if here else manifests.has_expired(about),
        where="kubernetes",
        name=f"{namespace}/{name}",
        what=str((about.get("annotations") or {}).get(manifests.IMAGE) or spec["containers"][0].get("image") or ""),
        url=f"http://{name}.{namespace}.svc:{port}" if port else "",
        state=state_of(thing) if kind == "Pod" else _counted(thing),
        since=about["creationTimestamp"],
        remove=remove,
    )


def _is_replica(pod: Mapping[str, Any]) -> bool:
    return any(each.get("kind") == "ReplicaSet" for each in pod["metadata"].get("ownerReferences") or ())


def _counted(deployment: Mapping[str, Any]) -> str:
    status = deployment.get("status") or {}
    return f"{status.get('readyReplicas') or 0} of {deployment['spec'].get('replicas') or 0} ready"
