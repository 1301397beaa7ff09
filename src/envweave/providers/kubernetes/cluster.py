"""Requests to the API server of a cluster. No other module imports the official `kubernetes` client.

Answers are plain data, as the server writes them.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import NOT_FOUND
from pathlib import Path
from typing import Any
from urllib.parse import quote

from envweave.core.threads import run_in_thread
from envweave.errors import ProviderError, UnavailableError
from envweave.providers.kubernetes.diagnosis import may_pass, refusal

try:
    import urllib3
    from kubernetes import client, config
    from kubernetes.client.exceptions import ApiException
    from kubernetes.client.rest import should_bypass_proxies
    from kubernetes.config.config_exception import ConfigException
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.typing import Subprotocol
except ModuleNotFoundError:
    raise UnavailableError("'kubernetes' is not installed", "pip install 'envweave[kubernetes]'") from None

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_CONFIG = "~/.kube/config"
_TIMEOUT = (5.0, 15.0)
"""Seconds to connect, and for one answer."""
_CREATE_TIMEOUT = (5.0, 60.0)
"""Creating may call admission webhooks, which take longer."""
_PORT_TIMEOUT = 10.0
_CLOSE_TIMEOUT = 1.0
_CHANNELS = "v4.channel.k8s.io"
"""Subprotocol in which the first byte of a message is the number of its channel."""
_LOG = logging.getLogger(__name__)
_LOG.setLevel(logging.INFO)  # at DEBUG, websockets logs the headers, and with them the token


class ClusterError(ProviderError):
    """The API server refuses a request with an HTTP status, or cannot be reached: then the status is None."""

    def __init__(self, message: str, hint: str = "", status: int | None = None) -> None:
        super().__init__(message, hint)
        self.status = status

    @property
    def temporary(self) -> bool:
        """Whether a retry may succeed."""
        return self.status is None or may_pass(self.status)


class ClusterClient:
    """A client of one cluster, as one user. Threads may share it; `close` closes its sockets.

    Raises `ProviderError` if no cluster is configured.
    """

    def __init__(self, kubeconfig: str | None = None, context: str | None = None) -> None:
        self.configuration = client.Configuration()
        self.inside, self.namespace = _configure(self.configuration, kubeconfig, context)
        self.configuration.retries = False  # callers decide whether to retry
        self._client = client.ApiClient(self.configuration)
        self._core = client.CoreV1Api(self._client)
        self._apps = client.AppsV1Api(self._client)

    @property
    def server(self) -> str:
        return str(self.configuration.host)

    def close(self) -> None:
        with suppress(AttributeError):  # there is no public method for it
            self._client.rest_client.pool_manager.clear()
        self._client.close()

    # Pods, deployments and services. `kind` is that of their manifests.

    def create(self, manifest: Mapping[str, Any], namespace: str) -> dict[str, Any]:
        method = self._method("create", manifest["kind"])
        made = self._call(method, namespace, manifest, namespace=namespace, _request_timeout=_CREATE_TIMEOUT)
        return {"kind": manifest["kind"], "apiVersion": manifest["apiVersion"], **made}

    def read(self, kind: str, name: str, namespace: str) -> dict[str, Any]:
        return self._call(self._method("read", kind), name, namespace, namespace=namespace)

    def list_objects(self, kind: str, namespace: str | None, labels: str) -> list[dict[str, Any]]:
        """Return objects with these labels; None means all namespaces."""
        if namespace is None:
            method = getattr(self._api(kind), f"list_{kind.lower()}_for_all_namespaces")
            return list(self._call(method, namespace="", label_selector=labels)["items"])
        method = self._method("list", kind)
        return list(self._call(method, namespace, namespace=namespace, label_selector=labels)["items"])

    def annotate(self, kind: str, name: str, namespace: str, annotations: Mapping[str, str]) -> None:
        body = {"metadata": {"annotations": dict(annotations)}}
        self._call(self._method("patch", kind), name, namespace, body, namespace=namespace)

    def delete(self, kind: str, name: str, namespace: str, grace: int | None = None) -> None:
        """Start to delete an object and what it owns, if it exists."""
        body: dict[str, Any] = {"propagationPolicy": "Background"}
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        try:
            self._call(self._method("delete", kind), name, namespace, body=body, namespace=namespace)
        except ClusterError as error:
            if error.status != NOT_FOUND:
                raise

    def node(self, name: str) -> dict[str, Any]:
        return self._call(self._core.read_node, name, namespace="")

    def events(self, name: str, namespace: str) -> list[dict[str, Any]]:
        """Return the events of an object, oldest first."""
        selector = f"involvedObject.name={name}"
        found = self._call(self._core.list_namespaced_event, namespace, namespace=namespace, field_selector=selector)
        return sorted(found["items"], key=lambda each: str(each.get("lastTimestamp") or each.get("eventTime") or ""))

    def log(self, pod: str, namespace: str, container: str, tail: int | None, *, previous: bool = False) -> str:
        options: dict[str, Any] = {"container": container, "previous": previous}
        if tail is not None:
            options["tail_lines"] = tail
        data = self._ask(self._core.read_namespaced_pod_log, pod, namespace, namespace=namespace, **options)
        return data.decode(errors="replace")

    async def open_port(self, pod: str, namespace: str, port: int) -> ClientConnection:
        """Open a WebSocket to a port of a pod. Raises `ClusterError`."""
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/portforward"
        url = f"{self.server.rstrip('/').replace('http', 'ws', 1)}{path}?ports={port}"
        given = self.configuration
        settings = await run_in_thread(given.auth_settings)  # may run a credential plugin
        direct = not given.proxy or should_bypass_proxies(self.server, given.no_proxy or "")
        tls: dict[str, Any] = {"ssl": _tls_context(given)} if url.startswith("wss:") else {}
        if tls and given.tls_server_name:
            tls["server_hostname"] = given.tls_server_name
        try:
            opened = await connect(
                url,
                additional_headers={each["key"]: each["value"] for each in settings.values() if each["in"] == "header"},
                subprotocols=[Subprotocol(_CHANNELS)],
                compression=None,
                proxy=None if direct else given.proxy,
                open_timeout=_PORT_TIMEOUT,
                close_timeout=_CLOSE_TIMEOUT,
                ping_interval=None,
                max_size=None,
                logger=_LOG,
                **tls,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            raise ClusterError(*refusal(status, error.response.body, namespace), status) from error
        except (WebSocketException, OSError) as error:
            raise self._unreachable(error) from error
        with suppress(OSError):
            opened.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return opened

    def _api(self, kind: str) -> Any:
        return self._apps if kind == "Deployment" else self._core

    def _method(self, verb: str, kind: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self._api(kind), f"{verb}_namespaced_{kind.lower()}")
        return method

    def _call(self, method: Callable[..., Any], *arguments: Any, namespace: str, **options: Any) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._ask(method, *arguments, namespace=namespace, **options))
        except ValueError as error:
            raise ClusterError(f"{self.server} does not answer as an API server does") from error
        return found

    def _ask(self, method: Callable[..., Any], *arguments: Any, namespace: str, **options: Any) -> bytes:
        try:
            options.setdefault("_request_timeout", _TIMEOUT)
            answer = method(*arguments, **options, _preload_content=False)
            return bytes(answer.read())
        except ApiException as error:
            if error.status in (None, 0):
                raise self._unreachable(error) from error
            # Not chained: the exception may quote the manifest, and with it secrets.
            raise ClusterError(*refusal(error.status, error.body, namespace), error.status) from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        except ConfigException as error:  # raised when a token is refreshed
            raise ClusterError(f"no credentials for {self.server}: {_text(error)}") from error

    def _unreachable(self, error: Exception) -> ClusterError:
        hint = "does kubectl work? check the kubeconfig, its context and your VPN"
        return ClusterError(f"no API server answers at {self.server}: {_text(error)}", hint)


def _configure(configuration: Any, kubeconfig: str | None, context: str | None) -> tuple[bool, str]:
    """Fill in server and credentials. Returns whether this process runs in a pod of the cluster, and the namespace.

    The order is: the arguments, `KUBECONFIG`, the service account of this pod, the default file.
    """
    named = kubeconfig or os.environ.get("KUBECONFIG") or ""
    tried = []
    if not named and not context:
        try:
            config.load_incluster_config(client_configuration=configuration)
            return True, _own_namespace()
        except ConfigException as error:
            tried.append(f"no service account of a pod ({_text(error)})")
    path = named or DEFAULT_CONFIG
    try:
        config.load_kube_config(path, context, configuration, persist_config=False)
        known, current = config.list_kube_config_contexts(path)
        chosen = next((each for each in known if each["name"] == context), current)
        return False, (chosen.get("context") or {}).get("namespace") or "default"
    except Exception as error:  # the file may contain anything
        tried.append(f"no kubeconfig {path} that can be used ({_text(error)})")
    hint = "KUBECONFIG or kubeconfig=… names a file, context=… one of its contexts"
    raise ProviderError(f"no cluster is known: {'; '.join(tried)}", hint)


def _tls_context(given: Any) -> ssl.SSLContext:
    """Return the TLS settings of a client configuration."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not given.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif given.ssl_ca_cert:
        context.load_verify_locations(given.ssl_ca_cert)
    else:
        context.load_default_certs()
    if given.assert_hostname is False:
        context.check_hostname = False
    if given.cert_file:
        context.load_cert_chain(given.cert_file, given.key_file)
    return context


def _own_namespace() -> str:
    with suppress(OSError):
        return (ACCOUNT / "namespace").read_text().strip() or "default"
    return "default"


def _text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
