"""A node without room: a pod requests nearly all of its processors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from e2e.harness.cluster import Cluster, Object
from e2e.harness.namespace import Namespace

_FILLER = "filler"
_LEFT = 50
"""Thousandths of a processor that stay free."""


@contextmanager
def full_node(namespace: Namespace) -> Iterator[None]:
    """Leave the only node of a cluster no processors to request, until the end of the block."""
    asked = free_millicores(namespace.cluster) - _LEFT
    container = {
        "name": _FILLER,
        "image": namespace.image,
        "command": ["sleep", "infinity"],
        "resources": {"requests": {"cpu": f"{asked}m", "memory": "8Mi"}},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    namespace.create("v1", "Pod", _FILLER, spec=spec)
    try:
        namespace.wait("Pod", _FILLER, lambda pod: pod["status"].get("phase") == "Running", what="full node")
        yield
    finally:
        namespace.delete("Pod", _FILLER, grace=0)
        namespace.wait_gone("Pod", _FILLER)


def free_millicores(cluster: Cluster) -> int:
    """Return the thousandths of processors that no pod on the only node requests."""
    (node,) = cluster.all("Node", None)
    pods = [pod for pod in cluster.all("Pod", None) if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    return _millicores(node["status"]["allocatable"]["cpu"]) - sum(map(_requested, pods))


def _requested(pod: Object) -> int:
    requests = [(each.get("resources") or {}).get("requests") or {} for each in pod["spec"]["containers"]]
    return sum(_millicores(str(each.get("cpu", "0"))) for each in requests)


def _millicores(cpu: str) -> int:
    return int(cpu.removesuffix("m")) if cpu.endswith("m") else round(float(cpu) * 1000)
