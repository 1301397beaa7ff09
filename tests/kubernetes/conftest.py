"""A real cluster for the tests in this folder, and what they ask of it."""

import contextlib
import json
import secrets
import shutil
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml
from kubernetes import client, config

from envweave.providers import KubernetesProvider
from support.cluster import ClusterError, running_cluster
from support.need import need
from support.until import PATIENCE, until

ROOT = Path(__file__).parents[2]
TAG = "envweave-test-echo:latest"
DOCKERFILE = """
FROM python:3.11-slim
COPY pyproject.toml README.md LICENSE /src/
COPY src/envweave/__init__.py /src/src/envweave/
RUN pip install --no-cache-dir '/src[server,kubernetes]'
COPY src /src/src
RUN pip install --no-cache-dir --no-deps --force-reinstall /src
USER 1000
CMD ["envweave", "serve", "echo", "--host", "0.0.0.0", "--port", "8000"]
"""


@pytest.fixture(scope="session")
def echo_image(docker_engine, tmp_path_factory):
    """The tag of an image that serves `echo` on port 8000 as user 1000, and can be a user of the provider, too."""
    from support.engine import connect

    folder = tmp_path_factory.mktemp("image")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    with closing(connect(docker_engine)) as docker:
        docker.images.build(path=str(folder), tag=TAG, network_mode="host", rm=True)
    return TAG


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
    """Makes providers for the cluster, which are stopped in the end."""
    made = []

    def make(image=echo_image, **options):
        usual = {"namespace": namespace, "image_pull_policy": "Never", "stop_timeout": 0}
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
