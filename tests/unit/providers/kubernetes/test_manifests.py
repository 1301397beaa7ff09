"""Every manifest that we send fits the schemas of clusters much newer than the one that the other tests run on."""

import itertools
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from envweave.errors import UsageError
from envweave.providers.base import labels
from envweave.providers.kubernetes import manifests
from envweave.providers.kubernetes.workload import WorkloadOptions, size_of

VERSIONS = ("1.28", kubernetes_validate.latest_version())
RBAC = Path(__file__).parents[4] / "docs" / "kubernetes" / "rbac.yaml"
NAME = "envweave-1-abc"
EXPIRES = "2026-01-01T00:00:00+00:00"
OWNER = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine", "uid": "0a"}}

COMBINED = [
    {"memory": "512m"},
    {"cpus": 0.5},
    {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi", "example.com/gpu": "1"}},
    {"command": ["envweave", "serve", "echo"], "env_vars": {"A": "1", "B": ""}},
    {"user": "1000:1000", "read_only": True, "tmpfs": {"/tmp": "size=64m", "/run": ""}},
    {"user": 0},
    {"hardened": False},
    {"image_pull_policy": "Always", "image_pull_secrets": ["registry"], "service_account": "runner"},
    {"node_selector": {"pool": "cpu"}, "labels": {"team": "rl"}, "annotations": {"note": "x"}},
    {"extra": {"tolerations": [{"key": "gpu", "operator": "Exists"}], "priorityClassName": "low"}},
    {"extra": {"containers": [{"name": "server", "envFrom": [{"secretRef": {"name": "keys"}}]}]}},
]
PAIRS = [{}, *COMBINED, *({**a, **b} for a, b in itertools.combinations(COMBINED, 2))]


def made(**options):
    return WorkloadOptions.chosen({"image": "registry.example/echo:1", **options})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("make", [manifests.pod, manifests.deployment, manifests.service])
def test_manifests_of_all_options_are_valid(make, version):
    for number, options in enumerate(PAIRS):
        owners = [manifests.owner(OWNER)] if number % 2 else []
        chosen = made(**options, replicas=1 if make is manifests.pod else 3)
        chosen.check()
        kubernetes_validate.validate(make(NAME, chosen, labels(), EXPIRES, owners), version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_lifetime_is_valid(version):
    written = manifests.pod(NAME, made(lifetime=0.4), labels(), EXPIRES)
    kubernetes_validate.validate(written, version, strict=True)
    assert written["spec"]["activeDeadlineSeconds"] == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_the_rights_that_are_documented_are_valid(version):
    documents = list(yaml.safe_load_all(RBAC.read_text()))
    assert [document["kind"] for document in documents] == ["ServiceAccount", "Role", "RoleBinding"]
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)


def test_the_validator_would_see_a_field_that_there_is_not():
    written = manifests.pod(NAME, made(extra={"containerz": []}), labels(), EXPIRES)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(written, VERSIONS[1], strict=True)


def test_labels_have_the_form_of_kubernetes():
    written = manifests.pod(NAME, made(), labels(), EXPIRES)["metadata"]["labels"]
    form = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
    assert {"envweave.kind", "envweave.owner", "envweave.world", manifests.WORKLOAD} <= written.keys()
    assert all(form.fullmatch(word) for pair in written.items() for word in pair)


def test_labels_of_ours_win():
    written = manifests.pod(NAME, made(labels={"envweave.owner": "me", "team": "rl"}), labels(), EXPIRES)
    assert written["metadata"]["labels"]["envweave.owner"] == labels()["envweave.owner"]
    assert written["metadata"]["labels"]["team"] == "rl"


def test_one_pod_is_never_restarted_and_several_are():
    assert manifests.pod(NAME, made(), {}, EXPIRES)["spec"]["restartPolicy"] == "Never"
    template = manifests.deployment(NAME, made(replicas=2), {}, EXPIRES)["spec"]["template"]
    assert template["spec"]["restartPolicy"] == "Always"
    assert manifests.EXPIRES not in template["metadata"]["annotations"]  # a renewal would replace all pods


def test_a_pod_is_hardened_unless_told_otherwise():
    spec = manifests.pod(NAME, made(), {}, EXPIRES)["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["containers"][0]["securityContext"] == {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    soft = manifests.pod(NAME, made(hardened=False), {}, EXPIRES)["spec"]
    assert "securityContext" not in soft
    assert "securityContext" not in soft["containers"][0]


def test_extra_is_laid_over_the_pod_by_the_names_of_items():
    extra = {
        "automountServiceAccountToken": True,
        "containers": [{"name": "server", "securityContext": {"runAsUser": 7}}, {"name": "beside", "image": "x"}],
    }
    spec = manifests.pod(NAME, made(extra=extra), {}, EXPIRES)["spec"]
    first, second = spec["containers"]
    assert first["securityContext"] == {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsUser": 7,
    }
    assert first["image"] == "registry.example/echo:1"
    assert second == {"name": "beside", "image": "x"}
    assert spec["automountServiceAccountToken"] is True


def test_memory_is_written_as_docker_writes_it():
    written = manifests.pod(NAME, made(memory="512m", cpus=1.5), {}, EXPIRES)
    found = written["spec"]["containers"][0]["resources"]
    assert found == {"limits": {"memory": "512Mi", "cpu": "1500m"}}
    assert [size_of(given) for given in (4096, "2g", "64k", "10b", "1Gi", "3MB")] == [
        *("4096", "2Gi", "64Ki", "10", "1Gi", "3Mi")
    ]


def test_something_is_set_aside_for_a_server_of_which_nothing_is_said():
    found = manifests.pod(NAME, made(memory="32m"), {}, EXPIRES)["spec"]["containers"][0]["resources"]
    assert found == {"requests": {"cpu": "50m"}, "limits": {"memory": "32Mi"}}


def test_a_lease_ends_when_nobody_renews_it():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    about = {"annotations": {manifests.EXPIRES: manifests.expiry(60, now)}}
    assert not manifests.has_expired(about, now + timedelta(seconds=59))
    assert manifests.has_expired(about, now + timedelta(seconds=61))
    assert not manifests.has_expired({"annotations": {manifests.EXPIRES: "soon"}}, now)
    assert not manifests.has_expired({}, now)


def test_what_is_secret_is_not_shown():
    assert "hunter2" not in repr(made(env_vars={"TOKEN": "hunter2"}, extra={"x": "hunter2"}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image": ""}, "no image is named"),
        ({"replicas": 0}, "replicas: input should be greater than 0, got 0"),
        ({"replicas": True}, "replicas: input should be a valid integer, got True"),
        ({"reach": "ingress"}, "reach: input should be 'auto', .* got 'ingress'"),
        ({"image_pull_policy": "sometimes"}, "image_pull_policy: input should be 'Always', .* got 'sometimes'"),
        ({"memory": "much"}, "'much' is not a size of memory"),
        ({"memory": 0}, "'?0'? is not a size of memory"),
        ({"user": "agent"}, "the user is 'agent'"),
        ({"command": "envweave serve"}, "command: 'str' instances are not allowed"),
        ({"lifetime": 60, "replicas": 2}, "a lifetime is for one replica only"),
        ({"lifetime": -1}, "lifetime: input should be greater than 0, got -1"),
        ({"env_vars": ["A=1"]}, "env_vars: input should be a valid dictionary$"),
        ({"tmpfs": {"/tmp": "sise=1m"}}, "no option 'sise=1m'"),
    ],
)
def test_what_could_not_work_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        made(**options).check()


def test_an_option_that_there_is_not_is_answered_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean 'replicas'"):
        made(replica=2)
