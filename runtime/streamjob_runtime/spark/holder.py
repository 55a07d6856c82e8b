"""Starts Spark once for all epochs of a process, and notices its death."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.errors import ProcessUnfit
from streamjob_runtime.spark.gateway import forget_java, java_process, shut_down
from streamjob_runtime.spark.page import SparkPage, is_enabled, page_at
from streamjob_runtime.spark.process.java_death import oom_kills, why_ended
from streamjob_runtime.spark.process.sockets import sockets_of
from streamjob_runtime.spark.session import SessionSettings, connector_jars, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_EXIT_SECONDS = 60.0
_LEAVE_IN_PEACE = (
    "keep whatever cleans up there (tmpwatch, systemd-tmpfiles, a script) away from it, and start the job again: it "
    "continues from its last checkpoint"
)

log = logging.getLogger("streamjob")


class SparkGone(ProcessUnfit):
    """Spark's process has ended; PySpark cannot start another one for what refers to this one."""


class DirectoriesGone(ProcessUnfit):
    """Directories were removed that Spark made at its start and does not make again."""


class SparkHolder:
    """The session of a process.

    Args:
        settings: the job's Spark settings.
        log_file: the file for Spark's own output; None for standard error.
        on_started: is called with the session once Spark has started; None if nothing is.
    """

    def __init__(
        self,
        settings: SessionSettings,
        log_file: Path | None = None,
        on_started: Callable[[SparkSession], None] | None = None,
    ) -> None:
        self._on_started = on_started
        self._settings = settings
        self._log_file = log_file
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._page: SparkPage | None = None
        self._killed_before: int | None = None
        self._spare_directories: tuple[Path, ...] = ()
        self._directories: tuple[Path, ...] = ()

    @property
    def started(self) -> SparkSession | None:
        """The session, if Spark has started."""
        return self._session

    @property
    def page(self) -> SparkPage | None:
        """Spark's own page; None if Spark has not started, or the job has not asked for it."""
        return self._page

    def start_early(self) -> None:
        """Start Spark in the background; if this fails, `session` raises the error."""
        with suppress(Exception):
            self.session(self._settings.max_parallelism)

    def session(self, max_parallelism: int) -> SparkSession:
        """Return the session with the given number of state partitions, started if necessary.

        Raises:
            SparkGone: it was started before, but its process has ended.
            NoJava: there is no Java to start it with.
            CannotFetch: a connector's jars are missing and cannot be downloaded.
        """
        with self._lock:
            if self._session is None:
                # Show the message to the waiting user; the log file would hide it.
                connector_jars(self._settings)
                self._killed_before = oom_kills()
                hints: list[str] = []
                with _standard_error_to(self._log_file) if self._log_file else nullcontext():
                    self._session = start_session(self._settings, hints.append)
                if is_enabled(self._settings.conf):
                    self._page = page_at(self._session.sparkContext.uiWebUrl, self._settings.page_secret)
                self._note_directories(self._settings)
                if self._on_started is not None:
                    self._on_started(self._session)
                for hint in hints:
                    log.info(hint)
            elif (unfit := self.unfit()) is not None:
                raise unfit
            self._session.conf.set("spark.sql.shuffle.partitions", max_parallelism)
            return self._session

    def unfit(self, patience: float = 0.0) -> ProcessUnfit | None:
        """Return the error to end with if this process's Spark cannot be used any more; None if it can.

        Directories that need no content, for temporary files and sockets, are made again.

        Args:
            patience: seconds to wait for Spark's end, for a caller whose connection to it is broken.
        """
        session = self._session
        if session is None:
            return None
        return self._death(session, patience) or self._lack_of_directories()

    def _death(self, session: SparkSession, patience: float) -> SparkGone | None:
        process = java_process(session)
        if process is None:
            return None
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            return None
        death = why_ended(code, process.pid, (self._killed_before, oom_kills()), Path.cwd())
        again = "start the job again: it continues from its last checkpoint"
        return SparkGone(
            f"Spark's process has ended: {death.cause}", f"{death.advice}; {again}" if death.advice else again
        )

    def _note_directories(self, settings: SessionSettings) -> None:
        """Note the directories that Spark has made, and those that were made for it."""
        spare = (settings.temporary, sockets_of(settings.workdir))
        lasting = (settings.workdir, *sorted((settings.workdir / "spark").glob("*")))
        self._spare_directories = tuple(each for each in spare if each.is_dir())
        self._directories = tuple(each for each in lasting if each.is_dir())

    def _lack_of_directories(self) -> DirectoriesGone | None:
        for gone in (each for each in self._directories if not each.is_dir()):
            return DirectoriesGone(f"The directory {gone} of this process was removed while it ran", _LEAVE_IN_PEACE)
        for gone in (each for each in self._spare_directories if not each.is_dir()):
            try:
                gone.mkdir(mode=0o700, exist_ok=True)
            except OSError as error:
                return DirectoriesGone(
                    f"The directory {gone} of this process was removed while it ran, and cannot be made again: "
                    f"{error.strerror}",
                    _LEAVE_IN_PEACE,
                )
            log.warning("The directory %s was removed, and is made again", gone)
        return None

    def stop(self) -> None:
        """Stop Spark if it runs, and wait for its process to end."""
        with self._lock:
            session, self._session = self._session, None
        if session is None or not _is_alive(session):
            return
        process = java_process(session)
        # In a thread: a query that cannot be stopped blocks Spark's own stop for ever.
        stopper = threading.Thread(target=_stop, args=(session,), name="stop-spark", daemon=True)
        stopper.start()
        stopper.join(_EXIT_SECONDS)
        if process is not None:
            shut_down(session)
            # Java ends when its standard input is closed.
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(0.0 if stopper.is_alive() else _EXIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
            forget_java(session)


def _stop(session: SparkSession) -> None:
    try:
        session.stop()
    except Exception as error:
        # Its process may be gone. The caller needs to learn how the job ended, not this.
        log.warning("Spark could not be stopped: %s", error)


def _is_alive(session: SparkSession) -> bool:
    process = java_process(session)
    return process is None or process.poll() is None


@contextmanager
def _standard_error_to(file: Path) -> Iterator[None]:
    """Redirect standard error of processes started in this context to `file`: their output would garble a live view."""
    saved = os.dup(2)
    target = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(target)
