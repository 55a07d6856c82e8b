"""Runs a job on rows that a test gives: on a real Spark, with real checkpoints in a local directory."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

from streamjob.errors import StreamJobError
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.spec import SourceSpec, TableSpec
from streamjob.job.model.suggest import did_you_mean
from streamjob.job.python_job.dsl import Job
from streamjob.job.python_job.handles import Handle, TableHandle
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles
from streamjob_runtime.chain.sources.source_rows import read_stream
from streamjob_runtime.spark.text.error_text import reason
from streamjob_runtime.tables.reading import batch_frame, reading_table
from streamjob_runtime.testing.collecting import Collected
from streamjob_runtime.testing.comparing import differences
from streamjob_runtime.testing.errors import (
    NoColumns,
    NoEventTime,
    TableInUse,
    UnknownPart,
)
from streamjob_runtime.testing.event_time import raise_event_time, timed_parts
from streamjob_runtime.testing.feeds import Feed, Row, lines_of, rows_of
from streamjob_runtime.testing.life import Life
from streamjob_runtime.testing.session import Session, changeable_conf, load_any, parser_of
from streamjob_runtime.testing.stand_ins import columns_of, fields_of, under_test, with_tables
from streamjob_runtime.testing.values import BadValue, read_value

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_WITHIN = 120.0


class JobTest:
    """A job under test. Its sources take rows from `feed`, and `rows` returns those that its sinks published.

    The job begins with the first step that needs it, and continues from its last checkpoint after a `kill`. Each step
    blocks until the job has done all that follows from it.

    Args:
        job: a job file, a `streamjob.Job`, or a loaded job.
        session: the Spark to run on.
        directory: an empty directory below the session's, for snapshots and local files.
        overrides: overrides of the job file's fields, of the form `PATH=VALUE`.
        variables: values of `${var:NAME}`, of the form `NAME=VALUE`.
        within: the longest time that a step may take, in seconds.

    Raises:
        InvalidJob: the job is invalid.
        NoColumns: nothing says which columns a source has.
    """

    def __init__(
        self,
        job: str | Path | Job | LoadedJob,
        session: Session,
        directory: Path,
        *,
        overrides: Sequence[str] = (),
        variables: Sequence[str] = (),
        within: float = _WITHIN,
    ) -> None:
        self._parser = parser_of(session.spark)
        self._loaded = load_any(job, overrides, variables, self._parser)
        self._spark = session.spark.newSession()
        for key, value in changeable_conf(self._loaded, self._spark).items():
            self._spark.conf.set(key, value)
        self._zone = ZoneInfo(str(self._spark.conf.get("spark.sql.session.timeZone")))
        self._files = session.files
        self._directory = directory
        self._within = within
        spec = self._loaded.spec
        whole = {each.name for each in spec.operators if each.output_mode == "complete"}
        self._collected = {
            sink.name: Collected(f"{sink.name} {uuid.uuid4().hex}", whole=sink.input in whole) for sink in spec.sinks
        }
        self._columns: dict[str, StructType] = {}
        self._under_test = self._tested(self._loaded)
        self._feeds = {source.name: Feed(directory / "feeds" / source.name) for source in spec.sources}
        self._tables: dict[str, StructType] = {}
        self._fed: dict[str, list[Row]] = {}
        self._seen = dict.fromkeys(self._collected, 0)
        self._lives = 0
        self._life: Life | None = None

    @property
    def name(self) -> str:
        """The job's name."""
        return self._loaded.spec.name

    @property
    def sinks(self) -> tuple[str, ...]:
        """The names of its sinks."""
        return tuple(self._collected)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables."""
        return tuple(each.name for each in self._loaded.spec.tables)

    def columns(self, sink: str) -> tuple[str, ...]:
        """Return the names of the columns that a sink gets. Raises UnknownPart."""
        columns = self._collected[self._known(sink, self._collected, "sink")].columns
        return () if columns is None else tuple(columns.names)

    def feed(self, source: str | Handle, rows: Sequence[Any]) -> None:
        """Give a source rows. All rows that it is given until the next step are one batch.

        Args:
            source: the source, by name or handle.
            rows: mappings of columns to values; columns that are left out are null. Timestamps may be ISO texts.

        Raises:
            UnknownPart: the job has no such source.
            InvalidRows: a row does not fit the source's columns.
        """
        name = self._known(source, self._feeds, "source")
        self._fed.setdefault(name, []).extend(rows_of(f"source {name!r}", rows, self._columns[name], self._zone))

    def table(self, name: str | TableHandle, rows: Sequence[Any]) -> None:
        """Give a table rows, in place of those that it has. Rows that were fed before are processed first.

        A table that never gets rows is read as the job says.

        Args:
            name: the table, by name or handle.
            rows: mappings of columns to values, as for `feed`.

        Raises:
            UnknownPart: the job has no such table.
            InvalidRows: a row does not fit the table's columns.
            TableInUse: the job has begun with the rows that it reads itself.
        """
        known = self._known(name, dict.fromkeys(self.tables), "table")
        if known not in self._tables and self._life is not None:
            raise TableInUse(
                f"job {self.name!r} has begun with the rows that table {known!r} reads itself",
                "give the table rows before the first step",
            )
        if self._life is not None:
            self._give()
        (spec,) = (each for each in self._loaded.spec.tables if each.name == known)
        if known not in self._tables:
            self._tables[known] = self._columns_of_table(spec)
            self._stand_in_for_tables()
        file = self._directory / "tables" / known / "rows.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        read = rows_of(f"table {known!r}", rows, self._tables[known], self._zone)
        file.write_text(lines_of(read))
        if self._life is not None:
            self._life.reload(known)

    def process(self, *, checkpoint: bool = True) -> None:
        """Wait until the job has processed all rows that it was fed, and publish the output.

        Args:
            checkpoint: take a checkpoint at the end, which publishes the output. Without it, a `kill` loses the work,
                and the job does it again.

        Raises:
            JobUnderTestFailed: the job failed.
            NotWithin: it takes too long.
        """
        self._give()
        if checkpoint:
            self._checkpoint()

    def advance(self, to: datetime | str, of: str | Handle | None = None) -> None:
        """Process all rows that were fed, then raise event time, and publish what becomes due.

        Args:
            to: the new watermark: rows that are older are late. It may be an ISO text.
            of: the source or operator with the watermark; default all that have one.

        Raises:
            NoEventTime: it has no watermark.
            JobUnderTestFailed: the job failed.
            NotWithin: it takes too long.
        """
        milliseconds = round(self._time(to).timestamp() * 1000)
        spec = self._loaded.spec
        timed = timed_parts(spec)
        if of is not None:
            name = self._known(of, spec.inputs(), "part")
            timed = {each: part for each, part in timed.items() if each == name}
        if not timed:
            whom = "the job" if of is None else f"{name!r}"
            raise NoEventTime(f"{whom} has no event time to advance", "declare a watermark on a source or operator")
        self._give()
        life = self._running()
        waits = raise_event_time(life.chains.values(), timed.values(), milliseconds)
        for source in frozenset().union(*(each.sources for each in timed.values())):
            self._feeds[source].add(())
        life.settle()
        self._checkpoint()
        if waits:
            # The checkpoint's barrier has caused the batch that raises event time there.
            life.settle()
            self._checkpoint()

    def finish(self) -> None:
        """Process all rows that were fed, end the input, and publish everything that was waiting for later rows.

        Windows, joins and timers fire as at the end of bounded sources. Rows that are fed afterwards continue the job,
        with its event time from before.

        Raises:
            JobUnderTestFailed: the job failed.
            NotWithin: it takes too long.
        """
        self._give()
        life, self._life = self._running(), None
        life.drain()

    def kill(self) -> None:
        """End the job without a checkpoint. The next step restores it from the last one, as on another machine."""
        life, self._life = self._life, None
        if life is not None:
            life.kill()

    def stop(self) -> None:
        """Stop the job with a checkpoint. The next step restores it from there."""
        life, self._life = self._running(), None
        life.stop()

    def upgrade(self, job: str | Path | Job | LoadedJob, *, overrides: Sequence[str] = ()) -> None:
        """Stop the job with a checkpoint, and continue as another version of it.

        Args:
            job: the new version; its sources and sinks have the same names.
            overrides: overrides of its fields, of the form `PATH=VALUE`.

        Raises:
            InvalidJob: the job is invalid.
            UnknownPart: it has a source or sink that the job does not have.
            CannotRestore: the next step raises it if the state does not fit.
        """
        loaded = load_any(job, overrides, (), self._parser)
        for source in loaded.spec.sources:
            self._known(source.name, self._feeds, "source")
        for sink in loaded.spec.sinks:
            self._known(sink.name, self._collected, "sink")
        if self._lives:
            self.stop()
        self._under_test = self._tested(loaded)
        self._loaded = loaded
        self._stand_in_for_tables()

    def rows(self, sink: str) -> list[Row]:
        """Return all rows that a sink has published, in the order of their batches.

        Rows that were fed and not processed yet are processed first. Timestamps are in UTC.

        Raises:
            UnknownPart: the job has no such sink.
        """
        return self._rows(sink, 0)[0]

    def new_rows(self, sink: str) -> list[Row]:
        """Return the rows that a sink has published since the last call of this method or of `expect`."""
        rows, self._seen[sink] = self._rows(sink, self._seen.get(sink, 0))
        return rows

    def expect(self, sink: str, rows: Sequence[Any]) -> None:
        """Check the rows that a sink has published since the last call of this method, in any order.

        Only columns that one of the rows names are compared; a row without one of them expects null there.

        Args:
            sink: its name.
            rows: mappings of columns to values, as for `feed`.

        Raises:
            AssertionError: the sink has published other rows; the message lists the differences.
            UnknownPart: the job has no such sink.
            InvalidRows: a row does not fit the sink's columns.
        """
        __tracebackhide__ = True
        problem = self.difference(sink, rows)
        if problem is not None:
            raise AssertionError(problem)

    def difference(self, sink: str, rows: Sequence[Any], *, of_all: bool = False) -> str | None:
        """Return how the rows differ from those that a sink has published; None if they do not.

        Args:
            sink: its name.
            rows: the expected rows, see `expect`.
            of_all: compare with all rows that it has published, not only with the new ones.
        """
        found = self.rows(sink) if of_all else self.new_rows(sink)
        columns = self._collected[sink].columns
        assert columns is not None
        return differences(f"sink {sink!r}", rows, found, columns, self._zone)

    def close(self) -> None:
        """End the job, and delete its files."""
        try:
            self.kill()
        finally:
            for each in self._collected.values():
                each.forget()
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> JobTest:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tested(self, loaded: LoadedJob) -> LoadedJob:
        """Return a job with the test's sources and sinks; the columns of its sources are known from now on."""
        ddl = {source.name: columns_of(source, self._ask) for source in loaded.spec.sources}
        self._columns |= {name: fields_of(each) for name, each in ddl.items()}
        collected = {name: each.name for name, each in self._collected.items()}
        return replace(loaded, spec=under_test(loaded.spec, self._directory / "feeds", ddl, collected))

    def _stand_in_for_tables(self) -> None:
        spec = with_tables(self._under_test.spec, self._directory / "tables", self._tables)
        self._under_test = replace(self._under_test, spec=spec)

    def _columns_of_table(self, table: TableSpec) -> StructType:
        if table.schema_ddl is not None:
            return fields_of(table.schema_ddl)
        with reading_table(self._spark, self._loaded, table) as options:
            return batch_frame(self._spark, table, options).schema

    def _known(self, part: str | Handle | TableHandle, parts: Mapping[str, object], kind: str) -> str:
        name = part if isinstance(part, str) else part.name
        if name not in parts:
            raise UnknownPart(f"job {self.name!r} has no {kind} {name!r}", did_you_mean(name, parts, f"{kind}s"))
        return name

    def _time(self, to: datetime | str) -> datetime:
        from pyspark.sql.types import TimestampType

        try:
            return cast("datetime", read_value(to, TimestampType(), self._zone))
        except BadValue as error:
            raise NoEventTime(f"event time cannot advance to {to!r}", error.fix) from None

    def _ask(self, source: SourceSpec) -> StructType:
        from pyspark.errors import PySparkException

        try:
            options = self._loaded.options(source)
            files = DiscoveredFiles.of(self._spark, source, options)
            return read_stream(self._spark, source, source.format, options, files).schema
        except (PySparkException, StreamJobError) as error:
            raise NoColumns(
                f"source {source.name!r} has no schema, and cannot be asked for it: {reason(error)}",
                "give the source a schema: name TYPE, …",
            ) from error

    def _rows(self, sink: str, since: int) -> tuple[list[Row], int]:
        name = self._known(sink, self._collected, "sink")
        if self._fed or not self._lives:
            self.process()
        rows, batches = self._collected[name].rows(since)
        return rows, batches

    def _give(self) -> None:
        """Release to the sources what they were fed, one batch for each, and wait until it is processed."""
        fed, self._fed = self._fed, {}
        if self._life is None:
            for name, rows in fed.items():
                self._feeds[name].add(rows)
            self._running()
            return
        life = self._life
        with life.between_batches(fed, self._feeds):
            for name, rows in fed.items():
                self._feeds[name].add(rows)
        life.settle()

    def _running(self) -> Life:
        if self._life is None:
            self._lives += 1
            workdir = self._directory / "work" / str(self._lives)
            workdir.mkdir(parents=True)
            snapshots = str(self._directory / "snapshots")
            self._life = Life(self._under_test, self._spark, self._files, workdir, snapshots, self._within)
            self._life.settle()
        return self._life

    def _checkpoint(self) -> None:
        life = self._running()
        life.checkpoint()
        life.wait_for(
            lambda: not any(each.has_staged for each in self._collected.values()), "the output to be published"
        )
