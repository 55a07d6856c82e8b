"""Writes the CRDs from the models: `python -m streamjob_operator.resources.crd [DIRECTORY]`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from streamjob.job.model.spec import JobSpec
from streamjob_operator.resources import rules
from streamjob_operator.resources.base import GROUP, VERSION
from streamjob_operator.resources.conditions import ConditionType
from streamjob_operator.resources.parts import Checkpointing
from streamjob_operator.resources.schema import structural_schema
from streamjob_operator.resources.snapshot import StreamSnapshotSpec, StreamSnapshotStatus
from streamjob_operator.resources.status import StreamJobStatus
from streamjob_operator.resources.streamjob import StreamJobSpec

Schema = dict[str, Any]

_HEAD = "# Written by `python -m streamjob_operator.resources.crd` from the models; change it there.\n"
_LONG_AGO = "1970-01-01T00:00:00Z"
_WAITING = {"reason": "Pending", "message": "Waiting for the controller", "lastTransitionTime": _LONG_AGO}


def crds() -> dict[str, Schema]:
    """Return the CRDs by the names of their files."""
    made = (_stream_job(), _stream_snapshot())
    return {f"{GROUP}_{each['spec']['names']['plural']}.yaml": each for each in made}


def render(crd: Mapping[str, Any]) -> str:
    """Return a CRD as the text of its file."""
    return _HEAD + yaml.dump(dict(crd), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


def write(directory: Path) -> list[Path]:
    """Write the CRDs into a directory, and return their files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for name, crd in crds().items():
        file = directory / name
        file.write_text(render(crd), encoding="utf-8")
        files.append(file)
    return files


def _stream_job() -> Schema:
    spec = structural_schema(StreamJobSpec, with_defaults=True)
    fields = spec["properties"]
    # A default in these would override `job`; the driver knows the defaults.
    checkpointing = structural_schema(Checkpointing, with_defaults=False)
    fields["checkpointing"] = {**checkpointing, "description": fields["checkpointing"]["description"]}
    fields["job"] = {**_job(checkpointing), "description": fields["job"]["description"]}
    fields["autoscaling"] = _with_rules(fields["autoscaling"], rules.AUTOSCALING)
    fields["savepoints"] = _with_rules(fields["savepoints"], rules.SAVEPOINTS)
    for pod in ("driver", "executor"):
        fields[pod] = _with_rules(fields[pod], rules.POD)
    spec = _with_rules(spec, rules.STREAM_JOB_SPEC)
    waiting = [(ConditionType.READY, "Unknown"), (ConditionType.RECONCILING, "True")]
    status = _with_waiting(
        structural_schema(StreamJobStatus, with_defaults=False, with_bounds=False), waiting, "lifecycleState", "CREATED"
    )
    return _crd(
        "StreamJob",
        plural="streamjobs",
        short="sj",
        description="A checkpointed streaming job on Spark.",
        spec=spec,
        status=status,
        rules_of_resource=rules.STREAM_JOB,
        columns=[
            _column("State", ".status.lifecycleState", "Lifecycle state of the StreamJob"),
            _column("Job", ".status.jobStatus.state", "State that the driver reported last"),
            _column(
                "Ready",
                ".status.conditions[?(@.type=='Ready')].status",
                "Whether the spec runs and has completed a checkpoint",
            ),
            _column("Checkpoint", ".status.checkpoint.lastCompleted.id", "The last completed checkpoint", "integer"),
            _column("Taken", ".status.checkpoint.lastCompleted.completed", "Time since its completion", "date"),
            _column("Restarts", ".status.jobStatus.restarts", "Restarts after failures", "integer"),
            _column("Age", ".metadata.creationTimestamp", "Age of the StreamJob", "date"),
            _column("Next run", ".status.schedule.nextRun", "When the next run is due", wide=True),
            _column("Executors", ".status.executors.ready", "Executors that are ready", "integer", wide=True),
            _column("Parallelism", ".status.replicas", "Running task slots", "integer", wide=True),
            _column(
                "Savepoint", ".status.savepoint.lastCompleted.sizeBytes", "Bytes of the last", "integer", wide=True
            ),
            _column("Attempt", ".status.jobStatus.attempt", "Number of the driver", "integer", wide=True),
            _column("Revision", ".status.reconciliation.lastReconciledRevision", "Revision of the driver", wide=True),
            _column(
                "Message", ".status.conditions[?(@.type=='Ready')].message", "Message of the condition Ready", wide=True
            ),
        ],
        scale={
            "specReplicasPath": ".spec.parallelism",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    )


def _job(checkpointing: Schema) -> Schema:
    """Return the schema of a job file's content in a StreamJob, which gives the job its name."""
    job = structural_schema(JobSpec, with_defaults=False)
    fields = job["properties"]
    job["required"] = [name for name in job["required"] if name != "name"]
    if not job["required"]:
        del job["required"]
    fields["checkpointing"] = {**checkpointing, "description": fields["checkpointing"]["description"]}
    for parts in ("sources", "tables", "operators", "sinks"):
        fields[parts] |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    return job


def _stream_snapshot() -> Schema:
    spec = _with_rules(structural_schema(StreamSnapshotSpec, with_defaults=True), rules.SNAPSHOT_SPEC)
    waiting = [(ConditionType.READY, "False"), (ConditionType.RECONCILING, "True")]
    status = _with_waiting(
        structural_schema(StreamSnapshotStatus, with_defaults=False, with_bounds=False), waiting, "state", "Pending"
    )
    return _crd(
        "StreamSnapshot",
        plural="streamsnapshots",
        short="ss",
        description="A savepoint, or a checkpoint on demand, of a StreamJob.",
        spec=spec,
        status=status,
        rules_of_resource=(),
        columns=[
            _column("Job", ".spec.jobRef.name", "The StreamJob"),
            _column("State", ".status.state", "State of the StreamSnapshot"),
            _column("Bytes", ".status.sizeBytes", "Size of all files that it refers to", "integer"),
            _column("Taken", ".status.resultTimestamp", "Time since it completed, failed or was abandoned", "date"),
            _column("Age", ".metadata.creationTimestamp", "Age of the StreamSnapshot", "date"),
            _column("Path", ".status.path", "URI of its manifest", wide=True),
            _column("Error", ".status.error", "Why it failed last", wide=True),
        ],
    )


def _with_rules(schema: Schema, added: Iterable[Mapping[str, Any]]) -> Schema:
    return {**schema, "x-kubernetes-validations": [dict(each) for each in added]}


def _with_waiting(status: Schema, waiting: Iterable[tuple[str, str]], field: str, state: str) -> Schema:
    """Add the default status that holds until the controller writes one. Without conditions, kstatus would call it
    current."""
    conditions = [{"type": str(kind), "status": value, **_WAITING} for kind, value in waiting]
    return {**status, "default": {field: state, "conditions": conditions}}


def _column(name: str, path: str, description: str, kind: str = "string", *, wide: bool = False) -> Schema:
    column: Schema = {"name": name, "type": kind, "description": description, "jsonPath": path}
    return {**column, "priority": 1} if wide else column


def _crd(
    kind: str,
    *,
    plural: str,
    short: str,
    description: str,
    spec: Schema,
    status: Schema,
    rules_of_resource: Iterable[Mapping[str, Any]],
    columns: list[Schema],
    scale: Mapping[str, str] | None = None,
) -> Schema:
    resource: Schema = {
        "type": "object",
        "description": description,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
    found = list(rules_of_resource)
    subresources: Schema = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short],
                # kubectl takes a category before a name: `streamjob` would hide the kind of that name.
                "categories": ["streams"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _with_rules(resource, found) if found else resource},
                    "subresources": subresources if scale is None else {**subresources, "scale": dict(scale)},
                    "additionalPrinterColumns": columns,
                }
            ],
        },
    }


class _Dumper(yaml.SafeDumper):
    """Writes lists below their key, as Kubernetes' own tools do, and nothing by reference."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


if __name__ == "__main__":
    for written in write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("crds")):
        sys.stdout.write(f"{written}\n")
