"""Reads the state of executors from the JSON of their set and their pods."""

from __future__ import annotations

from streamjob_operator.cluster.api import Cluster, NotFound
from streamjob_operator.cluster.kinds import STATEFUL_SET, Object
from streamjob_operator.decisions.values.observation import ExecutorPod, ExecutorSet, PodPhase
from streamjob_operator.objects.names import (
    COMPONENT_LABEL,
    EXECUTOR,
    REVISION_ANNOTATION,
    TEMPLATE_LABEL,
    executors_name,
)
from streamjob_operator.reconciling.driver_pods import container_state, reason_of, seconds_of
from streamjob_operator.reconciling.pod_events import newest_warning
from streamjob_operator.resources.base import Metadata


def executor_pod(pod: Object) -> ExecutorPod | None:
    """Return an executor's state; None if the pod is of another component."""
    meta, status = pod["metadata"], pod.get("status") or {}
    labels = meta.get("labels") or {}
    if labels.get(COMPONENT_LABEL) != EXECUTOR:
        return None
    reason, message = reason_of(status, container_state(status))
    return ExecutorPod(
        name=meta["name"],
        uid=meta.get("uid", ""),
        template=labels.get(TEMPLATE_LABEL, ""),
        phase=PodPhase(status.get("phase") or "Pending"),
        created=seconds_of(meta.get("creationTimestamp")) or 0.0,
        ready=any(
            each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ()
        ),
        deleting=seconds_of(meta.get("deletionTimestamp")),
        reason=reason,
        message=message,
    )


async def executor_set(cluster: Cluster, owner: Metadata, pods: int) -> ExecutorSet | None:
    """Return the set of a job's executors; None if there is none.

    Args:
        pods: how many pods there are; if some are missing, the set's events say why.

    Raises:
        ClusterError: the Kubernetes API does not say.
    """
    try:
        found = await cluster.get(STATEFUL_SET, owner.namespace, executors_name(owner))
    except NotFound:
        return None
    meta, replicas = found["metadata"], found["spec"].get("replicas", 1)
    warning = await newest_warning(cluster, meta["namespace"], meta["uid"]) if pods < replicas else None
    return ExecutorSet(
        revision=(meta.get("annotations") or {}).get(REVISION_ANNOTATION, ""),
        replicas=replicas,
        template=(meta.get("labels") or {}).get(TEMPLATE_LABEL, ""),
        message="" if warning is None else warning[1],
    )
