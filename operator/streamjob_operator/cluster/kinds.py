"""The kinds of objects that the controller reads and writes, and where the API has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
"""An object of the API as JSON has it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A namespaced kind; `group` is empty for the core API."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects of the kind."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path of an object, of a namespace's objects, or of all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace is not None else ""
        return "/".join(part for part in (f"{root}{scope}/{self.plural}", name, subresource) if part is not None)


STREAM_JOB = Kind("streamjob.io", "v1alpha1", "StreamJob", "streamjobs")
STREAM_SNAPSHOT = Kind("streamjob.io", "v1alpha1", "StreamSnapshot", "streamsnapshots")
POD = Kind("", "v1", "Pod", "pods")
SECRET = Kind("", "v1", "Secret", "secrets")
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
EVENT = Kind("", "v1", "Event", "events")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions")
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets")
SERVICE = Kind("", "v1", "Service", "services")
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
TOKEN_REVIEW = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews")
SUBJECT_ACCESS_REVIEW = Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews")
"""Questions to the API server; they belong to no namespace, and nothing is stored."""

KINDS = (
    STREAM_JOB,
    STREAM_SNAPSHOT,
    POD,
    SECRET,
    CONFIG_MAP,
    EVENT,
    NETWORK_POLICY,
    CONTROLLER_REVISION,
    STATEFUL_SET,
    SERVICE,
    POD_DISRUPTION_BUDGET,
    LEASE,
)


def version_of(thing: Object) -> int:
    """Return the version of an object; comparable by contract since Kubernetes 1.35, and in fact ever since."""
    return int(thing["metadata"]["resourceVersion"])


def kind_of(thing: Object) -> Kind:
    """Return the kind of an object that names its own.

    Raises:
        KeyError: it is of no kind that the controller handles.
    """
    found = {(kind.api_version, kind.kind): kind for kind in KINDS}
    return found[(thing["apiVersion"], thing["kind"])]
