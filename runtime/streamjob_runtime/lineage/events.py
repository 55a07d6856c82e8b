"""A job's graph as OpenLineage events; a pure function. Needs the extra `lineage`."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from importlib.metadata import version

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState, set_producer
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    RunFacet,
    column_lineage_dataset,
    error_message_run,
    job_type_job,
    nominal_time_run,
    parent_run,
    processing_engine_run,
    schema_dataset,
    sql_job,
)

from streamjob.job.connectors.datasets import Dataset
from streamjob.job.model.spec import SourceSpec, TableSpec
from streamjob.job.query import ddl
from streamjob_runtime.lineage.columns import Columns, Field, columns_of
from streamjob_runtime.lineage.content import LineageOfJob, Moment, Schema

_RUNS = uuid.UUID("6f6a1dd0-5c0e-5b0a-9d2e-1a3c8a0b7e51")
"""The namespace of the ids of runs."""
_VERSION = version("streamjob")
_LONGEST_ERROR = 10_000

set_producer(f"urn:streamjob:{_VERSION}")


def run_id(job: LineageOfJob, epoch: int) -> str:
    """Return the id of the run of an epoch; the same in every process."""
    return str(uuid.uuid5(_RUNS, f"{job.identity}\n{epoch}"))


def event(job: LineageOfJob, moment: Moment) -> RunEvent:
    """Return an event."""
    return RunEvent(
        eventType=RunState[moment.kind],
        eventTime=_time(moment.at),
        run=Run(run_id(job, moment.epoch), _run_facets(job, moment)),
        job=Job(job.namespace, job.name, _job_facets(job)),
        inputs=_inputs(job),
        outputs=_outputs(job, moment),
    )


def _run_facets(job: LineageOfJob, moment: Moment) -> dict[str, RunFacet]:
    facets: dict[str, RunFacet] = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(job.spark, "spark", _VERSION),
        "nominalTime": nominal_time_run.NominalTimeRunFacet(_time(moment.began)),
    }
    if job.parent is not None:
        facets["parent"] = parent_run.ParentRunFacet(
            parent_run.Run(job.parent.run), parent_run.Job(job.parent.namespace, job.parent.job)
        )
    if moment.failure is not None:
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(moment.failure[:_LONGEST_ERROR], "PYTHON")
    return facets


def _job_facets(job: LineageOfJob) -> dict[str, JobFacet]:
    emission = job_type_job.EmissionPattern("PERIODIC", "COMPLETE_SNAPSHOT", max(1, job.interval))
    facets: dict[str, JobFacet] = {"jobType": job_type_job.JobTypeJobFacet("STREAMING", "SPARK", "JOB", emission)}
    queries = [each.sql for each in job.spec.operators if each.sql is not None]
    if len(queries) == 1:
        facets["sql"] = sql_job.SQLJobFacet(queries[0], "spark")
    return facets


def _inputs(job: LineageOfJob) -> list[InputDataset]:
    found: dict[Dataset, dict[str, DatasetFacet]] = {}
    parts: tuple[SourceSpec | TableSpec, ...] = (*job.spec.sources, *job.spec.tables)
    for part in parts:
        schema = _schema(_declared(part.schema_ddl))
        for each in job.datasets[part.name]:
            found.setdefault(each, {}).update(schema)
    return [InputDataset(each.namespace, each.name, facets=facets) for each, facets in found.items()]


def _outputs(job: LineageOfJob, moment: Moment) -> list[OutputDataset]:
    found: dict[Dataset, dict[str, DatasetFacet]] = {}
    columns = columns_of(job.spec, job.datasets)
    for sink in job.spec.sinks:
        schema = moment.schemas.get(sink.name, ())
        facets = _schema(schema) | _column_lineage(columns.get(sink.input), schema)
        for each in job.datasets[sink.name]:
            found.setdefault(each, {}).update(facets)
    return [OutputDataset(each.namespace, each.name, facets=facets) for each, facets in found.items()]


def _column_lineage(columns: Columns | None, schema: Schema) -> dict[str, DatasetFacet]:
    if columns is None:
        return {}
    spelled = {name.lower(): name for name, _ in schema}
    fields = {
        spelled.get(name.lower(), name): column_lineage_dataset.Fields([_field(each) for each in sorted(used)])
        for name, used in columns.fields.items()
        if used
    }
    if not fields:
        return {}
    rows = [_field(each) for each in sorted(columns.used)]
    return {"columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(fields, rows)}


def _field(used: Field) -> column_lineage_dataset.InputField:
    kind = "INDIRECT" if used.subtype in ("FILTER", "GROUP_BY", "JOIN") else "DIRECT"
    transformation = column_lineage_dataset.Transformation(kind, used.subtype)
    return column_lineage_dataset.InputField(used.dataset.namespace, used.dataset.name, used.column, [transformation])


def _declared(schema: str | None) -> Schema:
    try:
        return () if schema is None else list(ddl.columns(schema).items())
    except ddl.NotASchema:
        return ()


def _schema(schema: Schema) -> dict[str, DatasetFacet]:
    if not schema:
        return {}
    fields = [
        schema_dataset.SchemaDatasetFacetFields(name, kind, ordinal_position=position)
        for position, (name, kind) in enumerate(schema, start=1)
    ]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields)}


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
