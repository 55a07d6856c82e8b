"""Runs a job on rows that a test gives: on a real Spark, with real checkpoints in a local directory."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as PoolTimeout
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

from streamjob.clock import steady_clock
from streamjob.errors import ExitCode, StreamJobError
from streamjob.ids import Attempt, ChainUid, TriggerId
from streamjob.job.dsl import Handle, Job
from streamjob.job.load import LoadedJob, load_dsl, load_job
from streamjob.job.options import missing_names, substitute
from streamjob.job.plan import plan
from streamjob.job.spec import SourceSpec
from streamjob.job.suggest import did_you_mean
from streamjob.protocol import messages as m
from streamjob.protocol.lifecycle import JobState
from streamjob.protocol.restarts import RestartPolicy
from streamjob.protocol.triggers import TriggerState
from streamjob.store.opening import open_location
from streamjob_runtime.chain.chain import Chain
from streamjob_runtime.chain.dataflow import reason
from streamjob_runtime.chain.source_rows import read_stream
from streamjob_runtime.checkpointing.ledger import RestoreFrom
from streamjob_runtime.control.running_job import RunningJob
from streamjob_runtime.job.epoch import Job as RunnableJob
from streamjob_runtime.job.runner import Runner, RunOptions
from streamjob_runtime.spark.gateway import parse
from streamjob_runtime.spark.job_files import JobFiles
from streamjob_runtime.testing.collecting import Collected
from streamjob_runtime.testing.comparing import compare
from streamjob_runtime.testing.errors import JobUnderTestFailed, NoColumns, NoEventTime, NotWithin, UnknownPart
from streamjob_runtime.testing.feeds import Feed, rows_of
from streamjob_runtime.testing.stand_ins import columns_of, under_test
from streamjob_runtime.testing.values import BadValue, read_value

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

Row = Mapping[str, Any]

_WITHIN = 120.0
_LOOK_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Session:
    """A Spark that any number of tests share.

    Args:
        spark: the session; each test gets one of its own from it, with views and settings of its own.
        files: the directory below which the session finds the files of jobs.
    """

    spark: SparkSession
    files: JobFiles


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
        self._parser = _parser(session.spark)
        self._loaded = _loaded(job, overrides, variables, self._parser)
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
        ddl = {source.name: columns_of(source, self._ask) for source in spec.sources}
        self._columns = {name: _columns(each) for name, each in ddl.items()}
        self._feeds = {source.name: Feed(directory / "feeds" / source.name) for source in spec.sources}
        collected = {name: each.name for name, each in self._collected.items()}
        self._under_test = replace(self._loaded, spec=under_test(spec, directory / "feeds", ddl, collected))
        self._fed: dict[str, list[Row]] = {}
        self._seen = dict.fromkeys(self._collected, 0)
        self._lives = 0
        self._life: _Life | None = None

    @property
    def name(self) -> str:
        """The job's name."""
        return self._loaded.spec.name

    @property
    def sinks(self) -> tuple[str, ...]:
        """The names of its sinks."""
        return tuple(self._collected)

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

    def process(self, *, checkpoint: bool = True) -> None:
        """Let the job process all rows that it was fed, and publish the output.

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
            of: the source with the watermark; default all sources that have one.

        Raises:
            NoEventTime: it has no watermark.
            JobUnderTestFailed: the job failed.
            NotWithin: it takes too long.
        """
        milliseconds = round(self._time(to).timestamp() * 1000)
        spec = self._loaded.spec
        timed = {each.name: each.uid for each in spec.sources if each.watermark is not None}
        if of is not None:
            name = self._known(of, self._feeds, "source")
            timed = {each: uid for each, uid in timed.items() if each == name}
        if not timed:
            whom = "the job" if of is None else f"source {self._known(of, self._feeds, 'source')!r}"
            raise NoEventTime(f"{whom} has no event time to advance", "declare a watermark on the source")
        self._give()
        life = self._running()
        for chain in life.chains.values():
            at = {uid: milliseconds for uid in timed.values() if uid in chain.dataflow.watermark_nodes}
            chain.advance_event_time(at)
        for name in timed:
            self._feeds[name].add(())
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
        loaded = _loaded(job, overrides, (), self._parser)
        for source in loaded.spec.sources:
            self._known(source.name, self._feeds, "source")
        for sink in loaded.spec.sinks:
            self._known(sink.name, self._collected, "sink")
        if self._lives:
            self.stop()
        ddl = {source.name: columns_of(source, self._ask) for source in loaded.spec.sources}
        self._columns.update({name: _columns(each) for name, each in ddl.items()})
        collected = {name: each.name for name, each in self._collected.items()}
        self._loaded = loaded
        self._under_test = replace(loaded, spec=under_test(loaded.spec, self._directory / "feeds", ddl, collected))

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
        expected = rows_of(f"sink {sink!r}", rows, columns, self._zone)
        named = {name for row in rows for name in row}
        compared = [name for name in columns.names if name in named]
        chosen = [{name: row[name] for name in compared} for row in expected]
        read = rows_of(f"sink {sink!r}", found, columns, self._zone)
        differing = compare(chosen, read)
        return f"sink {sink!r}: " + "\n".join(differing.lines()) if differing else None

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

    def _known(self, part: str | Handle, parts: Mapping[str, object], kind: str) -> str:
        name = part.name if isinstance(part, Handle) else part
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
            return read_stream(self._spark, source, source.format, self._loaded.options(source)).schema
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
        """Let the sources read what they were fed, one batch for each, and wait until it is processed."""
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

    def _running(self) -> _Life:
        if self._life is None:
            self._lives += 1
            workdir = self._directory / "work" / str(self._lives)
            workdir.mkdir(parents=True)
            self._life = _Life(self._under_test, self._spark, self._files, workdir, self._location(), self._within)
            self._life.settle()
        return self._life

    def _location(self) -> str:
        return str(self._directory / "snapshots")

    def _checkpoint(self) -> None:
        life = self._running()
        life.checkpoint()
        life.wait_for(
            lambda: not any(each.has_staged for each in self._collected.values()), "the output to be published"
        )


class _Life:
    """A job from its start to its end or to its death."""

    def __init__(
        self, loaded: LoadedJob, spark: SparkSession, files: JobFiles, workdir: Path, location: str, within: float
    ) -> None:
        # Python workers import the job's modules from its directory, as they do behind `streamjob run`.
        paths = [str(loaded.directory), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        spark.sparkContext.environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))

        def session(partitions: int) -> SparkSession:
            spark.conf.set("spark.sql.shuffle.partitions", partitions)
            return spark

        name = loaded.spec.name
        self._store = open_location(location).job("default", name).store()
        job = RunnableJob(
            loaded=loaded,
            plan=plan(loaded.spec),
            namespace="default",
            name=name,
            workdir=workdir,
            files=files,
            clock=steady_clock(),
            spark=session,
        )
        options = RunOptions(RestoreFrom(), Attempt(0), RestartPolicy(attempts=0))
        self._name = name
        self._within = within
        self._runner = Runner(job, self._store, options)
        self._control = RunningJob(self._runner)
        self._code: ExitCode | None = None
        self._error: BaseException | None = None
        self._requests = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"test-{name}")
        self._thread = threading.Thread(target=self._run, name=f"job-{name}", daemon=True)
        self._thread.start()

    @property
    def chains(self) -> Mapping[ChainUid, Chain]:
        """The running chains."""
        epoch = self._runner.epoch
        return epoch.chains if epoch is not None else {}

    def settle(self) -> None:
        """Wait until the job has processed everything that it can read."""
        coordination = self._runner.coordination
        self.wait_for(lambda: coordination.lifecycle.state is JobState.RUNNING, "the job to run")
        deadline = time.monotonic() + self._within
        while True:
            before = self._positions()
            for chain in self.chains.values():
                query = chain.queries[-1]
                waiting = self._pool.submit(query.processAllAvailable)
                try:
                    waiting.result(max(0.0, deadline - time.monotonic()))
                except PoolTimeout:
                    raise self._late("the job to process its rows") from None
                except Exception:
                    # Its query has failed, or has been stopped by the failure of another one.
                    self._thread.join(self._within)
                    self._check_running()
                    raise
            self._check_running()
            if self._positions() == before:
                return

    @contextlib.contextmanager
    def between_batches(self, fed: Mapping[str, object], feeds: Mapping[str, Feed]) -> Iterator[None]:
        """Let no batch of a chain see only some of its sources' new rows.

        Spark asks the sources of a query one after the other. So a batch without rows begins first, and waits until all
        rows are there.

        Args:
            fed: the sources that get rows in this context, by name.
            feeds: their files.
        """
        shared = []
        for planned in self._runner.job.plan.chains:
            names = [source.name for source in planned.sources if source.name in fed]
            if len(names) > 1:
                shared.append((self.chains[planned.uid], names[0]))
        if not shared:
            yield
            return
        epoch = self._runner.epoch
        assert epoch is not None
        assert epoch.emission is not None
        with epoch.emission.lock:
            for chain, name in shared:
                begun = chain.checkpoint / "offsets" / str(chain.last_emitted + 1)
                feeds[name].add(())
                self.wait_for(begun.exists, "a batch to begin")
            yield

    def checkpoint(self) -> None:
        """Take a checkpoint."""
        self._requests += 1
        trigger = TriggerId(f"test-{self._requests}")
        self._control.trigger_checkpoint(trigger)

        def done() -> bool:
            view = self._control.trigger(trigger)
            if view is None or view.state is not TriggerState.FAILED:
                return view is not None and view.state is TriggerState.COMPLETED
            raise JobUnderTestFailed(f"job {self._name!r} could not take a checkpoint: {view.failure}")

        self.wait_for(done, "a checkpoint")

    def drain(self) -> None:
        """End its input, and let it end."""
        self._control.stop(savepoint=False, location=None, drain=True, trigger_id=TriggerId("test-finish"))
        self._end("the job to finish")

    def stop(self) -> None:
        """Stop it with a checkpoint."""
        self._control.stop(savepoint=False, location=None, drain=False, trigger_id=TriggerId("test-stop"))
        self._end("the job to stop")

    def kill(self) -> None:
        """End it at once."""
        chain = self._runner.job.plan.chains[0].uid
        self._runner.coordination.post(
            m.ChainStateChanged(
                now=self._runner.job.clock(), chain=chain, status=m.ChainStatus.FAILED, message="killed by its test"
            )
        )
        self._thread.join(self._within)
        self._close()

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until a condition holds. Raises JobUnderTestFailed, NotWithin."""
        deadline = time.monotonic() + self._within
        while not condition():
            self._check_running()
            if time.monotonic() > deadline:
                raise self._late(what)
            time.sleep(_LOOK_SECONDS)

    def _end(self, what: str) -> None:
        self._thread.join(self._within)
        if self._thread.is_alive():
            raise self._late(what)
        self._close()
        if self._error is not None:
            raise self._error
        if self._code is not ExitCode.OK:
            raise self._failed()

    def _close(self) -> None:
        self._pool.shutdown(wait=False)
        self._store.close()

    def _late(self, what: str) -> NotWithin:
        state = self._runner.coordination.lifecycle.state
        return NotWithin(f"job {self._name!r}: waited {self._within:g} s for {what}; it is {state}")

    def _check_running(self) -> None:
        if self._thread.is_alive():
            return
        if self._error is not None:
            raise self._error
        raise self._failed()

    def _failed(self) -> JobUnderTestFailed:
        return JobUnderTestFailed(f"job {self._name!r} failed: {self._runner.coordination.status().failure}")

    def _positions(self) -> list[int]:
        return [chain.last_emitted for chain in self.chains.values()]

    def _run(self) -> None:
        try:
            self._code = self._runner.run()
        except BaseException as error:
            self._error = error


def changeable_conf(loaded: LoadedJob, spark: SparkSession | None = None) -> dict[str, str]:
    """Return a job's `sparkConf`, without values from environment variables that are not set.

    Args:
        loaded: the job.
        spark: a running session; then only settings that it can change.
    """
    values = {key: value for key, value in loaded.spec.spark_conf.items() if not any(missing_names(value, os.environ))}
    return {
        key: substitute(value, os.environ)
        for key, value in values.items()
        if spark is None or spark.conf.isModifiable(key)
    }


def _loaded(
    job: str | Path | Job | LoadedJob,
    overrides: Sequence[str],
    variables: Sequence[str],
    parser: Callable[[str], str | None],
) -> LoadedJob:
    if isinstance(job, LoadedJob):
        return job
    if isinstance(job, Job):
        return load_dsl(job, spark_parser=parser)
    return load_job(job, overrides, variables=variables, spark_parser=parser)


def _parser(spark: SparkSession) -> Callable[[str], str | None]:
    """Return what asks a running Spark why it cannot parse a query."""
    from pyspark.errors import ParseException

    def why(sql: str) -> str | None:
        try:
            parse(spark, sql)
        except ParseException as error:
            return str(error).split("\n== SQL", 1)[0].strip()
        return None

    return why


def _columns(ddl: str) -> StructType:
    from pyspark.sql.types import StructType

    return cast("StructType", StructType.fromDDL(ddl))
