"""Prepares a process for a job that another process still runs, and waits for the request to start it."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.comparison.starting import compare_start
from streamjob.comparison.verdicts import Comparison
from streamjob.job.loading.load import LoadedJob
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import LATEST
from streamjob.stored.start_snapshot import Found
from streamjob_runtime.control.start_gate import StartGate
from streamjob_runtime.process.checking.start_check import examine
from streamjob_runtime.process.standby import keep_at_hand, rehearse
from streamjob_runtime.restoring.at_hand import FilesAtHand
from streamjob_runtime.spark.holder import SparkHolder
from streamjob_runtime.spark.job_files import JobFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("streamjob")


def prepare_and_wait(
    gate: StartGate,
    at_hand: FilesAtHand,
    loaded: LoadedJob,
    job: JobId,
    spark: SparkHolder,
    files: JobFiles,
    scratch: Path,
    stopped: Callable[[], bool],
    location: str | None,
    allow: bool,
    *,
    require_snapshot: bool,
) -> bool:
    """Start Spark, check and rehearse the job, and wait; return False if it was stopped before it was told to start.

    The process claims nothing and processes no record. If it is told to start early, it skips the rest of its
    preparation.

    Args:
        gate: opened by the request to start.
        at_hand: keeps the files of the newest checkpoint at hand.
        loaded: the job.
        job: its identity in the store.
        spark: this process's Spark.
        files: gives directories the names by which Spark knows them.
        scratch: a directory of this process, below that of `files`.
        stopped: whether the job was asked to stop.
        location: the location of the job's snapshots; None for the job file's.
        allow: discard state for which the job has no operator.
        require_snapshot: refuse to start fresh.

    Raises:
        InvalidInput: the job cannot run.
        CannotRestore: it cannot continue from its newest checkpoint.
        StoreError: the store failed.
        ProcessUnfit: this process's Spark has ended.
    """
    log.info("This process prepares itself, and runs the job when it is told to start")
    if not gate.is_open:
        _check(loaded, job, spark, scratch / "check", location, allow, require_snapshot)
        rehearse(loaded, job, spark, files, scratch / "rehearsal")
    is_told = wait_until_told(gate, at_hand, lambda: stopped() or spark.unfit() is not None)
    at_hand.close()
    if (unfit := spark.unfit()) is not None:
        raise unfit
    if is_told:
        log.info("This process was told to start")
    return is_told


def _check(
    loaded: LoadedJob,
    job: JobId,
    spark: SparkHolder,
    directory: Path,
    location: str | None,
    allow: bool,
    require_snapshot: bool,
) -> None:
    """Refuse what the start would refuse, while the other process still runs the job."""
    tries = count()

    def ask(loaded: LoadedJob, max_parallelism: int) -> tuple[SparkSession, Path]:
        session = spark.session(loaded.spec.max_parallelism).newSession()
        session.conf.set("spark.sql.shuffle.partitions", max_parallelism)
        return session, directory / str(next(tries))

    def examine_start(
        loaded: LoadedJob, found: Found | None, compared: Comparison, allow: bool, job: JobId
    ) -> Comparison:
        return examine(loaded, found, compared, allow, job, ask=ask, location=location, latest=True)

    try:
        start = compare_start(loaded, LATEST, location, job, allow, examine_start, require_snapshot=require_snapshot)
        start.compared.check()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def wait_until_told(gate: StartGate, files: FilesAtHand, stopped: Callable[[], bool]) -> bool:
    """Keep the newest checkpoint's files at hand until the gate is open; return False if the job was stopped before.

    Args:
        gate: opened by the request to start; it learns when the files are there.
        files: the checkpoint's files.
        stopped: whether the job was asked to stop.
    """
    keep_at_hand(files, lambda: gate.is_open or stopped(), gate.wait, gate.prepared)
    return gate.is_open
