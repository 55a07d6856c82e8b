"""Changes state to the form that a job needs, without running the job, and writes the result as a savepoint."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.comparison.refusals import InFlightDataLost
from streamjob.comparison.snapshot_job import kept_notes, records_in_flight
from streamjob.comparison.verdicts import Comparison, Finding, Kind, refused
from streamjob.errors import StreamJobError
from streamjob.ids import NO_BATCH
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import plan
from streamjob.migration.records import MigrationRecord
from streamjob.protocol.log.records import JobId
from streamjob.stored.start_snapshot import Found, job_location
from streamjob_runtime.checkpointing.savepoints import Savepoint, savepoint_location
from streamjob_runtime.migrating.transforming import OperatorMigration
from streamjob_runtime.migrating.watching import MigrationWatch, Step, lost_keys
from streamjob_runtime.process.checking.cut_at_start import CutAtStart
from streamjob_runtime.process.checking.part_checks import check_parts
from streamjob_runtime.process.checking.start_check import AskSpark, Judged, judged
from streamjob_runtime.spark.checkpoint_dir.hold import hold
from streamjob_runtime.spark.text.text_forms import writer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FEW = 3


@dataclass
class Seen:
    """A few rows and keys of a migrated state, as JSON values by the names of their columns.

    Args:
        samples: rows: `before`, as it was, and `after`, as it is; None on a side that has no row with its key.
        merged: the new keys of several former rows: `key`, and `rows`, how many.
        vanished: the former keys without a row in the new state: `key`.
    """

    samples: list[Any] = field(default_factory=list)
    merged: list[Any] = field(default_factory=list)
    vanished: list[Any] = field(default_factory=list)


@dataclass
class MigrationReport:
    """What a migration has done.

    Args:
        savepoint: the URI of the savepoint's manifest; None if nothing was written.
        records: the migrations of operators.
        seen: a part of each state, in the order of `records`.
        partitions: the number of state partitions.
        bytes_before: the size of the snapshot's files.
        bytes_after: the size of the savepoint's files, or of those that it would have.
        seconds: the time from the first byte that is read to the last one that is written.
    """

    savepoint: str | None = None
    records: list[MigrationRecord] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    partitions: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    seconds: float = 0.0


@dataclass
class Migrator(MigrationWatch):
    """Examines a start by doing with the state what a start does, and writes the result; see `compare_start`.

    Nothing is written if any part of the job refuses the start, or no state changes. The manifest is written last, so
    that what an interrupted migration leaves is no savepoint.

    Args:
        ask: returns the Spark that changes the state.
        location: the location of the job's snapshots; None for the job file's.
        target: a directory for the savepoint; None for the job's own.
        write: whether to write it.
        strict: refuse state that can be changed to its new form only with a gap.
        note: receives a description of work that takes long.
    """

    ask: AskSpark
    location: str | None
    target: str | None
    _: KW_ONLY
    write: bool
    strict: bool
    note: Callable[[str], None]
    report: MigrationReport = field(default_factory=MigrationReport, init=False)
    _before: dict[str, Any] = field(default_factory=dict, init=False)
    _seen: dict[tuple[tuple[str, ...], int], Seen] = field(default_factory=dict, init=False)

    def __call__(
        self, loaded: LoadedJob, found: Found | None, compared: Comparison, allow: bool, job: JobId
    ) -> Comparison:
        """Return the comparison extended by what Spark has found.

        Raises:
            InvalidInput: Spark refuses parts of the job.
            CannotRestore: the snapshot's files are unusable, or its state could not be changed.
            StoreError: a store failed.
        """
        self.report = MigrationReport()
        if found is not None and not compared.refusals:
            compared = compared.noting(_in_flight(found))
        if found is None or compared.refusals:
            return compared
        spark, scratch = self.ask(loaded, compared.max_parallelism)
        check_parts(spark, loaded)
        begun = time.monotonic()
        self.note(f"bringing {found.uri}")
        whole = judged(spark, scratch, loaded, found, compared, allow, job, strict=self.strict, whole=True, watch=self)
        if whole.compared.refusals or whole.restoration is None:
            self.report = MigrationReport()
            return whole.compared
        self.report.partitions, self.report.bytes_before = compared.max_parallelism, found.manifest.state_size()
        self._save(loaded, found, whole, job, scratch / "holds")
        self.report.seconds = time.monotonic() - begun
        return whole.compared

    def _save(self, loaded: LoadedJob, found: Found, whole: Judged, job: JobId, holds: Path) -> None:
        assert whole.restoration is not None
        cut = CutAtStart(found.manifest, plan(loaded.spec), whole.restoration, whole.dataflows)
        held = {}
        for uid, dataflow in whole.dataflows.items():
            start = whole.restoration.start(uid, dataflow)
            if start.batch != NO_BATCH:
                held[uid] = hold(start.checkpoint, start.batch, holds / uid, dataflow.directories)
        sizes = [(each.directory / path).stat().st_size for each in held.values() for path in each.files]
        self.report.bytes_after = sum(sizes)
        if not self.write or not self.report.records:
            return
        with closing(job_location(loaded, self.location).job(job.namespace, job.name).store()) as store:
            place = savepoint_location(store.uri, self.target, job.name, found.manifest.id, uuid.uuid4().hex[:8])
            self.note(f"writing {place.uri}")
            savepoint = Savepoint(place, store.uri)
        records = [each.model_dump(mode="json", by_alias=True) for each in self.report.records]
        graph = graph_of(loaded.spec, loaded.directory) | kept_notes(found.manifest.graph, records)
        graph["maxParallelism"] = whole.compared.max_parallelism
        try:
            files = {uid: savepoint.target.upload(each) for uid, each in held.items()}
            savepoint.write(cut.manifest(job, graph, files, time.time()))
        except BaseException:
            with suppress(StreamJobError):
                savepoint.discard()
            raise
        finally:
            savepoint.close()
        self.report.savepoint = savepoint.uri

    def migrating(self, each: OperatorMigration, step: Step) -> None:
        """Read a few rows and keys, or the successors of the rows."""
        self.note(f"{step} the state of {' or '.join(each.operators)}")
        if step is Step.READING:
            self._before = _rows(each.shown_rows(each.before))
            merged, vanished = (_few(keys, "*") for keys in lost_keys(each))
            self._seen[each.operators, each.number] = Seen([], merged, vanished)
        elif step is Step.VERIFYING:
            rows = each.shown_rows(each.after)
            same = rows.where(rows["key"].cast("string").isin(list(self._before)))
            # Keys that have changed themselves have no successor that could be told by its key.
            after = _rows(same) or _rows(rows)
            self._seen[each.operators, each.number].samples = [
                {"before": self._before.get(key), "after": after.get(key)}
                for key in dict.fromkeys((*self._before, *after))
            ]

    def migrated(self, record: MigrationRecord, number: int) -> None:
        """Keep a record, and what was seen."""
        self.report.records.append(record)
        self.report.seen.append(self._seen[record.operators, number])


def _in_flight(found: Found) -> list[Finding]:
    refusals = []
    for channel in found.manifest.channels:
        if count := records_in_flight(channel):
            error = InFlightDataLost(
                f"Snapshot {found.uri} has {count} records in flight from {channel.source!r} to {channel.target!r}, "
                "and a migration carries over state only",
                "migrate a savepoint of the job: it has nothing in flight; or start the job, which migrates by itself",
            )
            refusals.append(refused(Kind.CHANNEL, f"{channel.source} -> {channel.target}", error))
    return refusals


def _rows(rows: DataFrame) -> dict[str, Any]:
    """Return a few rows of state as JSON values, by their keys as text."""
    return {each["id"]: each["row"] for each in _few(rows, "CAST(key AS STRING) AS id", "row")}


def _few(rows: DataFrame | None, *columns: str) -> list[Any]:
    """Return a few rows as JSON values."""
    from pyspark.sql import functions as f

    if rows is None:
        return []
    options = writer_options("json", {"ignoreNullFields": "false"})
    texts = rows.selectExpr(*columns).limit(_FEW).select(f.to_json(f.struct("*"), options))
    return [json.loads(text) for (text,) in texts.collect()]
