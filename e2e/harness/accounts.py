"""Service accounts of a scenario's namespace."""

from __future__ import annotations

from e2e.harness.namespace import Namespace

RBAC = "rbac.authorization.k8s.io/v1"


def account(namespace: Namespace, name: str, *verbs: str) -> None:
    """Create a service account with rights on the namespace's StreamJobs."""
    namespace.create("v1", "ServiceAccount", name)
    if verbs:
        rule = {"apiGroups": ["streamjob.io"], "resources": ["streamjobs"], "verbs": list(verbs)}
        namespace.create(RBAC, "Role", name, rules=[rule])
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace.name}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        namespace.create(RBAC, "RoleBinding", name, roleRef=role, subjects=[subject])
