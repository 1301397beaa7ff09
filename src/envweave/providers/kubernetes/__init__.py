"""Servers in pods of a cluster.

`provider.py` is the public class, `workload.py` its options, `manifests.py` turns them into objects of Kubernetes.
`cluster.py` sends requests to the API server; `replicas.py` holds the objects of one start and which URL belongs to
which pod. `port_forward.py` carries connections from outside the cluster. `diagnosis.py` explains what is wrong with a
pod.
"""

from envweave.providers.kubernetes.provider import KubernetesProvider, list_workloads

__all__ = ["KubernetesProvider", "list_workloads"]
