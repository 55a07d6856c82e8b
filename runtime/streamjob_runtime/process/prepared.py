"""A prepared process: it can continue a job that another process still runs, and waits for the order to do so.

It claims nothing, processes no record, and writes nothing outside its own directories. Its steps are `check`,
`rehearse` and `wait`; its kinds differ in which of them they need, and in what makes them go on:

- A standby has the code and the settings of the process that runs the job. So it checks nothing, and goes on when it
  gets the lock.
- A process that waits for its start, such as a warm successor, has other ones. It checks first, and goes on at a
  request.
- A preflight only checks. It is `streamjob check`, with a Spark of its own, and its result is its end.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.comparison.starting import compare_start
from streamjob.errors import StreamJobError
from streamjob.job.loading.load import LoadedJob
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import LATEST
from streamjob_runtime.control.start_gate import StartGate
from streamjob_runtime.process.checking.connecting import connect
from streamjob_runtime.process.checking.start_check import SparkToAsk, examine
from streamjob_runtime.process.lock import RunningLock
from streamjob_runtime.restoring.at_hand import FilesAtHand
from streamjob_runtime.spark.gateway import spark_errors
from streamjob_runtime.spark.holder import SparkHolder
from streamjob_runtime.spark.job_files import JobFiles
from streamjob_runtime.spark.text.error_text import describe, reason
from streamjob_runtime.testing.job_test import JobTest
from streamjob_runtime.testing.session import Session

if TYPE_CHECKING:
    from streamjob_runtime.process.run import ProcessOptions

_LOOK_SECONDS = 0.05
_REFRESH_SECONDS = 2.0
_REHEARSAL_SECONDS = 120.0

log = logging.getLogger("streamjob")


@dataclass
class PreparedProcess:
    """The steps of a preparation.

    Args:
        options: of the start that is prepared.
        spark: this process's Spark; the first step starts it.
        files: gives directories the names by which Spark knows them.
        at_hand: keeps the files of the newest checkpoint.
        scratch: a directory of this process, below that of `files`.
    """

    options: ProcessOptions
    loaded: LoadedJob
    job: JobId
    spark: SparkHolder
    files: JobFiles
    at_hand: FilesAtHand
    scratch: Path

    def check(self) -> None:
        """Refuse what the start would refuse.

        Raises:
            InvalidInput: the job cannot run.
            CannotRestore: it cannot continue from its newest checkpoint.
            StoreError: the store failed.
        """
        options, directory = self.options, self.scratch / "check"
        ask = SparkToAsk(lambda *_: (self.spark.session(self.loaded.spec.max_parallelism).newSession(), directory))
        try:
            compare_start(
                self.loaded,
                LATEST,
                options.location,
                self.job,
                options.allow_non_restored_state,
                partial(examine, ask=ask, location=options.location, latest=True, strict=options.strict),
                require_snapshot=options.require_snapshot,
            ).compared.check()
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def rehearse(self) -> None:
        """Do what the job's start does, so that Java has loaded, planned and compiled what it needs.

        The chains run once on batches without rows, with other sources and sinks. Then the systems outside are asked.
        Nothing changes there. A failure is only logged: the first batch is slower then.
        """
        directory = self.scratch / "rehearsal"
        session = Session(self.spark.session(self.loaded.spec.max_parallelism), self.files)
        try:
            with JobTest(self.loaded, session, directory / "job", within=_REHEARSAL_SECONDS) as rehearsed:
                for source in self.loaded.spec.sources:
                    rehearsed.feed(source.name, ())
                rehearsed.process()
                rehearsed.stop()
            connect(self.loaded, self.job, session.spark.newSession(), self.files, directory / "outside")
        except Exception as error:
            # A sink of the job's own may raise anything.
            log.warning("The rehearsal failed, so that a takeover takes longer: %s", _what(error))
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def wait(
        self,
        is_over: Callable[[], bool],
        sleep: Callable[[float], object] = time.sleep,
        on_refresh: Callable[[], None] = lambda: None,
    ) -> None:
        """Keep the newest checkpoint's files at hand until the wait is over.

        Args:
            is_over: whether to stop waiting; asked several times a second.
            sleep: waits a number of seconds.
            on_refresh: called after each refresh of the files.

        Raises:
            ProcessUnfit: this process's Spark has ended.
        """
        next_refresh, level = 0.0, logging.INFO
        while self.spark.unfit() is None and not is_over():
            if time.monotonic() >= next_refresh:
                level = self._refresh(level)
                next_refresh = time.monotonic() + _REFRESH_SECONDS
                on_refresh()
            sleep(_LOOK_SECONDS)
        self.at_hand.close()
        if (unfit := self.spark.unfit()) is not None:
            raise unfit

    def _refresh(self, level: int) -> int:
        """Refresh the files; log a new checkpoint at a level, and return the level for the next one."""
        try:
            checkpoint = self.at_hand.refresh()
        except StreamJobError as error:
            # The takeover reads the store again, and reports what is then still wrong.
            log.warning("Waiting without the newest checkpoint: %s", error.what)
            return level
        if checkpoint is not None:
            log.log(level, "Checkpoint %s is at hand", checkpoint)
            return logging.DEBUG
        return level


def stand_by(process: PreparedProcess, lock: RunningLock) -> bool:
    """Prepare a process, and wait for the lock; return False if the job has ended, and is not to be continued.

    Raises:
        ProcessUnfit: this process's Spark has ended.
    """
    log.info("Standing by: this process continues the job if the one that runs it dies")
    process.rehearse()
    process.wait(lock.acquire)
    if lock.has_ended():
        log.info("The job has ended; there is nothing to continue")
        return False
    log.info("The process that ran the job has died; this one continues")
    return True


def wait_for_start(process: PreparedProcess, gate: StartGate, stopped: Callable[[], bool]) -> bool:
    """Prepare a process, and wait for the request to start; return False if the job was stopped before.

    A request that comes early skips the rest of the preparation.

    Args:
        process: not prepared yet.
        gate: opened by the request; it learns when the process is prepared.
        stopped: whether the job was asked to stop.

    Raises:
        StreamJobError: the job cannot start, as `PreparedProcess.check` and `wait` have it.
    """
    log.info("This process prepares itself, and runs the job on request")
    if not gate.is_open:
        process.check()
        process.rehearse()
    process.wait(lambda: gate.is_open or stopped(), gate.wait, gate.prepared)
    is_told = gate.is_open
    if is_told:
        log.info("This process was told to start")
    return is_told


def _what(error: Exception) -> str:
    if isinstance(error, StreamJobError):
        return error.what
    return reason(error) if isinstance(error, spark_errors()) else describe(error)
