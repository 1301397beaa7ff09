"""A connection to a cluster's API server: how it is found, what is asked, and what its refusals mean.

The door to the official `kubernetes` client. Answers are plain data, as the server writes them.
"""

from __future__ import annotations

import http
import json
import os
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from envweave.errors import ProviderError, UnavailableError
from envweave.providers.kubernetes.diagnosis import may_pass, refusal

try:
    import urllib3
    import websocket
    from kubernetes import client, config
    from kubernetes.client.exceptions import ApiException
    from kubernetes.config.config_exception import ConfigException
    from kubernetes.stream import ws_client
except ModuleNotFoundError:
    raise UnavailableError("'kubernetes' is not installed", "pip install 'envweave[kubernetes]'") from None

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_CONFIG = "~/.kube/config"
_PATIENCE = (5.0, 15.0)
"""Seconds to be connected, and for one answer."""
_CREATE_PATIENCE = (5.0, 60.0)
"""Others may be asked whether something may be created, and take their time."""
_DIAL_PATIENCE = 10.0
_CHANNELS = "v4.channel.k8s.io"
"""What the first byte of a message means; the client's own name for it differs from version to version."""
_GONE, _TAKEN = http.HTTPStatus.NOT_FOUND, http.HTTPStatus.CONFLICT


class ClusterError(ProviderError):
    """The API server refuses, or is not there. `passing`: the same question may be answered later."""

    def __init__(self, message: str, hint: str = "", status: int | None = None, passing: bool = False) -> None:
        super().__init__(message, hint)
        self.status = status
        self.passing = passing

    @property
    def gone(self) -> bool:
        return self.status == _GONE

    @property
    def taken(self) -> bool:
        return self.status == _TAKEN


class Connection:
    """To one cluster, as one user. Threads may share it; `close` gives its sockets back."""

    def __init__(self, kubeconfig: str | None = None, context: str | None = None) -> None:
        self.configuration = client.Configuration()
        self.inside, self.namespace = _configure(self.configuration, kubeconfig, context)
        self.configuration.retries = False  # who asks decides whether to ask again
        self._client = client.ApiClient(self.configuration)
        self._core = client.CoreV1Api(self._client)
        self._apps = client.AppsV1Api(self._client)

    @property
    def server(self) -> str:
        return str(self.configuration.host)

    def close(self) -> None:
        with suppress(AttributeError):  # the client has no name of its own for it
            self._client.rest_client.pool_manager.clear()
        self._client.close()

    # Pods, deployments and services: `kind` is as in their manifests.

    def create(self, manifest: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        method = self._method("create", manifest["kind"])
        made = self._call(method, namespace, manifest, namespace=namespace, _request_timeout=_CREATE_PATIENCE)
        return {"kind": manifest["kind"], "apiVersion": manifest["apiVersion"], **made}

    def read(self, kind: str, name: str, namespace: str) -> dict[str, Any]:
        return self._call(self._method("read", kind), name, namespace, namespace=namespace)

    def everything(self, kind: str, namespace: str | None, labels: str) -> list[dict[str, Any]]:
        """None is all namespaces."""
        if namespace is None:
            method = getattr(self._api(kind), f"list_{_word(kind)}_for_all_namespaces")
            return list(self._call(method, namespace="", label_selector=labels)["items"])
        method = self._method("list", kind)
        return list(self._call(method, namespace, namespace=namespace, label_selector=labels)["items"])

    def annotate(self, kind: str, name: str, namespace: str, annotations: Mapping[str, str]) -> None:
        body = {"metadata": {"annotations": dict(annotations)}}
        self._call(self._method("patch", kind), name, namespace, body, namespace=namespace)

    def delete(self, kind: str, name: str, namespace: str, grace: int | None = None) -> None:
        """Begin to; what it owns goes with it. Harmless if it is not there."""
        body: dict[str, Any] = {"propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self._call(self._method("delete", kind), name, namespace, body=body, namespace=namespace)
        except ClusterError as error:
            if not error.gone:
                raise

    def node(self, name: str) -> dict[str, Any]:
        return self._call(self._core.read_node, name, namespace="")

    def events(self, name: str, namespace: str) -> list[dict[str, Any]]:
        """Of the object of that name, oldest first."""
        chosen = f"involvedObject.name={name}"
        found = self._call(self._core.list_namespaced_event, namespace, namespace=namespace, field_selector=chosen)
        return sorted(found["items"], key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))

    def log(self, pod: str, namespace: str, container: str, tail: int | None, *, previous: bool = False) -> str:
        options: dict[str, Any] = {"container": container, "previous": previous}
        if tail is not None:
            options["tail_lines"] = tail
        data = self._ask(self._core.read_namespaced_pod_log, pod, namespace, namespace=namespace, **options)
        return data.decode(errors="replace")

    def dial(self, pod: str, namespace: str, port: int) -> socket.socket:
        """A socket to a port of a pod, on which a WebSocket's greeting is over. Raises `ProviderError`."""
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/portforward"
        url = f"{self.server.rstrip('/').replace('http', 'ws', 1)}{path}?ports={port}"
        settings = self.configuration.auth_settings().values()
        header = [f"{each['key']}: {each['value']}" for each in settings if each.get("in") == "header"]
        options: dict[str, Any] = {
            "header": header,
            "subprotocols": [_CHANNELS],
            "timeout": _DIAL_PATIENCE,
            "suppress_origin": True,
        }
        if self.configuration.proxy:
            options = ws_client.websocket_proxycare(options, self.configuration, url, None)
        made = websocket.WebSocket(sslopt=_tls(self.configuration))
        try:
            made.connect(url, **options)
        except websocket.WebSocketBadStatusException as error:
            status, body = error.status_code, getattr(error, "resp_body", None)
            raise ClusterError(*refusal(status, body, namespace), status, may_pass(status)) from error
        except (websocket.WebSocketException, OSError) as error:
            raise self._unreachable(error) from error
        sock: socket.socket = made.sock
        made.sock = None  # it is ours now
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def _api(self, kind: str) -> Any:
        return self._apps if kind == "Deployment" else self._core

    def _method(self, verb: str, kind: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._api(kind), f"{verb}_namespaced_{_word(kind)}")
        return method

    def _call(self, method: Callable[..., Any], *arguments: Any, namespace: str, **options: Any) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._ask(method, *arguments, namespace=namespace, **options))
        except ValueError as error:
            raise ClusterError(f"{self.server} does not answer as an API server does", passing=True) from error
        return found

    def _ask(self, method: Callable[..., Any], *arguments: Any, namespace: str, **options: Any) -> bytes:
        try:
            options.setdefault("_request_timeout", _PATIENCE)
            answer = method(*arguments, **options, _preload_content=False)
            return bytes(answer.read())
        except ApiException as error:
            if error.status in (None, 0):
                raise self._unreachable(error) from error
            message, hint = refusal(error.status, error.body, namespace)
            passing = may_pass(error.status)
            raise ClusterError(message, hint, error.status, passing) from None  # it may quote what we have sent
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        except ConfigException as error:  # a token is read again from time to time
            raise ClusterError(f"no credentials for {self.server}: {_said(error)}", passing=True) from error

    def _unreachable(self, error: Exception) -> ClusterError:
        hint = "does kubectl get it? the kubeconfig, its context or a VPN may be the cause"
        return ClusterError(f"no API server answers at {self.server}: {_said(error)}", hint, passing=True)


@contextmanager
def connected(kubeconfig: str | None = None, context: str | None = None) -> Iterator[Connection]:
    """For a few questions. Raises `ProviderError` if there is no cluster that we know of."""
    connection = Connection(kubeconfig, context)
    try:
        yield connection
    finally:
        connection.close()


def _configure(configuration: Any, kubeconfig: str | None, context: str | None) -> tuple[bool, str]:
    """Fill in where and who; whether we are in a pod of that cluster, and the namespace that is meant.

    What is named comes first, then `KUBECONFIG`, then the account of the pod that we are in, then the usual file.
    """
    named = kubeconfig or os.environ.get("KUBECONFIG") or ""
    tried = []
    if not named and not context:
        try:
            config.load_incluster_config(client_configuration=configuration)
            return True, _read(ACCOUNT / "namespace") or "default"
        except ConfigException as error:
            tried.append(f"no service account of a pod ({_said(error)})")
    path = named or DEFAULT_CONFIG
    try:
        config.load_kube_config(path, context, configuration, persist_config=False)
        known, current = config.list_kube_config_contexts(path)
        chosen = next((each for each in known if each["name"] == context), current)
        return False, (chosen.get("context") or {}).get("namespace") or "default"
    except Exception as error:  # whatever others make of whatever is in that file
        tried.append(f"no kubeconfig {path} that can be used ({_said(error)})")
    hint = "KUBECONFIG or kubeconfig=… names a file, context=… one of its contexts"
    raise ProviderError(f"no cluster is known: {'; '.join(tried)}", hint)


def _tls(configuration: Any) -> dict[str, Any]:
    """What websocket-client wants to know of the server's certificate and ours."""
    if not configuration.verify_ssl:
        options: dict[str, Any] = {"cert_reqs": ssl.CERT_NONE, "check_hostname": False}
    else:
        options = {"cert_reqs": ssl.CERT_REQUIRED}
        if configuration.ssl_ca_cert:
            options["ca_certs"] = configuration.ssl_ca_cert
        if configuration.assert_hostname is not None:
            options["check_hostname"] = configuration.assert_hostname
    if configuration.cert_file:
        options |= {"certfile": configuration.cert_file, "keyfile": configuration.key_file}
    if configuration.tls_server_name:
        options["server_hostname"] = configuration.tls_server_name
    return options


def _word(kind: str) -> str:
    return kind.lower()


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _said(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
