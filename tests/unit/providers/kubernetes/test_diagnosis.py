"""Words of clusters that tests/kubernetes does not provoke; those that it does are tested there, on a real one."""

import json

from envweave.providers.kubernetes.diagnosis import (
    is_lost,
    is_ready,
    may_pass,
    node_trouble,
    refusal,
    state_of,
    trouble,
    warnings,
)


def pod(phase="Running", deleted=False, **status):
    about = {"name": "p", **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {})}
    return {"metadata": about, "spec": {"nodeName": "node1"}, "status": {"phase": phase, **status}}


def container(ready=False, **state):
    return {"name": "server", "image": "echo:1", "ready": ready, "state": state}


def condition(kind, status, **more):
    return {"type": kind, "status": status, **more}


def found(given):
    return trouble(given, waited=5, patience=10)


def answer(message, **details):
    return json.dumps({"kind": "Status", "message": message, "details": details})


def test_an_evicted_pod_says_why():
    given = pod("Failed", reason="Evicted", message="The node was low on resource: memory.")
    assert found(given).what == "was ended by the cluster (Evicted): The node was low on resource: memory."


def test_a_pod_that_ends_without_an_error_has_ended_too():
    given = pod("Succeeded", containerStatuses=[container(terminated={"exitCode": 0, "reason": "Completed"})])
    assert found(given).what == "has ended with exit code 0"


def test_a_scheduler_has_its_time():
    given = pod("Pending", conditions=[condition("PodScheduled", "False", reason="Unschedulable", message="0/3")])
    assert trouble(given, waited=9, patience=10) is None
    assert trouble(given, waited=10, patience=10).what == "finds no node: 0/3"
    assert state_of(given) == "Unschedulable: 0/3"


def test_a_server_that_is_busy_is_not_lost():
    busy = pod(conditions=[condition("Ready", "False")], containerStatuses=[container(running={})])
    lost = pod(conditions=[condition("Ready", "False")], containerStatuses=[container(ready=True, running={})])
    assert found(busy) is None
    assert state_of(busy) == "running, but not ready"
    assert not is_lost(busy)
    assert is_lost(lost)
    assert "node1" in found(lost).what


def test_a_pod_that_goes_is_not_ready_whatever_its_conditions_say():
    given = pod(deleted=True, conditions=[condition("Ready", "True")])
    assert not is_ready(given)
    assert state_of(given) == "terminating"


def test_a_pod_that_has_just_been_made_is_no_trouble():
    given = {"metadata": {"name": "p"}, "spec": {}, "status": {}}
    assert found(given) is None
    assert state_of(given) == "unknown"
    assert found(pod("Pending", containerStatuses=[container(waiting={"reason": "ContainerCreating"})])) is None


def test_an_image_of_an_init_container_can_be_missing_too():
    given = pod("Pending", initContainerStatuses=[container(waiting={"reason": "ImagePullBackOff", "message": "no"})])
    assert found(given).what == "has no image 'echo:1' (ImagePullBackOff): no"


def test_refusals_name_what_was_refused():
    said = 'pods is forbidden: User "jo" cannot create resource "pods" in API group "" in the namespace "rl"'
    assert refusal(403, answer(said), "rl")[0].startswith("jo may not create pods: ")
    assert refusal(403, answer("no", kind="pods"), "rl")[0] == "the cluster forbids it: no"
    gone = "unable to create new content in namespace rl because it is being terminated"
    assert refusal(403, answer(gone), "rl")[0] == "the namespace 'rl' is being removed"
    assert refusal(404, answer("no", kind="namespaces", name="rl"), "rl")[0] == "there is no namespace 'rl'"


def test_what_answers_need_not_be_an_api_server():
    for body in (None, "", b"<html>Bad gateway</html>", "[1]", '"x"'):
        assert refusal(502, body, "rl")[0] == "the cluster answers: HTTP 502"
    assert may_pass(502)
    assert not may_pass(403)


def test_a_node_says_what_is_wrong_with_it():
    ready = condition("Ready", "Unknown", reason="NodeStatusUnknown", message="Kubelet stopped posting node status.")
    assert node_trouble({"status": {"conditions": [ready]}}) == f"{ready['reason']}: {ready['message']}"
    assert node_trouble({"status": {"conditions": [condition("Ready", "True")]}}) == ""
    assert node_trouble({}) == "not ready: no reason given"


def test_the_last_warnings_are_shown_once_each():
    events = [{"type": "Warning", "message": message} for message in ("a", "b", "b", "c", "d")]
    assert warnings([*events, {"type": "Normal", "message": "e"}]) == "\nevent: b\nevent: c\nevent: d"


def test_a_server_that_ends_beside_one_that_does_not_has_ended():
    ended = container(terminated={"exitCode": 7, "reason": "Error"})
    given = pod(containerStatuses=[container(ready=True, running={}), ended])
    assert found(given) is None  # it will be restarted
    given["spec"]["restartPolicy"] = "Never"
    assert found(given).what == "has ended with exit code 7"
