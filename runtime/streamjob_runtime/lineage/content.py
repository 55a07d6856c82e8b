"""What events are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from streamjob.job.connectors.datasets import Dataset
from streamjob.job.model.spec import JobSpec
from streamjob_runtime.lineage.settings import Parent

EventType = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT"]
Schema = Sequence[tuple[str, str]]
"""Names and types of columns, in their order."""


@dataclass(frozen=True, slots=True)
class LineageOfJob:
    """All that a job's events say in every epoch.

    Args:
        namespace: OpenLineage's namespace of the job.
        identity: distinguishes the job from others of the same name: where its snapshots are.
        datasets: what each source, table and sink reads or writes, by name.
        spark: the version of Spark.
        interval: seconds between two RUNNING events.
        parent: the run that started this one.
    """

    namespace: str
    name: str
    identity: str
    spec: JobSpec
    datasets: Mapping[str, tuple[Dataset, ...]]
    spark: str
    interval: int
    parent: Parent | None = None


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
