"""Waits with everything ready until the process that runs the job has died, then lets this one continue it."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from streamjob.errors import StreamJobError
from streamjob.job.loading.load import LoadedJob
from streamjob.protocol.log.records import JobId
from streamjob.store.base import Store
from streamjob_runtime.process.checking.connecting import connect
from streamjob_runtime.process.lock import RunningLock
from streamjob_runtime.restoring.at_hand import FilesAtHand
from streamjob_runtime.spark.gateway import spark_errors
from streamjob_runtime.spark.holder import SparkHolder
from streamjob_runtime.spark.job_files import JobFiles
from streamjob_runtime.spark.text.error_text import describe, reason
from streamjob_runtime.testing.job_test import JobTest
from streamjob_runtime.testing.session import Session

_LOOK_SECONDS = 0.05
_REFRESH_SECONDS = 2.0
_REHEARSAL_SECONDS = 120.0

log = logging.getLogger("streamjob")


def stand_by(
    lock: RunningLock,
    loaded: LoadedJob,
    job: JobId,
    store: Store,
    spark: SparkHolder,
    files: JobFiles,
    scratch: Path,
) -> Path | None:
    """Start Spark, rehearse the job, and wait for the lock; return the directory of the newest checkpoint's files.

    None means that the job has ended, and is not to be continued.

    Args:
        lock: of the process that runs the job.
        loaded: the job.
        job: its identity in the store.
        store: the store at its root.
        spark: this process's Spark.
        files: gives directories the names by which Spark knows them.
        scratch: a directory of this process, below that of `files`.

    Raises:
        ProcessUnfit: this process's Spark has ended.
    """
    at_hand = FilesAtHand(store, job, scratch / "at-hand")
    log.info("Standing by: this process continues the job if the one that runs it dies")
    rehearse(loaded, job, spark, files, scratch / "rehearsal")
    wait_for_turn(lock, at_hand, is_unfit=lambda: spark.unfit() is not None)
    at_hand.close()
    if (unfit := spark.unfit()) is not None:
        raise unfit
    if lock.has_ended():
        log.info("The job has ended; there is nothing to continue")
        return None
    log.info("The process that ran the job has died; this one continues")
    return at_hand.directory


def wait_for_turn(
    lock: RunningLock,
    files: FilesAtHand,
    sleep: Callable[[float], object] = time.sleep,
    is_unfit: Callable[[], bool] = lambda: False,
) -> None:
    """Keep the newest checkpoint's files at hand until the lock is free, and take it.

    Args:
        lock: of the process that runs the job.
        files: the checkpoint's files.
        sleep: waits a number of seconds.
        is_unfit: whether to give up, because this process cannot run the job any more.
    """
    keep_at_hand(files, lambda: is_unfit() or lock.acquire(), sleep)


def keep_at_hand(
    files: FilesAtHand,
    is_over: Callable[[], bool],
    sleep: Callable[[float], object],
    on_refresh: Callable[[], None] = lambda: None,
) -> None:
    """Keep the newest checkpoint's files at hand until the wait is over.

    Args:
        files: the checkpoint's files.
        is_over: whether to stop waiting; asked several times a second.
        sleep: waits a number of seconds.
        on_refresh: called after each refresh of the files.
    """
    next_refresh, level = 0.0, logging.INFO
    while not is_over():
        if time.monotonic() >= next_refresh:
            level = _refresh(files, level)
            next_refresh = time.monotonic() + _REFRESH_SECONDS
            on_refresh()
        sleep(_LOOK_SECONDS)


def _refresh(files: FilesAtHand, level: int) -> int:
    """Refresh the files; log a new checkpoint at a level, and return the level for the next one."""
    try:
        checkpoint = files.refresh()
    except StreamJobError as error:
        # The takeover reads the store again, and reports what is then still wrong.
        log.warning("Waiting without the newest checkpoint: %s", error.what)
        return level
    if checkpoint is not None:
        log.log(level, "Checkpoint %s is at hand", checkpoint)
        return logging.DEBUG
    return level


def rehearse(loaded: LoadedJob, job: JobId, spark: SparkHolder, files: JobFiles, directory: Path) -> None:
    """Do what the job's start does, so that Java has loaded, planned and compiled what it needs.

    The chains run once on batches without rows, with other sources and sinks. Then the systems outside are asked.
    Nothing changes there.

    Args:
        loaded: the job.
        job: its identity in the store.
        spark: the process's Spark.
        files: gives directories the names by which Spark knows them.
        directory: a directory that does not exist yet, below that of `files`; it is removed.
    """
    session = Session(spark.session(loaded.spec.max_parallelism), files)
    try:
        with JobTest(loaded, session, directory / "job", within=_REHEARSAL_SECONDS) as rehearsed:
            for source in loaded.spec.sources:
                rehearsed.feed(source.name, ())
            rehearsed.process()
            rehearsed.stop()
        connect(loaded, job, session.spark.newSession(), files, directory / "outside")
    except StreamJobError as error:
        _tell_failure(error.what)
    except spark_errors() as error:
        _tell_failure(reason(error))
    except Exception as error:
        # A sink of the job's own may raise anything.
        _tell_failure(describe(error))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _tell_failure(what: str) -> None:
    # Only the first batch of a takeover is slower without.
    log.warning("The rehearsal failed, so that a takeover takes longer: %s", what)
