"""What is wrong with a pod, a deployment or a request: pure functions from answers of the API server to messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Answer = Mapping[str, Any]

_NO_IMAGE = (
    *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
    *("ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"),
)
_NO_CONTAINER = (
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    *("PreCreateHookError", "PreStartHookError", "PostStartHookError"),
)
_LESS = "request less or free resources"
_TEMPORARY = (408, 429, 500, 502, 503, 504)
_FORBIDDEN = re.compile(r'User "(?P<user>.*?)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]+)"')


@dataclass(frozen=True)
class Trouble:
    """Why a server does not run and will not recover."""

    what: str
    """The end of a sentence whose subject is the pod."""
    hint: str = ""
    previous: bool = False
    """The log to show is that of the previous container."""


DELETED = Trouble("is being deleted: someone else removed it")


def trouble(pod: Answer, *, waited: float, patience: float) -> Trouble | None:
    """Return why a pod cannot run; None if it runs or still may.

    `waited` is the number of seconds since the start, `patience` how many the scheduler has.
    """
    if pod["metadata"].get("deletionTimestamp"):
        return DELETED
    status = pod.get("status") or {}
    if status.get("phase") in ("Failed", "Succeeded"):
        return _ended(status)
    if (pod.get("spec") or {}).get("restartPolicy") == "Never" and (ends := _ends(status)):
        return _end(ends[0])  # other containers of the pod may still run
    if found := _waiting(status) or _unscheduled(pod, waited, patience):
        return found
    if is_lost(pod):
        node = (pod.get("spec") or {}).get("nodeName", "")
        return Trouble(f"is lost: its node {node!r} no longer answers", "see kubectl get nodes")
    return None


def is_ready(pod: Answer) -> bool:
    """Whether the cluster sends requests to the pod."""
    return not pod["metadata"].get("deletionTimestamp") and _condition(pod, "Ready").get("status") == "True"


def is_lost(pod: Answer) -> bool:
    """Whether its node is silent: the pod is not ready, but the last report of the node says that it is."""
    containers = (pod.get("status") or {}).get("containerStatuses") or []
    reported_ready = bool(containers) and all(each.get("ready") for each in containers)
    return reported_ready and _condition(pod, "Ready").get("status") in ("False", "Unknown")


def state_of(pod: Answer) -> str:
    """Return the state of a pod in a few words."""
    status = pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp"):
        return "terminating"
    for container in status.get("containerStatuses") or []:
        state = container.get("state") or {}
        for kind in ("waiting", "terminated"):
            if reason := (state.get(kind) or {}).get("reason"):
                return str(reason)
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return f"{scheduled.get('reason') or 'not scheduled'}: {_message(scheduled)}"
    phase = str(status.get("phase") or "unknown").lower()
    return phase if phase != "running" or is_ready(pod) else "running, but not ready"


def deployment_trouble(deployment: Answer) -> Trouble | None:
    """Return why a deployment cannot create its pods, e.g. a quota."""
    failure = _condition(deployment, "ReplicaFailure")
    if failure.get("status") != "True":
        return None
    hint = _LESS if "exceeded quota" in _message(failure) else ""
    return Trouble(f"cannot create its pods: {_message(failure)}", hint)


def node_trouble(node: Answer) -> str:
    """Return why a node does not work; empty if it does."""
    ready = _condition(node, "Ready")
    return "" if ready.get("status") == "True" else f"{ready.get('reason') or 'not ready'}: {_message(ready)}"


def warnings(events: Iterable[Answer], most: int = 3) -> str:
    """Return the last warnings among events, as the end of a message."""
    found = [str(each.get("message", "")).strip() for each in events if each.get("type") == "Warning"]
    distinct = list(dict.fromkeys(filter(None, found)))
    return "".join(f"\nevent: {message}" for message in distinct[-most:])


def refusal(status: int | None, body: object, namespace: str) -> tuple[str, str]:
    """Return message and hint for a request that the API server refuses."""
    answer = _status(body)
    said = str(answer.get("message") or "").strip() or f"HTTP {status}"
    details = answer.get("details") or {}
    match status:
        case 401:
            hint = "the token or certificate has expired or is wrong: kubectl get pods should fail too"
            return "the cluster does not accept the credentials (401 Unauthorized)", hint
        case 403 if "exceeded quota" in said:
            return f"the quota of namespace {namespace!r} does not allow it: {said}", _LESS
        case 403 if "is being terminated" in said:
            return f"the namespace {namespace!r} is being removed", "use another"
        case 403:
            return _forbidden(said)
        case 404 if details.get("kind") == "namespaces":
            return f"there is no namespace {details.get('name') or namespace!r}", "kubectl create namespace makes one"
        case 409:
            return f"the name is taken: {said}", "start again: a new one is chosen each time"
        case 400:
            # After this the API server quotes the manifest, which may contain secrets.
            return f"the cluster refuses an option: {said.partition(', error found in #')[0]}", ""
        case 422:
            fields = "; ".join(f"{each.get('field')}: {each.get('message')}" for each in details.get("causes") or [])
            return f"the cluster refuses an option: {fields or said}", ""
        case _:
            return f"the cluster answers: {said}", ""


def may_pass(status: int | None) -> bool:
    """Whether a retry may succeed."""
    return status in _TEMPORARY


def _forbidden(said: str) -> tuple[str, str]:
    found = _FORBIDDEN.search(said)
    if found is None:
        return f"the cluster forbids it: {said}", "docs/kubernetes.md lists the rights that are needed"
    what = f"{found['user']} may not {found['verb']} {found['resource']}"
    return f"{what}: {said}", "docs/kubernetes/rbac.yaml grants all rights that are needed"


def _ended(status: Answer) -> Trouble:
    reason = status.get("reason")
    if reason == "DeadlineExceeded":
        return Trouble("has reached its lifetime and was ended", "lifetime=… sets a longer one")
    if reason:
        return Trouble(f"was ended by the cluster ({reason}): {_message(status)}")
    ends = _ends(status)
    return _end(ends[0]) if ends else Trouble(f"has ended ({status.get('phase')})")


def _ends(status: Answer) -> list[Answer]:
    """Return how containers ended, failures first."""
    states = [each.get("state") or {} for each in status.get("containerStatuses") or []]
    ends: list[Answer] = [state["terminated"] for state in states if state.get("terminated")]
    return sorted(ends, key=lambda end: end.get("exitCode") == 0)


def _end(terminated: Answer, *, again: bool = False) -> Trouble:
    code = terminated.get("exitCode")
    reason = terminated.get("reason")
    if reason == "OOMKilled":
        return Trouble(f"ran out of memory and was killed (exit code {code})", "memory=… sets a higher limit", again)
    message = str(terminated.get("message") or "").strip()
    kind = f" ({reason})" if reason not in (None, "Error", "Completed") else ""
    said = f": {message}" if message else ""
    return Trouble(f"{'keeps ending' if again else 'has ended'} with exit code {code}{kind}{said}", "", again)


def _waiting(status: Answer) -> Trouble | None:
    statuses = [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
    for container in statuses:
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, message = waiting.get("reason"), _message(waiting)
        if reason in _NO_IMAGE:
            hint = "is its name right, and may the node pull it? image_pull_secrets=… and image_pull_policy=… may help"
            return Trouble(f"has no image {container.get('image')!r} ({reason}): {message}", hint)
        if reason in _NO_CONTAINER:
            hint = "user=1000 sets another user, hardened=False uses the image's" if "runAsNonRoot" in message else ""
            return Trouble(f"cannot be created ({reason}): {message}", hint)
        if reason == "CrashLoopBackOff":
            return _end((container.get("lastState") or {}).get("terminated") or {}, again=True)
    return None


def _unscheduled(pod: Answer, waited: float, patience: float) -> Trouble | None:
    scheduled = _condition(pod, "PodScheduled")
    if scheduled.get("status") != "False" or scheduled.get("reason") != "Unschedulable" or waited < patience:
        return None
    hint = "request less, or raise unschedulable_after=… if the cluster is adding a node"
    return Trouble(f"finds no node: {_message(scheduled)}", hint)


def _condition(found: Answer, kind: str) -> Answer:
    """Return a condition of an object; empty if it has none of that kind."""
    conditions = (found.get("status") or {}).get("conditions") or []
    return next((each for each in conditions if each.get("type") == kind), {})


def _message(found: Answer) -> str:
    return str(found.get("message") or "").strip() or "no reason given"


def _status(body: object) -> Answer:
    """Parse the Status object of the API server; a proxy may have answered with something else."""
    try:
        text = body.decode(errors="replace") if isinstance(body, bytes | bytearray) else str(body or "")
        read = json.loads(text)
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}
