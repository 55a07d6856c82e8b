"""A job's graph as OpenLineage events; a pure function.

Specification: OpenLineage 2-0-2, https://openlineage.io/docs/spec.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from streamjob.job.model.spec import JobSpec, SinkSpec, SourceSpec, TableSpec
from streamjob.job.query import ddl
from streamjob_runtime.lineage.columns import Columns, Field, columns_of
from streamjob_runtime.lineage.datasets import Dataset

EventType = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT"]
Schema = Sequence[tuple[str, str]]
"""Names and types of columns, in their order."""

_SPEC = "https://openlineage.io/spec"
_RUN_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_RUNS = uuid.UUID("6f6a1dd0-5c0e-5b0a-9d2e-1a3c8a0b7e51")
"""The namespace of the ids of runs."""
_VERSIONS = {
    "ColumnLineageDatasetFacet": "1-2-0",
    "ErrorMessageRunFacet": "1-0-1",
    "JobTypeJobFacet": "2-0-4",
    "NominalTimeRunFacet": "1-0-1",
    "ParentRunFacet": "1-2-0",
    "ProcessingEngineRunFacet": "1-1-1",
    "SQLJobFacet": "1-1-0",
    "SchemaDatasetFacet": "1-2-0",
}
_LONGEST_ERROR = 10_000


@dataclass(frozen=True, slots=True)
class Parent:
    """The run that started this one, such as that of a task of Airflow."""

    namespace: str
    job: str
    run: str


@dataclass(frozen=True, slots=True)
class LineageOfJob:
    """All that a job's events say in every epoch.

    Args:
        namespace: OpenLineage's namespace of the job.
        name: the job's name.
        identity: distinguishes the job from others of the same name: where its snapshots are.
        datasets: what each source, table and sink reads or writes, by name.
        version: of streamjob.
        spark: the version of Spark.
        interval: seconds between two RUNNING events.
        parent: the run that started this one.
    """

    namespace: str
    name: str
    identity: str
    spec: JobSpec
    datasets: Mapping[str, tuple[Dataset, ...]]
    version: str
    spark: str
    interval: int
    parent: Parent | None = None

    @property
    def producer(self) -> str:
        """The URI that names this program in events."""
        return f"urn:streamjob:{self.version}"


@dataclass(frozen=True, slots=True)
class Moment:
    """The parts that change from event to event.

    Args:
        kind: what has happened.
        at: when, in seconds since 1970.
        epoch: the job's epoch, which is the run.
        began: when the epoch began, in seconds since 1970.
        schemas: the columns that each sink gets, by name, as far as they are known.
        failure: why the epoch failed.
    """

    kind: EventType
    at: float
    epoch: int
    began: float
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    failure: str | None = None


def run_id(job: LineageOfJob, epoch: int) -> str:
    """Return the id of the run of an epoch; the same in every process."""
    return str(uuid.uuid5(_RUNS, f"{job.identity}\n{epoch}"))


def event(job: LineageOfJob, moment: Moment) -> dict[str, Any]:
    """Return an event as JSON values."""
    columns = columns_of(job.spec, job.datasets)
    return {
        "eventType": moment.kind,
        "eventTime": _time(moment.at),
        "producer": job.producer,
        "schemaURL": _RUN_EVENT,
        "run": {"runId": run_id(job, moment.epoch), "facets": _run_facets(job, moment)},
        "job": {"namespace": job.namespace, "name": job.name, "facets": _job_facets(job)},
        "inputs": _inputs(job),
        "outputs": _outputs(job, moment, columns),
    }


def _run_facets(job: LineageOfJob, moment: Moment) -> dict[str, Any]:
    facets = {
        "processing_engine": _facet(
            job,
            "ProcessingEngineRunFacet",
            {"name": "spark", "version": job.spark, "openlineageAdapterVersion": job.version},
        ),
        "nominalTime": _facet(job, "NominalTimeRunFacet", {"nominalStartTime": _time(moment.began)}),
    }
    if job.parent is not None:
        parent = {
            "run": {"runId": job.parent.run},
            "job": {"namespace": job.parent.namespace, "name": job.parent.job},
        }
        facets["parent"] = _facet(job, "ParentRunFacet", parent)
    if moment.failure is not None:
        message = {"message": moment.failure[:_LONGEST_ERROR], "programmingLanguage": "PYTHON"}
        facets["errorMessage"] = _facet(job, "ErrorMessageRunFacet", message)
    return facets


def _job_facets(job: LineageOfJob) -> dict[str, Any]:
    emission = {
        "eventTrigger": "PERIODIC",
        "eventContentMode": "COMPLETE_SNAPSHOT",
        "windowDuration": max(1, job.interval),
    }
    kind = {"processingType": "STREAMING", "integration": "SPARK", "jobType": "JOB", "emissionPattern": emission}
    facets = {"jobType": _facet(job, "JobTypeJobFacet", kind)}
    queries = [each for each in job.spec.operators if each.sql is not None]
    if len(queries) == 1:
        facets["sql"] = _facet(job, "SQLJobFacet", {"query": queries[0].sql, "dialect": "spark"})
    return facets


def _inputs(job: LineageOfJob) -> list[dict[str, Any]]:
    found: dict[Dataset, dict[str, Any]] = {}
    parts: tuple[SourceSpec | TableSpec, ...] = (*job.spec.sources, *job.spec.tables)
    for part in parts:
        facets = {}
        if part.schema_ddl is not None and (schema := _declared(part.schema_ddl)):
            facets["schema"] = _schema(job, schema)
        for each in job.datasets[part.name]:
            found.setdefault(each, {}).update(facets)
    return [_dataset(each, facets) for each, facets in found.items()]


def _outputs(job: LineageOfJob, moment: Moment, columns: Mapping[str, Columns]) -> list[dict[str, Any]]:
    found: dict[Dataset, dict[str, Any]] = {}
    for sink in job.spec.sinks:
        facets: dict[str, Any] = {}
        schema = moment.schemas.get(sink.name)
        if schema:
            facets["schema"] = _schema(job, schema)
        if (lineage := _column_lineage(job, sink, columns.get(sink.input), schema)) is not None:
            facets["columnLineage"] = lineage
        for each in job.datasets[sink.name]:
            found.setdefault(each, {}).update(facets)
    return [_dataset(each, facets) for each, facets in found.items()]


def _column_lineage(
    job: LineageOfJob, sink: SinkSpec, columns: Columns | None, schema: Schema | None
) -> dict[str, Any] | None:
    if columns is None:
        return None
    spelled = {name.lower(): name for name, _ in schema or ()}
    fields = {
        spelled.get(name.lower(), name): {"inputFields": [_field(each) for each in sorted(used)]}
        for name, used in columns.fields.items()
        if used
    }
    if not fields:
        return None
    content: dict[str, Any] = {"fields": fields}
    if columns.used:
        content["dataset"] = [_field(each) for each in sorted(columns.used)]
    return _facet(job, "ColumnLineageDatasetFacet", content)


def _field(used: Field) -> dict[str, Any]:
    kind = "INDIRECT" if used.subtype in ("FILTER", "GROUP_BY", "JOIN") else "DIRECT"
    return {
        "namespace": used.dataset.namespace,
        "name": used.dataset.name,
        "field": used.column,
        "transformations": [{"type": kind, "subtype": used.subtype}],
    }


def _declared(schema: str) -> Schema:
    try:
        return list(ddl.columns(schema).items())
    except ddl.NotASchema:
        return ()


def _schema(job: LineageOfJob, schema: Schema) -> dict[str, Any]:
    fields = [
        {"name": name, "type": kind, "ordinal_position": position}
        for position, (name, kind) in enumerate(schema, start=1)
    ]
    return _facet(job, "SchemaDatasetFacet", {"fields": fields})


def _dataset(dataset: Dataset, facets: Mapping[str, Any]) -> dict[str, Any]:
    return {"namespace": dataset.namespace, "name": dataset.name, "facets": dict(facets)}


def _facet(job: LineageOfJob, name: str, content: Mapping[str, Any]) -> dict[str, Any]:
    url = f"{_SPEC}/facets/{_VERSIONS[name]}/{name}.json#/$defs/{name}"
    return {"_producer": job.producer, "_schemaURL": url, **content}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
