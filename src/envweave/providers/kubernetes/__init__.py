"""Servers in pods of a cluster.

The way of a start: `provider.py` is what a user holds · `workload.py` are its options · `manifests.py` makes of them
what the API server is sent · `cluster.py` sends it, and is the door to the official client · `replicas.py` is one
start: what it made, which URL belongs to which pod, how it ends · `forwarding.py` and `frames.py` carry connections
from outside · `heartbeat.py` renews the lease by which others know that the owner lives · `diagnosis.py` says what is
wrong with a pod.
"""

from envweave.providers.kubernetes.provider import KubernetesProvider, found

__all__ = ["KubernetesProvider", "found"]
