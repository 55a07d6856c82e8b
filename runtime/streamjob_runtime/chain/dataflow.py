"""Builds one streaming DataFrame from a job's graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import JsonValue

from streamjob.errors import InvalidInput
from streamjob.ids import ChainUid, OperatorUid
from streamjob.job.kafka import FORMAT as KAFKA
from streamjob.job.load import LoadedJob
from streamjob.job.plan import ChainPlan
from streamjob.job.spec import OperatorSpec, SourceSpec
from streamjob.snapshot.state_form import StateForm
from streamjob_runtime.chain.bounded_files import BoundedEnd, FileReader, check_end, fix_end
from streamjob_runtime.chain.channels.stream import Reading
from streamjob_runtime.chain.query_planning import describe_forms
from streamjob_runtime.chain.source_rows import read_stream, source_rows, with_watermark
from streamjob_runtime.chain.watermarks import event_time_columns
from streamjob_runtime.kafka.bounded import FORMAT as BOUNDED_KAFKA
from streamjob_runtime.kafka.bounded import bound_topics, latest_offsets
from streamjob_runtime.spark.gateway import (
    analyzed_plan,
    check_for_streaming,
    our_java,
    streaming_leaves,
    watermark_node,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FilesRead = Callable[[tuple[OperatorUid, ...], tuple[int, ...]], Mapping[OperatorUid, frozenset[str]]]


class InvalidOperator(InvalidInput):
    """Spark cannot read a source, or refuses an operator; nothing was started."""


@dataclass(frozen=True)
class Dataflow:
    """A chain's query.

    `sources` are uids in the order of Spark's positions, `directories` Spark's numbers of their directories below
    `sources/`. `watermark_nodes` has the watermarks by the source whose rows each times, `ends` the bounded sources.
    Input from another chain counts as a source with the uid of the node that produced it; `channels` has its chain.
    `forms` are the forms of its stateful operators' state, in the order of Spark's numbers.
    """

    output: DataFrame
    output_mode: str
    sources: tuple[OperatorUid, ...]
    directories: tuple[int, ...]
    watermark_nodes: Mapping[OperatorUid, str]
    ends: Mapping[OperatorUid, JsonValue]
    channels: Mapping[OperatorUid, ChainUid] = field(default_factory=dict)
    forms: tuple[StateForm, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SourcesBefore:
    """A restored snapshot's data about the sources; empty for a fresh start.

    Args:
        ends: ends of bounded sources; a source without one is fixed now.
        positions: the sources' positions in the form of their connectors.
        files_read: returns the files that a bounded file source has read, given `sources` and `directories` of the
            dataflow.
        finished: whether the chain was finished for good, so that it reads nothing more.
    """

    ends: Mapping[OperatorUid, JsonValue]
    positions: Mapping[OperatorUid, JsonValue]
    files_read: FilesRead
    finished: bool


def apply_operator(
    spark: SparkSession, job: LoadedJob, operator: OperatorSpec, frames: Mapping[str, DataFrame]
) -> DataFrame:
    """Return the result of an operator for its inputs, which also become views of the session.

    Raises:
        InvalidOperator: Spark refuses it, or it does not return a DataFrame.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    try:
        if operator.sql is not None:
            return spark.sql(operator.sql)
        result = job.resolve(operator)(*(frames[each.name] for each in operator.inputs))
    except PySparkException as error:
        raise InvalidOperator(f"Operator {operator.name!r}: {reason(error)}") from error
    if not isinstance(result, DataFrame):
        raise InvalidOperator(
            f"Operator {operator.name!r} returned {type(result).__name__}, not a DataFrame",
            "return the DataFrame that it computes",
        )
    return result


def timed_operator(spark: SparkSession, operator: OperatorSpec, frame: DataFrame) -> DataFrame:
    """Return the result of an operator with the watermark that it declares.

    Raises:
        InvalidOperator: it keeps state, its rows have event time already, or Spark refuses the column.
    """
    from pyspark.errors import PySparkException

    if event_time_columns(frame.schema):
        raise InvalidOperator(
            f"Operator {operator.name!r} has a watermark, and its rows have event time already",
            "keep one of the two watermarks: a row has one event time",
        )
    if our_java(spark).StateForms.mayKeep(analyzed_plan(frame)):
        raise InvalidOperator(
            f"Operator {operator.name!r} has a watermark, and it or an operator before it in its chain keeps state",
            "give the watermark to an operator before the first one that keeps state",
        )
    try:
        return with_watermark(frame, operator)
    except PySparkException as error:
        raise InvalidOperator(f"Operator {operator.name!r}: {reason(error)}") from error


class DataflowBuilder:
    """Builds the query of a chain.

    Args:
        spark: the session.
        job: the job; resolves functions and options.
        chain: the chain.
        before: the restored snapshot's data about its sources.
        readings: the rows of other chains, by the name of the node that produced them.
    """

    def __init__(
        self,
        spark: SparkSession,
        job: LoadedJob,
        chain: ChainPlan,
        before: SourcesBefore,
        readings: Mapping[str, Reading] | None = None,
    ) -> None:
        self._spark = spark
        self._job = job
        self._chain = chain
        self._before = before
        self._readings = dict(readings or {})
        self._frames: dict[str, DataFrame] = {}
        self._relations: dict[int, OperatorUid] = {}
        self._nodes: dict[OperatorUid, str] = {}
        self._ends: dict[OperatorUid, JsonValue] = {}
        self._bounded_readers: dict[OperatorUid, FileReader] = {}

    def build(self) -> Dataflow:
        """Return the chain's query.

        Raises:
            InvalidOperator: Spark refuses a source or an operator; the error names it.
            InvalidColumns: the columns of a source need other rows.
            CannotRestore: unread data of a bounded source is gone.
            KafkaUnreachable, KafkaRefuses, TopicMissing: Kafka does not return the end of a bounded source.
        """
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
        self._check_supported(frame)
        sources, directories = self._source_order(frame)
        if not self._before.finished:
            self._check_files(sources, directories)
        channels = {channel.uid: channel.source for channel in self._chain.channels}
        mode = self._chain.output_mode
        forms = () if self._before.finished else describe_forms(self._spark, frame, mode)
        return Dataflow(frame, mode, sources, directories, self._nodes, self._ends, channels, forms)

    def _check_files(self, sources: tuple[OperatorUid, ...], directories: tuple[int, ...]) -> None:
        read = self._before.files_read(sources, directories)
        for uid, reader in self._bounded_readers.items():
            end = BoundedEnd.from_json(self._ends[uid])
            check_end(self._spark, reader, end, uid, read.get(uid, frozenset()))

    def _add(self, name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(name)
        self._frames[name] = frame

    def _source(self, source: SourceSpec) -> DataFrame:
        from pyspark.errors import PySparkException

        form, options = source.format, self._job.options(source)
        try:
            if source.bounded:
                form, options = self._bounded(source, options)
            frame = read_stream(self._spark, source, form, options)
            self._remember(source.uid, frame)
            frame = source_rows(self._spark, self._job, source, frame)
            if source.watermark:
                self._nodes[source.uid] = watermark_node(frame)
        except PySparkException as error:
            raise InvalidOperator(f"Source {source.name!r}: {reason(error)}") from error
        return frame

    def _channel(self, name: str, uid: OperatorUid) -> DataFrame:
        reading = self._readings[name]
        self._remember(uid, reading.frame)
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
        path = options.pop("path")
        reader = FileReader(source.format, source.schema_ddl, options)
        end = fix_end(self._spark, reader, path) if known is None else BoundedEnd.from_json(known)
        with_base = {"basePath": end.root, **options}
        self._bounded_readers[uid] = FileReader(source.format, source.schema_ddl, with_base)
        self._ends[uid] = end.to_json()
        return source.format, {**with_base, "path": end.pattern}

    def _operator(self, operator: OperatorSpec) -> DataFrame:
        frame = apply_operator(self._spark, self._job, operator, self._frames)
        if operator.watermark is None:
            return frame
        timed = timed_operator(self._spark, operator, frame)
        # It is kept with the input that the rows come from, the first one of several: none of them has its own.
        leaves = [each for each in streaming_leaves(self._spark, frame) if each.source in self._relations]
        if leaves:
            self._nodes[self._relations[leaves[0].source]] = watermark_node(timed)
        return timed

    def _check_supported(self, frame: DataFrame) -> None:
        """Refuse now what Spark would refuse when the query starts, where it would look like a temporary failure."""
        from pyspark.errors import PySparkException

        try:
            check_for_streaming(self._spark, frame, self._chain.output_mode)
        except PySparkException as error:
            names = [repr(operator.name) for operator in self._chain.operators]
            fix = "give one of them that keeps state `chain: false`" if len(names) > 1 else "change the operator"
            raise InvalidOperator(
                f"Spark cannot run {', '.join(names) or repr(self._chain.output)} as one query: {reason(error)}", fix
            ) from error

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


def reason(error: Exception) -> str:
    """Return the problem in Spark's message, without the plan and the stack trace."""
    return str(error).split("\n\nJVM stacktrace", 1)[0].split(";\n", 1)[0].strip()
