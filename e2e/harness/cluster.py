"""The cluster that the scenarios run on: the one that KUBECONFIG names, or a local one for tests.

A local cluster is a directory with the commands `up`, `base`, `image` and `load`: `$CLUSTER_DIR`, or
`../shared/cluster` next to the repository.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

ROOT = Path(__file__).resolve().parents[2]
Object = dict[str, Any]

_POLL = 0.3


class NoCluster(Exception):
    """There is no cluster to run on."""


class Refused(AssertionError):
    """The API server refused a request."""


def local_cluster() -> Path | None:
    """Return the directory of the local cluster's commands, or None if there is none."""
    named = os.environ.get("CLUSTER_DIR")
    directory = Path(named) if named else ROOT.parent / "shared" / "cluster"
    return directory if (directory / "up").is_file() else None


def find_kubeconfig() -> Path:
    """Return the kubeconfig of the cluster to use; a local one is started if it is not up.

    Raises:
        NoCluster: KUBECONFIG is not set, and there is no local cluster.
    """
    named = os.environ.get("KUBECONFIG")
    if named:
        return Path(named)
    directory = local_cluster()
    if directory is None:
        raise NoCluster("KUBECONFIG names no cluster, and CLUSTER_DIR no local one")
    done = subprocess.run([directory / "up"], stdout=subprocess.PIPE, text=True, check=True)
    return Path(done.stdout.strip().splitlines()[-1])


@dataclass(frozen=True, slots=True)
class Where:
    """An object by kind and name; `namespace` is None for the cluster's own."""

    kind: str
    name: str
    namespace: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace or ''}/{self.name}"


class Cluster:
    """The API server, by few verbs over plain objects.

    Args:
        kubeconfig: how it is reached.
    """

    def __init__(self, kubeconfig: Path) -> None:
        import kubernetes

        config: Any = kubernetes.config
        dynamic: Any = kubernetes.dynamic
        self.kubeconfig = kubeconfig
        self.host = str(yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
        api = config.new_client_from_config(str(kubeconfig))
        self._client: Any = dynamic.DynamicClient(api)
        self._core: Any = kubernetes.client.CoreV1Api(api)

    @property
    def way_back(self) -> str:
        """The address at which pods reach this machine: `$E2E_HOST`, or this side of the way to the API server."""
        named = os.environ.get("E2E_HOST")
        if named:
            return named
        parts = urlsplit(self.host)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((parts.hostname, parts.port or 443))
            return str(probe.getsockname()[0])

    def apply(self, *things: Object) -> None:
        """Create or change objects to what is given."""
        for thing in things:
            resource = self._resource(thing["kind"], thing["apiVersion"])
            self._asked(
                resource.server_side_apply,
                body=thing,
                name=thing["metadata"]["name"],
                namespace=thing["metadata"].get("namespace"),
                field_manager="e2e",
                force_conflicts=True,
            )

    def create(self, *things: Object) -> None:
        """Create objects."""
        for thing in things:
            resource = self._resource(thing["kind"], thing["apiVersion"])
            self._asked(resource.create, body=thing, namespace=thing["metadata"].get("namespace"))

    def patch(self, where: Where, change: Object) -> Object:
        """Apply a JSON merge patch, and return what became of the object."""
        return self._asked(
            self._resource(where.kind).patch,
            body=change,
            name=where.name,
            namespace=where.namespace,
            content_type="application/merge-patch+json",
        )

    def get(self, where: Where) -> Object | None:
        """Return an object, or None if there is none."""
        from kubernetes.dynamic.exceptions import NotFoundError

        try:
            found: Object = self._resource(where.kind).get(name=where.name, namespace=where.namespace).to_dict()
        except NotFoundError:
            return None
        return found

    def all(self, kind: str, namespace: str | None, labels: str | None = None) -> list[Object]:
        """Return the objects of a kind in a namespace, or in all of them."""
        found = self._resource(kind).get(namespace=namespace, label_selector=labels).to_dict()
        return list(found["items"])

    def delete(self, where: Where, *, grace: int | None = None, cascade: str = "background") -> None:
        """Ask for an object's deletion.

        Args:
            where: the object.
            grace: seconds that it may take to end.
            cascade: what becomes of the objects that it owns, as `kubectl delete --cascade` names it.
        """
        from kubernetes.dynamic.exceptions import NotFoundError

        options: Object = {"propagationPolicy": cascade.capitalize()}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            self._resource(where.kind).delete(name=where.name, namespace=where.namespace, body=options)
        except NotFoundError:
            return

    def evict(self, namespace: str, pod: str) -> None:
        """Have a pod go as a drain of its node does."""
        import kubernetes

        body = kubernetes.client.V1Eviction(metadata=kubernetes.client.V1ObjectMeta(name=pod, namespace=namespace))
        self._core.create_namespaced_pod_eviction(pod, namespace, body)

    def logs(self, namespace: str, pod: str, container: str | None = None) -> str:
        """Return what a container has written."""
        return str(self._core.read_namespaced_pod_log(pod, namespace, container=container))

    def wait(
        self, where: Where, condition: Callable[[Object | None], object], *, within: float, what: str
    ) -> Object | None:
        """Wait until an object, None if it is not there, fulfils a condition, and return it.

        Args:
            where: the object.
            condition: is asked about it again and again.
            within: seconds.
            what: says in an error what was waited for.
        """
        end = time.monotonic() + within
        while True:
            found = self.get(where)
            if condition(found):
                return found
            if time.monotonic() > end:
                status = json.dumps((found or {}).get("status"), indent=1, default=str)
                raise AssertionError(f"{where}: no {what} within {within:g} s; its status: {status}")
            time.sleep(_POLL)

    def refresh(self) -> None:
        """Learn of kinds that were defined meanwhile."""
        self._client.resources.invalidate_cache()

    def _resource(self, kind: str, api_version: str | None = None) -> Any:
        arguments = {"kind": kind} | ({"api_version": api_version or _API[kind]})
        return self._client.resources.get(**arguments)

    @staticmethod
    def _asked(method: Any, **arguments: Any) -> Object:
        from kubernetes.dynamic.exceptions import DynamicApiError

        try:
            answer: Object = method(**arguments).to_dict()
        except DynamicApiError as error:
            raise Refused(f"{error.status}: {error.body}") from None
        return answer


_API = {
    "StreamJob": "streamjob.io/v1alpha1",
    "StreamSnapshot": "streamjob.io/v1alpha1",
    "ControllerRevision": "apps/v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "PodDisruptionBudget": "policy/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "Job": "batch/v1",
    "Lease": "coordination.k8s.io/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "ValidatingAdmissionPolicy": "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "APIService": "apiregistration.k8s.io/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    **dict.fromkeys(
        (
            "ConfigMap",
            "Event",
            "Namespace",
            "Node",
            "PersistentVolumeClaim",
            "Pod",
            "ResourceQuota",
            "Secret",
            "Service",
        ),
        "v1",
    ),
}
"""The version of the kinds that scenarios speak of."""


def objects(texts: Iterable[str]) -> list[Object]:
    """Return the objects of YAML documents."""
    return [thing for text in texts for thing in yaml.safe_load_all(text) if thing]
