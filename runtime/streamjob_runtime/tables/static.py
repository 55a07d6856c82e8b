"""The tables of a job in an epoch: read when it begins, and again while its batches run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from streamjob.clock import Clock
from streamjob.errors import StreamJobError
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.spec import TableSpec
from streamjob_runtime.spark.gateway import call_errors, frame_of_relation, java_frame, java_session, our_java
from streamjob_runtime.tables.reading import TableChanged, batch_frame, reading_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_TAG = "streamjob-tables"
_CLOSE_SECONDS = 10.0

log = logging.getLogger("streamjob")


class TableTooOld(StreamJobError):
    """A table could not be read again for too long; the job continues from its checkpoint with newly read rows."""


@dataclass(frozen=True, slots=True)
class TableFigures:
    """The state of a table.

    Args:
        rows: the number of its rows.
        bytes: their size in memory.
        loaded: when they were read, in seconds since 1970.
        reloads: how often it was read again.
        failures: how often it could not be read again.
        problem: why it could not be read the last time it was tried; None if it could.
    """

    rows: int
    bytes: int
    loaded: float
    reloads: int = 0
    failures: int = 0
    problem: str | None = None


class _Table:
    def __init__(self, spec: TableSpec, schema: StructType, relation: Any, frame: DataFrame) -> None:
        self.spec = spec
        self.schema = schema
        self.relation = relation
        self.frame = frame
        self.figures = TableFigures(0, 0, 0.0)
        self.due = 0.0


class StaticTables:
    """The tables of a job; `check` and `figures` may be called from any thread.

    Args:
        clock: seconds since 1970.

    Raises:
        TableUnreadable: Spark cannot read a table.
        NoDriver: no JDBC driver supports the URL of a table.
        DatabaseRefuses, DatabaseUnreachable: a database does not give the rows of a table.
        MissingVariable: an option refers to an environment variable that is not set.
    """

    def __init__(self, spark: SparkSession, job: LoadedJob, clock: Clock) -> None:
        self._spark = spark
        self._job = job
        self._clock = clock
        self._closed = threading.Event()
        self._reading = threading.Lock()
        self._tables: dict[str, _Table] = {}
        self._thread = threading.Thread(target=self._reload_when_due, name="tables", daemon=True)
        try:
            for spec in job.spec.tables:
                if spec.lookup is not None:
                    continue
                self._tables[spec.name] = self._open(spec)
        except BaseException:
            self.close()
            raise

    @property
    def frames(self) -> Mapping[str, DataFrame]:
        """The tables by name; their rows are those of the time when a batch is planned."""
        return {name: each.frame for name, each in self._tables.items()}

    def start(self) -> None:
        """Begin to read the tables again whenever they are due."""
        if any(each.spec.refresh is not None for each in self._tables.values()):
            self._thread.start()

    def figures(self) -> Mapping[str, TableFigures]:
        """Return the state of each table."""
        return {name: each.figures for name, each in self._tables.items()}

    def check(self) -> None:
        """Check that no table is older than the job allows.

        Raises:
            TableTooOld: one could not be read again for too long.
        """
        for each in self._tables.values():
            oldest = each.spec.oldest()
            if oldest is not None and (age := self._clock() - each.figures.loaded) > oldest:
                raise TableTooOld(
                    f"table {each.spec.name!r} was read {age:.0f} s ago, and may get {oldest:g} s old: "
                    f"{each.figures.problem or 'it takes too long to read it again'}",
                    "make it readable again, or allow a greater maxAge",
                )

    def close(self) -> None:
        """Stop reading, and free the rows; no query may run any more."""
        self._closed.set()
        if not self._tables:
            return
        # If Spark is gone, so are the rows.
        with suppress(*call_errors()):
            self._spark.sparkContext.cancelJobsWithTag(_TAG)
            if self._thread.is_alive():
                self._thread.join(_CLOSE_SECONDS)
            for each in self._tables.values():
                each.relation.close()

    def _open(self, spec: TableSpec) -> _Table:
        with reading_table(self._spark, self._job, spec) as options:
            frame = batch_frame(self._spark, spec, options)
            relation = our_java(self._spark).StaticTable(java_session(self._spark), java_frame(frame).schema())
            table = _Table(spec, frame.schema, relation, frame_of_relation(self._spark, relation))
            self._fill(table, frame)
        return table

    def _fill(self, table: _Table, frame: DataFrame) -> None:
        began = self._clock()
        version = our_java(self._spark).StaticTable.read(java_frame(frame))
        table.relation.replace(version)
        table.figures = replace(
            table.figures, rows=int(version.count()), bytes=int(version.bytes()), loaded=began, problem=None
        )
        table.due = began + (table.spec.refresh or 0.0)

    def _reload_when_due(self) -> None:
        self._spark.sparkContext.addJobTag(_TAG)
        while True:
            waiting = [each for each in self._tables.values() if each.spec.refresh is not None]
            next_one = min(waiting, key=lambda each: each.due)
            if self._closed.wait(max(0.0, next_one.due - self._clock())):
                return
            self._reload_or_keep(next_one)

    def reload(self, name: str) -> None:
        """Read a table again, now.

        Raises:
            TableChanged: it has other columns than when the job started.
            StreamJobError: it cannot be read; see the class.
        """
        table = self._tables[name]
        with self._reading, reading_table(self._spark, self._job, table.spec) as options:
            frame = batch_frame(self._spark, table.spec, options)
            if frame.schema != table.schema:
                raise TableChanged(table.spec, table.schema, frame.schema)
            self._fill(table, frame)
        table.figures = replace(table.figures, reloads=table.figures.reloads + 1)

    def _reload_or_keep(self, table: _Table) -> None:
        """Read a table again; if that is impossible, the job goes on with its rows until they are too old."""
        try:
            self.reload(table.spec.name)
        except Exception as error:
            if self._closed.is_set():
                return
            figures = table.figures
            said = error.what if isinstance(error, StreamJobError) else str(error)
            table.figures = replace(figures, failures=figures.failures + 1, problem=said)
            refresh = table.spec.refresh or 0.0
            table.due = self._clock() + refresh
            log.warning(
                "Table %r could not be read again; the job goes on with its rows of %d s ago, and fails when they are "
                "older than %g s: %s",
                table.spec.name,
                self._clock() - figures.loaded,
                table.spec.oldest() or 0.0,
                said,
            )
