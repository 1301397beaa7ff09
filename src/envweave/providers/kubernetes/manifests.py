"""What the API server is sent: pure functions from options to plain data."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from envweave.providers.base import HEALTH
from envweave.providers.kubernetes.workload import WorkloadOptions, identity, size_of, tmpfs_size

Manifest = dict[str, Any]

WORKLOAD = "envweave.workload"
"""The label that pods, service and deployment of one start share; its value is their name."""
EXPIRES = "envweave.expires"
"""The annotation that says until when the owner has given a sign of life."""
IMAGE = "envweave.image"
CONTAINER = "server"
_SMALL = {"cpu": "50m", "memory": "64Mi"}
"""What is set aside for a server of which nobody says what it takes: with nothing it would be the first to go."""


def pod(
    name: str, options: WorkloadOptions, labels: Mapping[str, str], expires: str, owners: Sequence[Manifest] = ()
) -> Manifest:
    """A bare pod, never restarted: a crash in the midst of an episode is seen as one."""
    spec = pod_spec(options, restart="Never")
    if options.lifetime is not None:
        spec.setdefault("activeDeadlineSeconds", max(1, round(options.lifetime)))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, options, labels, expires, owners),
        "spec": spec,
    }


def deployment(
    name: str, options: WorkloadOptions, labels: Mapping[str, str], expires: str, owners: Sequence[Manifest] = ()
) -> Manifest:
    """As many pods as asked for, each replaced when it ends."""
    about = metadata(name, options, labels, expires, owners)
    template = {"labels": about["labels"], "annotations": {**options.annotations}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": about,
        "spec": {
            "replicas": options.replicas,
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": {WORKLOAD: name}},
            "template": {"metadata": template, "spec": pod_spec(options, restart="Always")},
        },
    }


def service(
    name: str, options: WorkloadOptions, labels: Mapping[str, str], expires: str, owners: Sequence[Manifest] = ()
) -> Manifest:
    """One address for all pods of the name; a client stays with one of them."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(name, options, labels, expires, owners),
        "spec": {
            "type": "ClusterIP",
            "selector": {WORKLOAD: name},
            "sessionAffinity": "ClientIP",
            "ports": [{"name": "http", "port": options.port, "targetPort": options.port, "protocol": "TCP"}],
        },
    }


def metadata(
    name: str, options: WorkloadOptions, labels: Mapping[str, str], expires: str, owners: Sequence[Manifest]
) -> Manifest:
    about: Manifest = {
        "name": name,
        "labels": {**options.labels, **labels, WORKLOAD: name},
        "annotations": {**options.annotations, EXPIRES: expires, IMAGE: options.image},
    }
    if owners:
        about["ownerReferences"] = list(owners)
    return about


def owner(manifest: Mapping[str, Any]) -> Manifest:
    """A reference to something that exists: what carries it is removed along with it."""
    return {
        "apiVersion": manifest.get("apiVersion") or "v1",
        "kind": manifest["kind"],
        "name": manifest["metadata"]["name"],
        "uid": manifest["metadata"]["uid"],
    }


def pod_spec(options: WorkloadOptions, *, restart: str) -> Manifest:
    container: Manifest = {
        "name": CONTAINER,
        "image": options.image,
        "imagePullPolicy": options.image_pull_policy,
        "args": None if options.command is None else list(options.command),  # Docker's word for it is another
        "env": [{"name": name, "value": str(value)} for name, value in options.env_vars.items()],
        "ports": [{"name": "http", "containerPort": options.port, "protocol": "TCP"}],
        "resources": resources(options),
        # A server that is busy for a moment stays in the service: three answers in a row have to be missing.
        "readinessProbe": {
            "httpGet": {"path": HEALTH, "port": options.port},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "securityContext": security(options),
        "volumeMounts": [{"name": f"tmpfs-{n}", "mountPath": path} for n, path in enumerate(options.tmpfs)],
    }
    spec: Manifest = {
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": grace(options),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,  # the addresses of others' services are no business of an environment
        "serviceAccountName": options.service_account,
        "imagePullSecrets": [{"name": name} for name in options.image_pull_secrets],
        "nodeSelector": dict(options.node_selector),
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}} if options.hardened else {},
        "volumes": [
            {"name": f"tmpfs-{n}", "emptyDir": {"medium": "Memory", **_limit(tmpfs_size(given))}}
            for n, given in enumerate(options.tmpfs.values())
        ],
        "containers": [_without_empty(container)],
    }
    merged: Manifest = laid_over(_without_empty(spec), options.extra)
    return merged


def grace(options: WorkloadOptions) -> int:
    """The seconds that a pod has to end, which Kubernetes counts in whole ones."""
    return int(-(-options.stop_timeout // 1))


def resources(options: WorkloadOptions) -> Manifest:
    limits = {name: str(value) for name, value in options.limits.items()}
    if options.memory is not None:
        limits["memory"] = size_of(options.memory)
    if options.cpus is not None:
        limits["cpu"] = f"{round(options.cpus * 1000)}m"
    small = {name: value for name, value in _SMALL.items() if name not in limits}
    return _without_empty({"requests": {**small, **options.requests}, "limits": limits})


def security(options: WorkloadOptions) -> Manifest:
    user, group = identity(options.user)
    chosen: Manifest = {"runAsUser": user, "runAsGroup": group, "readOnlyRootFilesystem": options.read_only or None}
    if options.hardened:
        chosen["runAsNonRoot"] = user != 0
        chosen["allowPrivilegeEscalation"] = False
        chosen["capabilities"] = {"drop": ["ALL"]}
    return {name: value for name, value in chosen.items() if value is not None}


def laid_over(under: Any, over: Any) -> Any:
    """`over` wins; dicts are merged, and so are lists whose items have names."""
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        merged = {name: laid_over(value, over[name]) if name in over else value for name, value in under.items()}
        return merged | {name: copy.deepcopy(value) for name, value in over.items() if name not in under}
    if _is_named(under) and _is_named(over):
        named = {item["name"]: item for item in over}
        kept = [laid_over(item, named.pop(item["name"], {})) for item in under]
        return kept + [copy.deepcopy(item) for item in named.values()]
    return copy.deepcopy(over)


def _is_named(items: Any) -> bool:
    return isinstance(items, list | tuple) and all(isinstance(item, Mapping) and "name" in item for item in items)


def _limit(size: str) -> Manifest:
    return {"sizeLimit": size} if size else {}


def _without_empty(manifest: Manifest) -> Manifest:
    return {name: value for name, value in manifest.items() if value not in (None, "", [], {})}


def expiry(lease: float, now: datetime | None = None) -> str:
    """The moment at which a lease that is renewed now ends, in ISO's form."""
    return ((now or datetime.now(UTC)) + timedelta(seconds=lease)).isoformat(timespec="seconds")


def has_expired(about: Mapping[str, Any], now: datetime | None = None) -> bool:
    """By the metadata of something: its owner has given no sign of life for as long as its lease is."""
    try:
        until = datetime.fromisoformat((about.get("annotations") or {})[EXPIRES])
    except (KeyError, ValueError):
        return False  # not ours to judge
    return until.tzinfo is not None and until < (now or datetime.now(UTC))
