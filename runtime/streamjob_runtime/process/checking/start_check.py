"""Finds problems of a start that the graphs do not show, by asking the sinks, Kafka, and Spark, which plans the job."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.comparison.compatibility import Restored
from streamjob.comparison.refusals import StateChanged
from streamjob.comparison.verdicts import Comparison, Finding, Kind, refused
from streamjob.errors import StreamJobError
from streamjob.ids import ChainUid, Epoch
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import ChainPlan, plan
from streamjob.protocol.log.records import JobId, read
from streamjob.sink import StagedRowsGone
from streamjob.store.effects import drive
from streamjob.stored.start_snapshot import Found, job_location
from streamjob_runtime.job.output_recovery import published_beyond
from streamjob_runtime.process.checking.asking import spark_to_ask
from streamjob_runtime.process.checking.part_checks import check_parts
from streamjob_runtime.process.checking.whole_input import whole_input
from streamjob_runtime.restoring.download import SnapshotFileCorrupt, SnapshotFileMissing
from streamjob_runtime.restoring.state_matching import describes
from streamjob_runtime.sinks.checking.left_staged import left_staged
from streamjob_runtime.sinks.checking.previewing import preview_sinks, previewed_published
from streamjob_runtime.sinks.checking.verifying import verify_sinks
from streamjob_runtime.sinks.factory import SinkSurroundings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamjob_runtime.chain.dataflow import Dataflow
    from streamjob_runtime.migrating.watching import MigrationWatch
    from streamjob_runtime.restoring.restoration import Restoration

AskSpark = Callable[[LoadedJob, int], "tuple[SparkSession, Path]"]
"""Returns a session for a job with a number of state partitions, and a directory that does not exist yet."""


class SparkToAsk:
    """A Spark that starts when it is asked first, and serves all comparisons of a process."""

    def __init__(self, start: AskSpark) -> None:
        self._start = start
        self._started: tuple[SparkSession, Path] | None = None
        self._asked = 0

    def __call__(self, loaded: LoadedJob, max_parallelism: int) -> tuple[SparkSession, Path]:
        """Return the session and a directory. Raises what `start` raises."""
        if self._started is None:
            self._started = self._start(loaded, max_parallelism)
        spark, scratch = self._started
        spark.conf.set("spark.sql.shuffle.partitions", max_parallelism)
        self._asked += 1
        return spark, scratch / str(self._asked)


def embedded_spark(stack: ExitStack, command: str = "check", slots: int = 1) -> SparkToAsk:
    """Return an embedded Spark that the stack stops, for a command. Asking it raises as `spark_to_ask`."""
    return SparkToAsk(lambda loaded, partitions: stack.enter_context(spark_to_ask(command, loaded, partitions, slots)))


def examine(
    loaded: LoadedJob,
    found: Found | None,
    compared: Comparison,
    allow: bool,
    job: JobId,
    *,
    ask: AskSpark | None,
    location: str | None = None,
    latest: bool = False,
    strict: bool = False,
) -> Comparison:
    """Return a comparison extended by problems beyond the graphs, if the graphs allow the start.

    If the job starts from the newest completion of its log, the log is compared with what the sinks have published.

    Args:
        found: the snapshot; None for a start from nothing.
        compared: the comparison of the graphs.
        allow: discard state for which the job has no operator.
        ask: returns the Spark that plans the job; None to ask only sinks that need none.
        location: the location of the job's snapshots; None for the job file's.
        latest: whether the job starts from the newest completion of its log.
        strict: refuse state that can be changed to its new form only with a gap.

    Raises:
        InvalidInput: Spark refuses parts of the job.
        CannotRestore: the snapshot's files are unusable.
        StoreError: the store failed.
    """

    def with_output(examined: Comparison, spark: SparkSession | None = None) -> Comparison:
        return compare_with_output(loaded, location, examined, job, spark) if latest else examined

    if compared.refusals:
        return with_output(compared)
    surroundings = _surroundings(loaded, job)
    compared = compared.noting(preview_sinks(loaded.spec.sinks, surroundings))
    if found is not None and found.foreign:
        compared = compared.adding(Kind.SINK, _left_staged(loaded, found, surroundings))
    elif found is not None and found.newest:
        verified = list(verify_sinks(found.manifest, surroundings))
        gone = [(uid, error) for uid, error in verified if isinstance(error, StagedRowsGone)]
        compared = compared.noting(refused(Kind.SINK, uid, error) for uid, error in gone)
        compared = compared.adding(Kind.SINK, {uid: error.what for uid, error in verified})
    if compared.refusals or ask is None:
        return with_output(compared)
    spark, scratch = ask(loaded, compared.max_parallelism)
    check_parts(spark, loaded)
    judgement = judged(spark, scratch, loaded, found, compared, allow, job, strict=strict)
    return with_output(judgement.compared, spark)


def compare_with_output(
    loaded: LoadedJob, location: str | None, compared: Comparison, job: JobId, spark: SparkSession | None
) -> Comparison:
    """Return a comparison with refusals of sinks that have published more than the log knows, or cannot tell.

    Args:
        location: the location of the job's snapshots; None for the job file's.
        compared: the comparison with the log's newest snapshot.
        spark: a session; None if Kafka sinks are not to be asked.

    Raises:
        StoreError: the store failed.
    """
    surroundings = _surroundings(loaded, job, None if spark is None else lambda: spark)
    # First the sinks: a running job publishes what its log names already.
    found = dict(previewed_published(loaded.spec.sinks, surroundings))
    errors = {uid: each for uid, each in found.items() if isinstance(each, StreamJobError)}
    published = {uid: each for uid, each in found.items() if not isinstance(each, StreamJobError)}
    compared = compared.noting(refused(Kind.SINK, uid, each) for uid, each in errors.items())
    store = job_location(loaded, location).job(job.namespace, job.name).store()
    try:
        view = drive(store, read(job))
        newest = None if view.newest is None else view.newest.manifest
        beyond = published_beyond(published, store, view.last_id)
        if beyond is None:
            return compared
        error = beyond.error(newest)
    finally:
        store.close()
    return compared.noting(refused(Kind.SINK, uid, error) for uid, each in published.items() if each > view.last_id)


@dataclass(frozen=True, slots=True)
class Judged:
    """A job that Spark has planned from a snapshot, with its chains' checkpoints in a scratch directory.

    Args:
        compared: the comparison with Spark's findings.
        restoration: the state that the chains take over; None if a sink refuses the job, so that Spark was not asked.
        dataflows: the queries of the chains that are not finished.
    """

    compared: Comparison
    restoration: Restoration | None = None
    dataflows: Mapping[ChainUid, Dataflow] = field(default_factory=dict)


def judged(
    spark: SparkSession,
    scratch: Path,
    loaded: LoadedJob,
    found: Found | None,
    compared: Comparison,
    allow: bool,
    job: JobId,
    *,
    strict: bool = False,
    whole: bool = False,
    watch: MigrationWatch | None = None,
) -> Judged:
    """Do the same as `examine` with a running Spark and a scratch directory, and return what it has made.

    Args:
        whole: whether to do with the state itself what a start does: it is downloaded, rewritten, and changed. Else its
            description is enough.
        watch: is told of the changes of state to new forms.
    """
    from streamjob_runtime.job.assembly import Assembler
    from streamjob_runtime.kafka.source_checks import check_sources
    from streamjob_runtime.restoring.restoration import Restoration, Workdir
    from streamjob_runtime.spark.gateway import java_of
    from streamjob_runtime.spark.job_files import JobFiles
    from streamjob_runtime.spark.jvm import JOB_FILES

    surroundings = _surroundings(loaded, job, lambda: spark)
    compared = compared.noting(preview_sinks(loaded.spec.sinks, surroundings))
    if compared.refusals:
        return Judged(compared)
    restored = None
    if found is not None:
        restored = Restored(
            found.manifest,
            found.uri,
            fork=False,
            origins=compared.origins,
            undecided=compared.undecided,
            allow=allow,
            strict=strict,
        )
    planned = plan(loaded.spec)
    # Only whole checkpoints are opened by their locations.
    root = Path(java_of(spark).java.lang.System.getProperty(JOB_FILES)) if whole else scratch
    workdir = Workdir(scratch, None, JobFiles(root))
    restoration = Restoration(planned, restored, workdir, watch=watch)
    if found is not None:
        try:
            restoration.download(found.locate, wanted=None if whole else describes)
        except (SnapshotFileMissing, SnapshotFileCorrupt) as error:
            raise found.explain(error.what) or error from error
    check_sources(spark, loaded, planned, restored)
    if whole:
        restoration.rewrite_state(spark, compared.max_parallelism)
    else:
        restoration.check_rewriting(compared.max_parallelism)
    dataflows: dict[ChainUid, Dataflow] = {}

    def preview(chain: ChainPlan, dataflow: Dataflow) -> Iterable[Finding]:
        dataflows[chain.uid] = dataflow
        return preview_sinks(chain.sinks, surroundings, dataflow.output.schema)

    assembler = Assembler(loaded, planned, restoration, workdir, time.time)
    compared = compared.decided(assembler.judge(spark, preview))
    if any(isinstance(each, StateChanged) for each in compared.refusals):
        compared = compared.adding(Kind.SOURCE, whole_input(spark, loaded, planned))
    return Judged(compared, restoration, dataflows)


def _left_staged(loaded: LoadedJob, found: Found, surroundings: SinkSurroundings) -> dict[str, str]:
    # A start commits or discards everything that the job's own log names.
    now: Any = graph_of(loaded.spec, loaded.directory)["sinks"]
    return dict(left_staged(found.manifest.graph.get("sinks", []), now, surroundings))


def _surroundings(loaded: LoadedJob, job: JobId, spark: Callable[[], SparkSession] | None = None) -> SinkSurroundings:
    return SinkSurroundings(job.name, job.namespace, Epoch(0), loaded.directory, environ=os.environ, spark=spark)
