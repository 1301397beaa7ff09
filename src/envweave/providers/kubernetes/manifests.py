"""Objects of Kubernetes: pure functions from options to plain data."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from envweave.providers.base import HEALTH
from envweave.providers.kubernetes.workload import WorkloadOptions, size_of, tmpfs_size, user_and_group

Manifest = dict[str, Any]

WORKLOAD = "envweave.workload"
"""Label that pods, service and deployment of one start share; its value is their name."""
EXPIRES = "envweave.expires"
"""Annotation with the time at which the lease of the owner ends."""
IMAGE = "envweave.image"
CONTAINER = "server"
_SMALL = {"cpu": "50m", "memory": "64Mi"}
"""Requests of a server without given ones; pods without requests are evicted first."""


def pod(name: str, options: WorkloadOptions, *about: Any) -> Manifest:
    """A bare pod, never restarted, so that a crash during an episode is noticed. `about` is for `metadata`."""
    spec = pod_spec(options, restart="Never")
    if options.lifetime is not None:
        spec.setdefault("activeDeadlineSeconds", max(1, round(options.lifetime)))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name, options, *about), "spec": spec}


def deployment(name: str, options: WorkloadOptions, *about: Any) -> Manifest:
    """A deployment, which replaces pods that end. `about` is for `metadata`."""
    described = metadata(name, options, *about)
    template = {"labels": described["labels"], "annotations": {**options.annotations}}
    spec = {
        "replicas": options.replicas,
        "revisionHistoryLimit": 0,
        "selector": {"matchLabels": {WORKLOAD: name}},
        "template": {"metadata": template, "spec": pod_spec(options, restart="Always")},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": described, "spec": spec}


def service(name: str, options: WorkloadOptions, *about: Any) -> Manifest:
    """One address for all pods; each client stays with one of them. `about` is for `metadata`."""
    spec = {
        "type": "ClusterIP",
        "selector": {WORKLOAD: name},
        "sessionAffinity": "ClientIP",
        "ports": [{"name": "http", "port": options.port, "targetPort": options.port, "protocol": "TCP"}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(name, options, *about), "spec": spec}


def metadata(
    name: str, options: WorkloadOptions, labels: Mapping[str, str], expires: str, owners: Sequence[Manifest] = ()
) -> Manifest:
    described: Manifest = {
        "name": name,
        "labels": {**options.labels, **labels, WORKLOAD: name},
        "annotations": {**options.annotations, EXPIRES: expires, IMAGE: options.image},
    }
    return {**described, "ownerReferences": list(owners)} if owners else described


def owner(manifest: Mapping[str, Any]) -> Manifest:
    """A reference to an existing object; objects that carry it are deleted with it."""
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
        "args": None if options.command is None else list(options.command),  # Docker's `command`
        "env": [{"name": name, "value": str(value)} for name, value in options.env_vars.items()],
        "ports": [{"name": "http", "containerPort": options.port, "protocol": "TCP"}],
        "resources": resources(options),
        # Three failures in a row, so that a busy server stays in the service.
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
        "enableServiceLinks": False,  # do not tell environments about other services
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
    found: Manifest = merged(_without_empty(spec), options.extra)
    return found


def grace(options: WorkloadOptions) -> int:
    """Whole seconds between SIGTERM and SIGKILL."""
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
    user, group = user_and_group(options.user)
    chosen: Manifest = {"runAsUser": user, "runAsGroup": group, "readOnlyRootFilesystem": options.read_only or None}
    if options.hardened:
        chosen["runAsNonRoot"] = user != 0
        chosen["allowPrivilegeEscalation"] = False
        chosen["capabilities"] = {"drop": ["ALL"]}
    return {name: value for name, value in chosen.items() if value is not None}


def merged(under: Any, over: Any) -> Any:
    """`over` wins; dicts are merged, and so are lists whose items have names."""
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        both = {name: merged(value, over[name]) if name in over else value for name, value in under.items()}
        return both | {name: copy.deepcopy(value) for name, value in over.items() if name not in under}
    if _is_named(under) and _is_named(over):
        named = {item["name"]: item for item in over}
        kept = [merged(item, named.pop(item["name"], {})) for item in under]
        return kept + [copy.deepcopy(item) for item in named.values()]
    return copy.deepcopy(over)


def _is_named(items: Any) -> bool:
    return isinstance(items, list | tuple) and all(isinstance(item, Mapping) and "name" in item for item in items)


def _limit(size: str) -> Manifest:
    return {"sizeLimit": size} if size else {}


def _without_empty(manifest: Manifest) -> Manifest:
    return {name: value for name, value in manifest.items() if value not in (None, "", [], {})}


def expiry(lease: float, now: datetime | None = None) -> str:
    """The time at which a lease that is renewed now ends, in ISO 8601."""
    return ((now or datetime.now(UTC)) + timedelta(seconds=lease)).isoformat(timespec="seconds")


def has_expired(about: Mapping[str, Any], now: datetime | None = None) -> bool:
    """Whether the lease in the metadata of an object has ended."""
    try:
        until = datetime.fromisoformat((about.get("annotations") or {})[EXPIRES])
    except (KeyError, ValueError):
        return False  # not one of our objects
    return until.tzinfo is not None and until < (now or datetime.now(UTC))
