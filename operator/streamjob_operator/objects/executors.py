"""The executors of a job: a StatefulSet that outlives drivers, and the Service by which it finds them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from streamjob_operator.decisions.values.revision import Revision
from streamjob_operator.objects import names, observability
from streamjob_operator.objects.merging import by_key, merged
from streamjob_operator.objects.names import BLOCKS_PORT, CONTROL_PORT, DRIVER, EXECUTOR, Object
from streamjob_operator.objects.pod import executor_secret, job_container, mounts, pod_spec, template, variables
from streamjob_operator.objects.sizes import grace_of_process, resources
from streamjob_operator.objects.spark_settings import heap
from streamjob_operator.objects.startup import executor_startup
from streamjob_operator.resources.base import Metadata
from streamjob_operator.resources.pods import ExecutorSpec
from streamjob_operator.resources.streamjob import StreamJobSpec

_POD_NAME = "STREAMJOB_POD_NAME"
_RESTART_ANNOTATION = "streamjob.io/restart-nonce"
_WORK = "work"
_WORK_DIRECTORY = f"{names.WORK_DIRECTORY}/work"
_REGISTERED = f"{_WORK_DIRECTORY}/registered"
_DIGITS = 10
_SPREAD_OVER = ("topology.kubernetes.io/zone", "kubernetes.io/hostname")


def driver_service(owner: Metadata) -> Object:
    """Return the headless Service by which executors find the driver of any attempt, also one that only starts."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": names.metadata(owner, names.driver_service_name(owner)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": names.selector(owner, DRIVER)["matchLabels"],
            "ports": [{"name": "control", "port": CONTROL_PORT, "protocol": "TCP"}],
        },
    }


def disruption_budget(owner: Metadata, executor: ExecutorSpec) -> Object:
    """Return the budget for evictions of a job's executors."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": names.metadata(owner, names.executors_name(owner), EXECUTOR),
        "spec": {
            "selector": names.selector(owner, EXECUTOR),
            "maxUnavailable": executor.pod_disruption_budget.max_unavailable,
            # An executor without a driver is not ready, and must not hold up the drain of its node.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def executor_set(owner: Metadata, revision: Revision, instances: int, *, default_image: str) -> Object:
    """Return the StatefulSet of a job's executors.

    Its pods are replaced by the controller, all at once: a job whose executors differ cannot run.

    Args:
        revision: the revision that they run; it has executors.
        default_image: the image of the revisions that name none.

    Raises:
        InvalidInput: the template is no template of a pod.
    """
    spec = revision.spec()
    executor = _of(spec)
    pod = _pod(owner, spec, executor, spec.image or default_image)
    digest = _digest([pod, executor.to_dict().get("volumeClaimTemplates")])
    pod["metadata"]["labels"][names.TEMPLATE_LABEL] = digest
    meta = names.metadata(owner, names.executors_name(owner), EXECUTOR)
    # Kueue reads its queue from the set, and other schedulers from the pods.
    meta["labels"] = {**pod["metadata"]["labels"], **meta["labels"]}
    meta["annotations"] = {**pod["metadata"].get("annotations", {}), names.REVISION_ANNOTATION: revision.name}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": meta,
        "spec": {
            "replicas": instances,
            "serviceName": names.driver_service_name(owner),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "revisionHistoryLimit": 1,
            # The snapshots contain all that is on them.
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
            "selector": names.selector(owner, EXECUTOR),
            "template": pod,
            "volumeClaimTemplates": [_claim(each) for each in executor.volume_claim_templates],
        },
    }


def _of(spec: StreamJobSpec) -> ExecutorSpec:
    assert spec.executor is not None, "only a revision with executors has objects of them"
    return spec.executor


def _pod(owner: Metadata, spec: StreamJobSpec, executor: ExecutorSpec, image: str) -> Object:
    """Return the template of the pods; it must not change with the number of executors, or they would be replaced."""
    annotations = dict(executor.annotations)
    if spec.restart_nonce is not None:
        annotations[_RESTART_ANNOTATION] = str(spec.restart_nonce)
    container = _container(owner, spec, executor, image)
    pod: Object = {
        "metadata": {"labels": {**executor.labels, **names.labels(owner, EXECUTOR)}, "annotations": annotations},
        "spec": pod_spec(spec, executor, image, container, _volumes(spec, executor)),
    }
    given = template(executor.template, "executor")
    if executor.topology_spread_constraints is not None:
        given["spec"] = {key: value for key, value in given["spec"].items() if key != "topologySpreadConstraints"}
        pod["spec"]["topologySpreadConstraints"] = [dict(each) for each in executor.topology_spread_constraints]
    elif "topologySpreadConstraints" not in given["spec"]:
        pod["spec"]["topologySpreadConstraints"] = [_spread(owner, over) for over in _SPREAD_OVER]
    return merged(given, pod)


def _container(owner: Metadata, spec: StreamJobSpec, executor: ExecutorSpec, image: str) -> Object:
    return {
        **job_container(spec, executor, image),
        "args": [
            "executor",
            *("--driver", f"http://{names.driver_service_name(owner)}.{owner.namespace}:{CONTROL_PORT}"),
            *("--name", f"$({_POD_NAME})"),
            *("--cores", str(executor.cores)),
            *("--memory", heap(executor)),
            *("--work-dir", _WORK_DIRECTORY),
            *("--grace", str(grace_of_process(executor.termination_grace_period_seconds))),
        ],
        "env": _variables(owner, spec, executor),
        "ports": [{"name": "blocks", "containerPort": BLOCKS_PORT, "protocol": "TCP"}],
        "resources": resources(executor),
        "volumeMounts": by_key(executor.volume_mounts, _mounts(spec), "mountPath"),
        "startupProbe": executor_startup(_REGISTERED),
        # The process removes the file when it has had no driver for two minutes.
        "readinessProbe": {
            "exec": {"command": ["test", "-f", _REGISTERED]},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
        },
    }


def _variables(owner: Metadata, spec: StreamJobSpec, executor: ExecutorSpec) -> list[Any]:
    own = [executor_secret(owner), {"name": _POD_NAME, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    reporting = observability.of_executor(spec.observability)
    return by_key((*variables(spec.storage), *reporting, *executor.env), own, "name")


def _mounts(spec: StreamJobSpec) -> list[Object]:
    return [each for each in mounts() if each["name"] != "job" or spec.deps.config_maps]


def _volumes(spec: StreamJobSpec, executor: ExecutorSpec) -> list[Object]:
    """Return the volumes: the modules of the job are where the driver has them, so that its functions are found."""
    found: list[Object] = [{"name": "tmp", "emptyDir": {}}]
    if spec.deps.config_maps:
        sources = [{"configMap": {"name": name}} for name in spec.deps.config_maps]
        found.append({"name": "job", "projected": {"sources": sources}})
    claims = [_claim(each)["metadata"].get("name") for each in executor.volume_claim_templates]
    if _WORK not in claims:
        found.append({"name": _WORK, "emptyDir": {}})
    return found


def _claim(given: Object) -> Object:
    """Return a claim's template with what nearly all have in common."""
    meta, spec = given.get("metadata"), given.get("spec")
    return {
        **given,
        "metadata": meta if isinstance(meta, dict) else {},
        "spec": {"accessModes": ["ReadWriteOnce"], **(spec if isinstance(spec, dict) else {})},
    }


def _spread(owner: Metadata, over: str) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": over,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": names.selector(owner, EXECUTOR),
    }


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
