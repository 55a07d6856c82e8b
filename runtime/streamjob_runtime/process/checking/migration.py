"""Changes state to the form that a job needs, without running the job, and writes the result as a savepoint."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.comparison.refusals import InFlightDataLost
from streamjob.comparison.snapshot_job import kept_notes, records_in_flight
from streamjob.comparison.verdicts import Comparison, Finding, Kind, refused
from streamjob.errors import StreamJobError
from streamjob.ids import ChainUid
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import plan
from streamjob.migration.records import MigrationRecord
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import FileRef
from streamjob.stored.start_snapshot import Found, job_location
from streamjob_runtime.checkpointing.savepoints import Savepoint, savepoint_location
from streamjob_runtime.migrating.watching import Migrating, MigrationWatch, Step
from streamjob_runtime.process.checking.cut_at_start import CutAtStart
from streamjob_runtime.process.checking.part_checks import check_parts
from streamjob_runtime.process.checking.start_check import AskSpark, Judged, judged
from streamjob_runtime.spark.checkpoint_dir.hold import hold
from streamjob_runtime.spark.text.text_forms import writer_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """A row of state as JSON values: as it was, and as it is; None on a side that has no row with this key."""

    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass
class MigrationReport:
    """What a migration has done.

    Args:
        savepoint: the URI of the savepoint's manifest; None if nothing was written.
        records: the migrations of operators.
        samples: a few rows of each, in the order of `records`.
        partitions: the number of state partitions.
        bytes_before: the size of the snapshot's files.
        bytes_after: the size of the savepoint's files, or of those that it would have.
        seconds: the time from the first byte that is read to the last one that is written.
    """

    savepoint: str | None = None
    records: list[MigrationRecord] = field(default_factory=list)
    samples: list[tuple[Sample, ...]] = field(default_factory=list)
    partitions: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    seconds: float = 0.0


class Migrator:
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

    def __init__(
        self,
        ask: AskSpark,
        location: str | None,
        target: str | None,
        *,
        write: bool,
        strict: bool,
        note: Callable[[str], None],
    ) -> None:
        self._ask = ask
        self._location = location
        self._target = target
        self._write = write
        self._strict = strict
        self._note = note
        self.report = MigrationReport()

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
        if found is None or compared.refusals:
            return compared
        compared = compared.noting(_in_flight(found))
        if compared.refusals:
            return compared
        spark, scratch = self._ask(loaded, compared.max_parallelism)
        check_parts(spark, loaded)
        begun, watch = time.monotonic(), _Watch(self._note)
        self._note(f"bringing {found.uri}")
        whole = judged(
            spark, scratch, loaded, found, compared, allow, job, strict=self._strict, whole=True, watch=watch
        )
        if whole.compared.refusals or whole.restoration is None:
            return whole.compared
        self.report = MigrationReport(
            records=watch.records,
            samples=watch.samples,
            partitions=compared.max_parallelism,
            bytes_before=found.manifest.state_size(),
        )
        self._save(loaded, found, whole, job, scratch / "holds")
        self.report.seconds = time.monotonic() - begun
        return whole.compared

    def _save(self, loaded: LoadedJob, found: Found, whole: Judged, job: JobId, holds: Path) -> None:
        assert whole.restoration is not None
        cut = CutAtStart(found.manifest, plan(loaded.spec), whole.restoration, whole.dataflows)
        held = {}
        for uid, dataflow in cut.running():
            start = whole.restoration.start(uid, dataflow)
            held[uid] = hold(start.checkpoint, start.batch, holds / uid, dataflow.directories)
        sizes = [(each.directory / path).stat().st_size for each in held.values() for path in each.files]
        self.report.bytes_after = sum(sizes)
        if not self._write or not self.report.records:
            return
        store = job_location(loaded, self._location).job(job.namespace, job.name).store()
        try:
            place = savepoint_location(store.uri, self._target, job.name, found.manifest.id, uuid.uuid4().hex[:8])
            self._note(f"writing {place.uri}")
            savepoint = Savepoint(place, store.uri)
        finally:
            store.close()
        graph = {
            **graph_of(loaded.spec, loaded.directory),
            "maxParallelism": whole.compared.max_parallelism,
            **kept_notes(
                found.manifest.graph, [each.model_dump(mode="json", by_alias=True) for each in self.report.records]
            ),
        }
        try:
            files: Mapping[ChainUid, tuple[FileRef, ...]] = {
                uid: savepoint.target.upload(each) for uid, each in held.items()
            }
            savepoint.write(cut.manifest(job, graph, files, time.time()))
        except BaseException:
            with suppress(StreamJobError):
                savepoint.discard()
            raise
        finally:
            savepoint.close()
        self.report.savepoint = savepoint.uri


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


class _Watch(MigrationWatch):
    """Keeps the records of migrations, and a few rows of each before and after it."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._before: dict[str, dict[str, Any]] = {}
        self._after: dict[str, dict[str, Any]] = {}
        self.records: list[MigrationRecord] = []
        self.samples: list[tuple[Sample, ...]] = []

    def migrating(self, step: Migrating) -> None:
        """Read a few rows, or their successors."""
        self._note(f"{step.step} the state of {' or '.join(step.operators)}")
        if step.step is Step.READING:
            self._before, self._after = _rows(step.rows()), {}
        elif step.step is Step.VERIFYING:
            rows = step.rows()
            same = rows.where(rows["key"].cast("string").isin(list(self._before)))
            # Keys that have changed themselves have no successor that could be told by its key.
            self._after = _rows(same) or _rows(rows)

    def migrated(self, record: MigrationRecord) -> None:
        """Keep a record."""
        self.records.append(record)
        keys = dict.fromkeys((*self._before, *self._after))
        self.samples.append(tuple(Sample(self._before.get(key), self._after.get(key)) for key in keys))


def _rows(rows: DataFrame) -> dict[str, dict[str, Any]]:
    """Return a few rows of state as JSON values, by their keys as text."""
    from pyspark.sql import functions as f

    options = writer_options("json", {"ignoreNullFields": "false"})
    texts = rows.select(rows["key"].cast("string"), f.to_json(f.struct("key", "value"), options)).limit(_SAMPLES)
    return {str(key): json.loads(text) for key, text in texts.collect()}
