"""Builds one streaming DataFrame from a job's graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from streamjob.errors import InvalidInput
from streamjob.ids import ChainUid, OperatorUid
from streamjob.job.connectors.changes import is_replace
from streamjob.job.connectors.file_source import bucket_and_prefix, in_bucket
from streamjob.job.connectors.kafka_source import FORMAT as KAFKA
from streamjob.job.connectors.options import option
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.spec import OperatorSpec, SinkSpec, SourceSpec, Watermark
from streamjob.job.planning.plan import ChainPlan
from streamjob.protocol.batch_size import Bounds
from streamjob.snapshot.state_form import StateForm
from streamjob_runtime.chain.channels.stream import Reading
from streamjob_runtime.chain.event_time.event_times import ObservedInput, Watermarked
from streamjob_runtime.chain.event_time.temporal_joins import join_versions
from streamjob_runtime.chain.event_time.temporal_queries import query_result
from streamjob_runtime.chain.event_time.watermarks import event_time_columns, marked
from streamjob_runtime.chain.query_planning import describe_forms
from streamjob_runtime.chain.sources.batch_limits import channel_bounds, with_first_limit
from streamjob_runtime.chain.sources.bounded_files import BoundedEnd
from streamjob_runtime.chain.sources.changes import check_changes, with_available
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles
from streamjob_runtime.chain.sources.null_event_times import with_event_times
from streamjob_runtime.chain.sources.source_rows import read_stream, source_rows, with_watermark
from streamjob_runtime.chain.sources.trying import with_failed_rows
from streamjob_runtime.discovery.objects import base_of
from streamjob_runtime.kafka.bounded import FORMAT as BOUNDED_KAFKA
from streamjob_runtime.kafka.bounded import bound_topics, latest_offsets
from streamjob_runtime.kafka.client import for_batches
from streamjob_runtime.kafka.positions import write_offsets
from streamjob_runtime.kafka.starting import KafkaStart, beginning_at
from streamjob_runtime.sinks.rows.unavailable import available
from streamjob_runtime.spark.gateway import (
    analyzed_plan,
    check_for_streaming,
    first_of_class,
    gives_whole_results,
    java_errors,
    our_java,
    streaming_leaves,
    thrown,
)
from streamjob_runtime.spark.text.error_text import fix_of, reason
from streamjob_runtime.spark.text.user_functions import mistakes_named
from streamjob_runtime.tables.lookups import Lookup, look_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FilesRead = Callable[[tuple[OperatorUid, ...], tuple[int, ...]], Mapping[OperatorUid, Container[str]]]


class InvalidOperator(InvalidInput):
    """Spark cannot read a source, or refuses an operator; nothing was started."""


@dataclass(frozen=True)
class Dataflow:
    """A chain's query.

    `sources` are uids in the order of Spark's positions, `directories` Spark's numbers of their directories below
    `sources/`. `watermark_nodes` has the watermarks by the source whose rows each times, `ends` the bounded sources.
    Input from another chain counts as a source with the uid of the node that produced it; `channels` has its chain.
    `forms` are the forms of its stateful operators' state, in the order of Spark's numbers. `output_delay_ms` is how
    far the event time of its output may be behind the query's watermark. `idle_timeouts` has the seconds without a row
    after which an input does not hold the watermark back. `lookups` are those of its operators. `batch_bounds` has how
    much its inputs may bring to a batch, where that changes with the time that batches take. `begins` has where sources
    begin that Spark has not read yet, in the form of their connectors. `discovered` has those that read files.
    `observed` has the inputs whose rows move their watermark.
    """

    output: DataFrame
    output_mode: str
    sources: tuple[OperatorUid, ...]
    directories: tuple[int, ...]
    watermark_nodes: Mapping[OperatorUid, str]
    ends: Mapping[OperatorUid, JsonValue]
    channels: Mapping[OperatorUid, ChainUid] = field(default_factory=dict)
    forms: tuple[StateForm, ...] = ()
    output_delay_ms: int = 0
    idle_timeouts: Mapping[OperatorUid, float] = field(default_factory=dict)
    lookups: Mapping[OperatorUid, Lookup] = field(default_factory=dict)
    batch_bounds: Mapping[OperatorUid, Bounds] = field(default_factory=dict)
    begins: Mapping[OperatorUid, JsonValue] = field(default_factory=dict)
    discovered: Mapping[OperatorUid, DiscoveredFiles] = field(default_factory=dict)
    observed: Mapping[OperatorUid, ObservedInput] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SourcesBefore:
    """A restored snapshot's data about the sources; empty for a fresh start.

    Args:
        ends: ends of bounded sources; a source without one is fixed now.
        positions: the sources' positions in the form of their connectors.
        files_read: returns the files that a bounded file source has read, given `sources` and `directories` of the
            dataflow.
        finished: whether the chain was finished for good, so that it reads nothing more.
        log: returns the directory of a source below `sources/`; None if there is none.
    """

    ends: Mapping[OperatorUid, JsonValue]
    positions: Mapping[OperatorUid, JsonValue]
    files_read: FilesRead
    finished: bool
    log: Callable[[OperatorUid], Path | None]


def apply_operator(
    spark: SparkSession,
    job: LoadedJob,
    operator: OperatorSpec,
    frames: Mapping[str, DataFrame],
    note: Callable[[Lookup], None] = lambda lookup: None,
) -> DataFrame:
    """Return the result of an operator for its inputs and tables, which are also views of the session.

    Args:
        frames: its inputs and tables, by name.
        note: is called with the lookup of an operator that has one.

    Raises:
        InvalidOperator: Spark refuses it, or it does not return a DataFrame.
        WrongFunction: its function has a mistake.
        ChangesMiscounted: it treats changes as rows of their own.
        InvalidJoin: the columns of a lookup or of a temporal join do not fit.
        RowsNotSeparable: it has `onError`, and does more than to compute each row by itself.
        StreamJobError: the database of a lookup does not tell the columns of its table.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    what = f"Operator {operator.name!r}"

    def compute(inputs: Mapping[str, DataFrame]) -> DataFrame:
        if operator.sql is not None:
            with _views(inputs, frames):
                return query_result(spark, operator)
        if operator.lookup is not None:
            result, lookup = look_up(spark, job, operator, inputs[operator.inputs[0].name])
            note(lookup)
            return result
        if operator.temporal_join is not None:
            return join_versions(spark, operator, *inputs.values())
        tables = [frames[name] for name in operator.tables or ()]
        function = job.resolve(operator)
        with mistakes_named(what, function):
            result = function(*(inputs[each.name] for each in operator.inputs), *tables)
        if not isinstance(result, DataFrame):
            raise InvalidOperator(
                f"{what} returned {type(result).__name__}, not a DataFrame", "return the DataFrame that it computes"
            )
        return result

    inputs: Mapping[str, DataFrame] = {each.name: frames[each.name] for each in operator.inputs}
    if operator.on_error is not None:
        inputs = {name: available(frame, f"{what} has onError") for name, frame in inputs.items()}
    try:
        result, inputs = with_available(what, inputs, compute)
    except PySparkException as error:
        raise InvalidOperator(f"{what}: {reason(error)}", fix_of(error)) from error
    check_changes(what, result, inputs, spark)
    if operator.on_error is None:
        return result
    (rows,) = inputs.values()
    return with_failed_rows(spark, operator, rows, result)


@contextmanager
def _views(inputs: Mapping[str, DataFrame], frames: Mapping[str, DataFrame]) -> Iterator[None]:
    """Let queries read inputs in place of the frames of the same names, which are views of the session."""
    other = [name for name, frame in inputs.items() if frame is not frames[name]]
    for name in other:
        inputs[name].createOrReplaceTempView(name)
    try:
        yield
    finally:
        for name in other:
            frames[name].createOrReplaceTempView(name)


def timed_operator(spark: SparkSession, operator: OperatorSpec, frame: DataFrame) -> tuple[Watermarked, int | None]:
    """Return the result of an operator with the event time that it declares.

    If its inputs have a watermark, this watermark goes on, less the declared delay: the operator's rows have the event
    time that their column says, and do not move it. Otherwise the rows move a watermark of their own.

    Returns:
        The rows, and the delay in milliseconds; None if the rows have a watermark of their own.

    Raises:
        InvalidOperator: its rows have event time already, it keeps state that needs a watermark before, or the column
            cannot be event time.
    """
    from pyspark.errors import PySparkException

    assert operator.watermark is not None
    column, delay_ms = operator.watermark.column, round(operator.watermark.delay * 1000)
    if event_time_columns(frame.schema):
        raise InvalidOperator(
            f"Operator {operator.name!r} has a watermark, and its rows have event time already",
            "keep one of the two watermarks: a row has one event time",
        )
    if our_java(spark).Watermarks.isIn(analyzed_plan(frame)):
        return Watermarked(_marked(operator, frame, column, delay_ms)), delay_ms
    if our_java(spark).StateForms.mayKeep(analyzed_plan(frame)):
        raise InvalidOperator(
            f"Operator {operator.name!r} has a watermark, and it or an operator before it in its chain keeps state "
            "without a watermark",
            "give a watermark also to a source, or to an operator before the first one that keeps state",
        )
    try:
        return with_watermark(frame, operator), None
    except PySparkException as error:
        raise InvalidOperator(f"Operator {operator.name!r}: {reason(error)}") from error


def _marked(operator: OperatorSpec, frame: DataFrame, column: str, delay_ms: int) -> DataFrame:
    found = [each for each in frame.schema.fields if each.name.lower() == column.lower()]
    if len(found) != 1:
        names = ", ".join(frame.schema.names)
        raise InvalidOperator(
            f"Operator {operator.name!r} has a watermark on {column!r}, and {len(found)} columns of that name: {names}",
            "name one column of its rows",
        )
    if found[0].dataType.simpleString() != "timestamp":
        raise InvalidOperator(
            f"Operator {operator.name!r} has a watermark on {column!r}, a column of type "
            f"{found[0].dataType.simpleString().upper()}",
            "return it from the operator as TIMESTAMP",
        )
    return marked(with_event_times(frame, operator), frame.schema.names, {found[0].name: delay_ms})


class DataflowBuilder:
    """Builds the query of a chain.

    Args:
        job: the job; resolves functions and options.
        before: the restored snapshot's data about its sources.
        readings: the rows of other chains, by the name of the node that produced them.
        tables: the job's tables, by name.
        starts: where its Kafka sources begin; one that is missing begins by its options.
        available_now: whether its sources end with what is there when its query starts.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: LoadedJob,
        chain: ChainPlan,
        before: SourcesBefore,
        readings: Mapping[str, Reading] | None = None,
        tables: Mapping[str, DataFrame] | None = None,
        starts: Mapping[OperatorUid, KafkaStart] | None = None,
        *,
        available_now: bool = False,
    ) -> None:
        self._available_now = available_now
        self._spark = spark
        self._job = job
        self._chain = chain
        self._before = before
        self._readings = dict(readings or {})
        self._tables = dict(tables or {})
        self._starts = {each.uid: starts[each.uid] for each in chain.sources if starts and each.uid in starts}
        self._frames: dict[str, DataFrame] = {}
        self._lookups: dict[OperatorUid, Lookup] = {}
        self._relations: dict[int, OperatorUid] = {}
        self._nodes: dict[OperatorUid, str] = {}
        self._ends: dict[OperatorUid, JsonValue] = {}
        self._discovered: dict[OperatorUid, DiscoveredFiles] = {}
        self._output_delay_ms = 0
        self._observed: dict[OperatorUid, ObservedInput] = {}
        self._idle_timeouts: dict[OperatorUid, float] = {}
        self._batch_bounds: dict[OperatorUid, Bounds] = {}

    def build(self) -> Dataflow:
        """Return the chain's query.

        Raises:
            InvalidOperator: Spark refuses a source or an operator; the error names it.
            InvalidColumns: the columns of a source need other rows.
            ChangesMiscounted: an operator treats changes as rows of their own.
            CannotRestore: unread data of a bounded source is gone.
            KafkaUnreachable, KafkaRefuses, TopicMissing: Kafka does not return the end of a bounded source.
        """
        for name, table in self._tables.items():
            self._add(name, table)
        for source in self._chain.sources:
            self._add(source.name, self._source(source))
        for channel in self._chain.channels:
            self._add(channel.name, self._channel(channel.name, channel.uid))
        for operator in self._chain.operators:
            self._add(operator.name, self._operator(operator))
        frame = self._frames[self._chain.output]
        if not frame.isStreaming:
            raise InvalidOperator(
                f"Operator {self._chain.output!r} returned a DataFrame that does not stream",
                "derive it from the operator's inputs",
            )
        mode = self._chain.output_mode
        with self._planned():
            check_for_streaming(self._spark, frame, mode)
            forms = () if self._before.finished else describe_forms(self._spark, frame, mode)
        fed = (each for each in self._job.spec.sinks if each.input == self._chain.output)
        replacing = [each.name for each in fed if is_replace(each)]
        if replacing and not gives_whole_results(frame):
            raise InvalidOperator(
                f"Operator {self._chain.output!r} does not give its whole result with each batch, by which sink "
                f"{replacing[0]!r} replaces its table: some rows come past its aggregation, or only when they are new",
                "let all rows come from an aggregation, without a UNION with other streams or dropDuplicates behind it",
            )
        sources, directories = self._source_order(frame)
        self._check_access()
        self._check_removal(sources, directories)
        if not self._before.finished:
            self._check_files(sources, directories)
        channels = {channel.uid: channel.source for channel in self._chain.channels}
        found = () if self._before.finished else self._discovered.items()
        begins = {uid: begin for uid, files in found if (begin := files.begin()) is not None}
        return Dataflow(
            frame,
            mode,
            sources,
            directories,
            self._nodes,
            self._ends,
            channels,
            forms,
            self._output_delay_ms,
            self._idle_timeouts,
            self._lookups,
            self._batch_bounds,
            {uid: json.loads(write_offsets(start.offsets)) for uid, start in self._starts.items()} | begins,
            self._discovered,
            self._observed,
        )

    def _check_access(self) -> None:
        """Refuse two ways to access a bucket: Spark has one for all of a job."""
        for uid, mine in self._discovered.items():
            own = mine.given.access
            for other in self._job.spec.connectors():
                of_spark = not isinstance(other, SinkSpec) or other.delivery == "at-least-once"
                options = self._job.options(other) if of_spark and own is not None else {}
                path, access = option(options, "path") or "", option(options, "access")
                if in_bucket(path) and base_of(bucket_and_prefix(path)[0]) == mine.base and access != own:
                    raise InvalidOperator(
                        f"Source {uid!r} has access: {own}, and {other.name!r} another access to its bucket",
                        "give both the same access, or copy the objects of one to another bucket",
                    )

    def _check_removal(self, sources: tuple[OperatorUid, ...], directories: tuple[int, ...]) -> None:
        for uid, mine in self._discovered.items():
            if not mine.given.removes and mine.given.queue_url is None:
                continue
            readings = {number for each, number in zip(sources, directories, strict=True) if each == uid}
            if len(readings) > 1:
                raise InvalidOperator(
                    f"Source {uid!r} has archiveTo, deleteAfter or queueUrl, and {self._chain.output!r} reads it "
                    f"{len(readings)} times, each reading at a position of its own",
                    "leave the option out, or read it once",
                )
            for other in self._job.spec.sources:
                files = None if other.uid == uid else DiscoveredFiles.of(self._spark, other, self._job.options(other))
                if files is not None and mine.given.queue_url and files.given.queue_url == mine.given.queue_url:
                    raise InvalidOperator(
                        f"Sources {uid!r} and {other.name!r} have one queueUrl, and each message goes to one of them",
                        "give each source a queue of its own, such as by SNS; or let both read through one source",
                    )
                if files is not None and mine.given.removes and files.overlaps(mine):
                    raise InvalidOperator(
                        f"Source {uid!r} has archiveTo or deleteAfter, and source {other.name!r} reads the same "
                        "objects: the job would remove them before that source has read them",
                        "leave the option out, or let both read through one source",
                    )

    def _check_files(self, sources: tuple[OperatorUid, ...], directories: tuple[int, ...]) -> None:
        read = self._before.files_read(sources, directories)
        for uid in self._discovered.keys() & self._ends.keys():
            self._discovered[uid].check_end(BoundedEnd.from_json(self._ends[uid]), read.get(uid, frozenset()))

    def _add(self, name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(name)
        self._frames[name] = frame

    def _source(self, source: SourceSpec) -> DataFrame:
        from pyspark.errors import PySparkException

        form, options = source.format, self._job.options(source)
        if form == KAFKA:
            options = for_batches(options)
        try:
            if self._job.spec.batch_duration:
                options, bounds = with_first_limit(form, options, self._job.spec.parallelism)
                if bounds is not None:
                    self._batch_bounds[source.uid] = bounds
            files = DiscoveredFiles.of(self._spark, source, options)
            if files is not None:
                self._discovered[source.uid] = files
                files.go_on(self._before.log(source.uid), self._before.positions.get(source.uid))
            if source.bounded:
                form, options = self._bounded(source, options)
            elif self._available_now:
                form = BOUNDED_KAFKA if form == KAFKA else form
                if files is not None:
                    files.once = True
            if source.uid in self._starts:
                options = beginning_at(options, self._starts[source.uid].offsets)
            frame = read_stream(self._spark, source, form, options, files)
            self._remember(source.uid, frame)
            rows = source_rows(self._spark, self._job, source, frame)
        except PySparkException as error:
            raise InvalidOperator(f"Source {source.name!r}: {reason(error)}") from error
        if source.watermark is not None:
            self._time(source.uid, rows, source.watermark)
        return rows.frame

    def _channel(self, name: str, uid: OperatorUid) -> DataFrame:
        reading = self._readings[name]
        self._remember(uid, reading.frame)
        spec = self._job.spec
        if spec.batch_duration:
            self._batch_bounds[uid] = channel_bounds(spec.channels.max_batch_records, spec.parallelism)
        if reading.node is not None:
            self._nodes[uid] = reading.node
        return reading.frame

    def _bounded(self, source: SourceSpec, options: dict[str, str]) -> tuple[str, dict[str, str]]:
        """Return the format and options that read a source up to its end."""
        uid = source.uid
        known = self._before.ends.get(uid)
        if source.format == KAFKA:
            position = self._before.positions.get(uid)
            topics = bound_topics(
                uid, options, known, position, latest_offsets(self._spark, uid, known=known is not None)
            )
            self._ends[uid] = topics.end.to_json()
            return BOUNDED_KAFKA, {**topics.options}
        self._ends[uid] = self._discovered[uid].end().to_json() if known is None else known
        return source.format, options

    def _operator(self, operator: OperatorSpec) -> DataFrame:
        note = partial(self._lookups.__setitem__, operator.uid)
        frame = apply_operator(self._spark, self._job, operator, self._frames, note)
        if operator.watermark is None:
            return frame
        timed, delay_ms = timed_operator(self._spark, operator, frame)
        if delay_ms is not None:
            # The plan ends a chain with such an operator.
            self._output_delay_ms = delay_ms
            return timed.frame
        # It is kept with the input that the rows come from, the first one of several: none of them has its own.
        leaves = [each for each in streaming_leaves(self._spark, frame) if each.source in self._relations]
        if leaves:
            self._time(self._relations[leaves[0].source], timed, operator.watermark)
        return timed.frame

    def _time(self, uid: OperatorUid, rows: Watermarked, watermark: Watermark) -> None:
        assert rows.node is not None
        self._nodes[uid] = rows.node
        in_topics = any(each.uid == uid and each.format == KAFKA for each in self._chain.sources)
        self._observed[uid] = ObservedInput(rows.times, watermark, by_partition=in_topics and watermark.per_partition)
        if watermark.idle_timeout is not None:
            self._idle_timeouts[uid] = watermark.idle_timeout

    @contextmanager
    def _planned(self) -> Iterator[None]:
        """Refuse now what Spark would refuse in every batch, where it would look like a temporary failure."""
        try:
            yield
        except java_errors() as error:
            if first_of_class(thrown(error), "java.io.IOException") is not None:
                raise
            names = [repr(operator.name) for operator in self._chain.operators]
            raise InvalidOperator(
                f"Spark cannot run {', '.join(names) or repr(self._chain.output)} as one query: {reason(error)}",
                self._fix(error),
            ) from error

    def _fix(self, error: Exception) -> str:
        """Return how to make a query out of operators that Spark does not take together."""
        if known := fix_of(error):
            return known
        several = len(self._chain.operators) > 1
        if (lost := self._loses_event_time()) is None:
            return "give one of them that keeps state `chain: false`" if several else "change the operator"
        fix = f"give operator {lost!r} `watermark: {{column: …, delay: …}}`: its rows have lost their event time"
        if lost in self._readings:
            return fix
        return fix + "; or, if none is needed behind it, give one that keeps state `chain: false`"

    def _loses_event_time(self) -> str | None:
        """Return the first operator whose rows have no event time, while its inputs have; not the last one."""
        for name, reading in self._readings.items():
            if reading.lost:
                return name
        for operator in self._chain.operators:
            inputs = (self._frames[each.name] for each in operator.inputs)
            lost = not event_time_columns(self._frames[operator.name].schema)
            if lost and operator.name != self._chain.output and any(event_time_columns(each.schema) for each in inputs):
                return operator.name
        return None

    def _remember(self, uid: OperatorUid, frame: DataFrame) -> None:
        for leaf in streaming_leaves(self._spark, frame):
            self._relations[leaf.source] = uid

    def _source_order(self, frame: DataFrame) -> tuple[tuple[OperatorUid, ...], tuple[int, ...]]:
        # A source that is read twice appears twice in the plan, and so in Spark's list of positions. In a union both
        # are the same relation, for which Spark creates one source; in a join they differ.
        leaves = [leaf for leaf in streaming_leaves(self._spark, frame) if leaf.source in self._relations]
        directories: list[int] = []
        for number, leaf in enumerate(leaves):
            same = next((other for other in range(number) if leaves[other].plan.equals(leaf.plan)), None)
            directories.append(max(directories, default=-1) + 1 if same is None else directories[same])
        return tuple(self._relations[leaf.source] for leaf in leaves), tuple(directories)
