"""A real cluster for the tests in this folder, and what they ask of it."""

import contextlib
import json
import secrets
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from kubernetes import client, config

from envweave.providers import KubernetesProvider
from support.cluster import ClusterError, running_cluster
from support.need import need
from support.until import PATIENCE, until

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def echo_image(base_image):
    """The tag of an image that serves `echo`, and can be a user of the provider, too."""
    from support.images import ensure_env

    return ensure_env("echo", base_image, "kubernetes>=30")


@pytest.fixture(scope="session")
def cluster(docker_engine, echo_image):
    with ExitStack() as stack:
        try:
            found = stack.enter_context(running_cluster([echo_image], docker_engine))
        except ClusterError as error:
            need("kubernetes", str(error))
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("KUBECONFIG", found.kubeconfig)
        yield found


class Admin:
    """The cluster as its administrator sees it: plain data, and changes that nobody else may make."""

    def __init__(self, kubeconfig):
        configuration = client.Configuration()
        config.load_kube_config(kubeconfig, client_configuration=configuration)
        self.api = client.ApiClient(configuration)
        self.core = client.CoreV1Api(self.api)
        self.apps = client.AppsV1Api(self.api)

    def names(self, kind, namespace):
        api = self.apps if kind in ("deployment", "replica_set") else self.core
        return {each.metadata.name for each in getattr(api, f"list_namespaced_{kind}")(namespace).items}

    def left(self, namespace):
        """All that a provider could have left in a namespace."""
        kinds = ("pod", "service", "deployment", "replica_set", "endpoints")
        return {f"{kind}/{name}" for kind in kinds for name in self.names(kind, namespace)}

    def pod(self, name, namespace):
        answer = self.core.read_namespaced_pod(name, namespace, _preload_content=False)
        return json.loads(answer.read())

    def kill(self, name, namespace):
        self.core.delete_namespaced_pod(name, namespace, grace_period_seconds=0)

    def make_namespace(self):
        name = f"test-{secrets.token_hex(4)}"
        self.core.create_namespace({"metadata": {"name": name}})

        def has_account():
            with contextlib.suppress(client.ApiException):
                return self.core.read_namespaced_service_account("default", name)

        until(has_account)
        return name

    def remove_namespace(self, name):
        """Without waiting for it: kubelet 1.20 takes half a minute."""
        self.core.delete_namespace(name)

    def token(self, account, namespace):
        asked = {"spec": {"expirationSeconds": 3600, "audiences": ["https://kubernetes.default.svc"]}}
        answer = self.core.create_namespaced_service_account_token(account, namespace, asked)
        return answer.status.token

    def apply_rights(self, namespace):
        """What the documentation says is needed, for this namespace."""
        text = (ROOT / "docs" / "kubernetes" / "rbac.yaml").read_text()
        rights = client.RbacAuthorizationV1Api(self.api)
        account, role, binding = yaml.safe_load_all(text.replace("namespace: envweave", f"namespace: {namespace}"))
        self.core.create_namespaced_service_account(namespace, account)
        rights.create_namespaced_role(namespace, role)
        rights.create_namespaced_role_binding(namespace, binding)


@pytest.fixture(scope="session")
def admin(cluster):
    found = Admin(cluster.kubeconfig)
    yield found
    found.api.rest_client.pool_manager.clear()


@pytest.fixture(scope="session")
def namespace(admin):
    return admin.make_namespace()


@pytest.fixture
def fresh(admin):
    """A namespace of the test's own."""
    name = admin.make_namespace()
    yield name
    admin.remove_namespace(name)


@pytest.fixture
def provide(cluster, echo_image, namespace):
    """Makes providers for the cluster, which are stopped in the end; `program` runs in place of the server."""
    made = []

    def make(image=echo_image, *, program=None, **options):
        usual = {"namespace": namespace, "image_pull_policy": "Never", "stop_timeout": 0}
        if program is not None:
            usual["extra"] = {"containers": [{"name": "server", "command": program}]}
        made.append(KubernetesProvider(image, **{**usual, **options}))
        return made[-1]

    yield make
    for provider in made:
        provider.stop()


@pytest.fixture
def serving(provide):
    """Makes a provider, and returns it when its server answers."""

    def make(**options):
        provider = provide(**options)
        provider.start()
        provider.wait_for_ready(PATIENCE)
        return provider

    return make
