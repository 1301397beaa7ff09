"""A provider for Kubernetes and an API server that keeps objects and starts nothing: every pod is ready at once."""

import json
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from envweave.errors import ProviderError, ProviderUnreachableError
from support.until import until

pytest.importorskip("kubernetes")

from envweave.providers import KubernetesProvider
from envweave.providers.kubernetes import list_workloads

CREATED = "2026-01-01T00:00:00Z"
READY = {
    "phase": "Running",
    "podIP": "127.0.0.1",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [{"ready": True, "state": {"running": {}}}],
}


class ApiServer(ThreadingHTTPServer):
    """Objects by path, requests in their order, and answers that replace the usual ones by a pattern of requests."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects, self.requests, self.answers = {}, [], {}

    def names(self, kind):
        return [path.rpartition("/")[2] for path in self.objects if f"/{kind}/" in path]

    def asked(self, *methods):
        return [request for request in self.requests if request.split()[0] in methods]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path, query = urlsplit(self.path)[2], parse_qs(urlsplit(self.path).query)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.requests.append(f"{self.command} {path}")
        replaced = [answer for pattern, answer in self.server.answers.items() if re.search(pattern, self.requestline)]
        if path == "/health":
            self.answer(200, {})
        elif replaced:
            self.answer(*replaced[0])
        elif self.command == "POST":
            self.answer(201, self.create(path, json.loads(body)))
        elif path.endswith("/log"):
            self.answer(200, "a line\n")
        elif path.endswith(("/pods", "/deployments")):
            kind, selector = path.rpartition("/")[2], query["labelSelector"][0].partition("=")
            found = [each for where, each in self.server.objects.items() if f"/{kind}/" in where]
            self.answer(200, {"items": [each for each in found if self.selected(each, *selector)]})
        elif path not in self.server.objects:
            self.answer(404, {"message": "not found"})
        elif self.command == "DELETE":
            self.answer(200, self.server.objects.pop(path))
        else:
            self.answer(200, self.server.objects[path])

    do_POST = do_PATCH = do_DELETE = do_GET

    def create(self, path, manifest):
        about = manifest["metadata"]
        about |= {"uid": "1", "namespace": path.split("/")[-2], "creationTimestamp": CREATED}
        self.server.objects[f"{path}/{about['name']}"] = manifest
        manifest["status"] = READY if manifest["kind"] == "Pod" else {"readyReplicas": 2}
        if manifest["kind"] == "Deployment":
            for number in range(manifest["spec"]["replicas"]):
                pod = {**about, "name": f"{about['name']}-{number}", "ownerReferences": [{"kind": "ReplicaSet"}]}
                spec = manifest["spec"]["template"]["spec"]
                where = f"/api/v1/namespaces/{about['namespace']}/pods/{pod['name']}"
                self.server.objects[where] = {"metadata": pod, "spec": spec, "status": READY}
        return manifest

    def selected(self, found, label, equals, value):
        labels = found["metadata"]["labels"]
        return labels.get(label) == value if equals else set(label.split(",")) <= set(labels)

    def answer(self, status, data):
        body = data.encode() if isinstance(data, str) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def api(tmp_path, monkeypatch):
    server = ApiServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {"token": "s3cret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def provide(api):
    made = []

    def make(**options):
        made.append(KubernetesProvider("echo:1", **{"reach": "pod", "port": api.server_port, **options}))
        return made[-1]

    yield make
    api.answers.clear()
    for each in made:
        each.stop()


@pytest.mark.parametrize(("replicas", "kind"), [(1, "pod"), (2, "deployment")])
def test_a_workload_is_started_checked_listed_and_deleted(api, provide, replicas, kind):
    provider = provide(replicas=replicas)
    url = provider.start()
    provider.wait_for_ready(10)
    provider.check()
    assert provider.urls == (url,) * replicas
    assert provider.namespace == "team"
    assert provider.logs().count("a line") == replicas
    (listed,) = list_workloads()
    assert (listed.name, listed.owner, listed.stray) == (f"team/{provider.name}", str(os.getpid()), False)
    assert [request.rpartition("/")[2] for request in api.asked("POST")] == [f"{kind}s", "services"]
    provider.stop()
    assert [request.split("/")[-2] for request in api.asked("DELETE")] == [f"{kind}s", "services"]
    assert api.names("services") == []


def test_what_was_created_is_deleted_if_the_rest_is_refused(api, provide):
    api.answers["POST .*services"] = 422, {"details": {"causes": [{"field": "spec.x", "message": "no"}]}}
    with pytest.raises(ProviderError, match=r"the cluster refuses an option: spec\.x: no"):
        provide().start()
    assert api.objects == {}


def test_an_object_of_another_is_not_deleted(api, provide):
    api.answers["POST .*pods"] = 409, {"message": "exists"}
    with pytest.raises(ProviderError, match="the name is taken: exists"):
        provide().start()
    assert api.asked("DELETE") == []


@pytest.mark.parametrize(("replicas", "kind"), [(1, "pods"), (2, "deployments")])
def test_a_workload_that_is_removed_is_gone(api, provide, replicas, kind):
    provider = provide(replicas=replicas)
    provider.start()
    del api.objects[next(path for path in api.objects if path.endswith(f"/{kind}/{provider.name}"))]
    with pytest.raises(ProviderError, match="is gone: someone else removed it"):
        provider.check()


@pytest.mark.parametrize("replicas", [1, 2])
def test_an_image_that_cannot_be_pulled_ends_the_wait(api, provide, replicas):
    provider = provide(replicas=replicas)
    provider.start()
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such tag"}}
    for path, each in api.objects.items():
        if "/pods/" in path:
            each["status"] = {"podIP": "127.0.0.1", "containerStatuses": [{"image": "echo:1", "state": waiting}]}
    with pytest.raises(ProviderError, match=r"has no image 'echo:1' \(ErrImagePull\): no such tag\na line"):
        provider.wait_for_ready(60)


def test_a_failure_that_may_pass_is_waited_for_and_one_that_may_not_is_raised(api, provide):
    provider = provide()
    provider.start()
    api.answers["GET .*pods"] = 503, {"message": "busy"}
    with pytest.raises(ProviderUnreachableError, match="the cluster answers: busy"):
        provider.check()
    with pytest.raises(ProviderError, match=r"no healthy server in team/.* within 0.1 s: the cluster answers: busy"):
        provider.wait_for_ready(0.1)
    api.answers["GET .*pods"] = 401, {}
    with pytest.raises(ProviderError, match="does not accept the credentials"):
        provider.wait_for_ready(60)


def test_a_delete_is_tried_again_while_the_api_server_is_busy_and_made_up_for_later(api, provide):
    provider = provide()
    provider.start()
    api.answers["DELETE .*services"] = 503, {"message": "busy"}
    provider.stop()
    assert len(api.asked("DELETE")) == 4
    left = api.names("services")
    api.answers.clear()
    provide().start()
    assert left
    assert not set(left) & set(api.names("services"))


def test_the_lease_is_renewed(api, provide):
    provide(lease=0.04).start()
    until(lambda: len(api.asked("PATCH")) > 2)
