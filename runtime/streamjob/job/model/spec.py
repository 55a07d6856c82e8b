"""The model of a job: one for the Python DSL, for a YAML file and for the StreamJob resource.

Files use the camelCase names, Python the snake_case ones. Rules about a single field are checked here; rules about
several fields are checked by `streamjob.job.checks.validate`.
"""

from __future__ import annotations

import textwrap
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
)

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.durations import Seconds
from streamjob.ids import OperatorUid
from streamjob.job.connectors.of_spark import FUNCTION
from streamjob.job.connectors.registry import source_of
from streamjob.job.model.encoding_spec import Encoding
from streamjob.job.model.formats import default_delivery
from streamjob.job.model.join_spec import LookupPolicy, LookupSpec, TemporalJoinSpec
from streamjob.job.model.spec_fields import Delay, JobName, NodeName, Options, Spec, Uid

Changes = Literal["debezium", "upsert"]
OnError = Literal["fail", "drop", "deadLetter"]
OnUnavailable = Literal["fail", "asNull"]
Delivery = Literal["exactly-once", "at-least-once"]
OutputMode = Literal["append", "update", "complete"]

MOST_PARTS = 500
"""Maximum number of sources, of operators and of sinks in a job; checking and planning that many takes seconds."""
MOST_INPUTS = 100
"""Maximum number of inputs of one operator."""
MOST_PARTITIONS = 32_768
"""Maximum number of task slots and of state partitions, as in Flink."""
MOST_AHEAD = 86_400.0
"""Seconds that an event time may be ahead of the clock, unless the watermark says otherwise."""


def _name(data: dict[str, Any]) -> Any:
    return data.get("name", "unnamed")


class CheckpointingPolicy(LiveCheckpointingPolicy, Spec):
    """When and how checkpoints are taken, and how many are retained."""

    # A file cannot set the interval to None: null stands for the default. The control API can.
    incremental: bool = Field(default=True, description="Upload only files that the store does not have yet.")
    location: str | None = Field(
        default=None,
        min_length=1,
        description="Location of checkpoints: a path, `file:///…` or `s3://bucket/prefix`. A path is relative to the "
        "file. `--location` overrides it.",
    )


class ChannelPolicy(Spec):
    """Limits of the channels between chains; a job of one chain has no channels."""

    capacity_bytes: int = Field(
        default=67_108_864,
        ge=1,
        strict=True,
        description="Bytes that a channel holds before its writer waits.",
    )
    capacity_records: int | None = Field(
        default=None,
        ge=1,
        strict=True,
        description="Records that a channel holds before its writer waits. Default: unlimited.",
    )
    max_batch_records: int = Field(
        default=1_000_000,
        ge=1,
        strict=True,
        description="Maximum number of records that a chain reads from its channels in one batch.",
    )
    feedback_bytes: int = Field(
        default=10_737_418_240,
        ge=1,
        strict=True,
        description="Bytes on disk that one feedback channel of a loop may hold. There is no backpressure in a loop, "
        "so a loop that needs more fails the job.",
    )


class Watermark(Spec):
    """Event time of a source or operator, and the maximum delay of its rows."""

    column: str = Field(
        min_length=1, description="The event-time column, a TIMESTAMP among the columns of the source or operator."
    )
    delay: Delay = Field(
        ge=0, description="Rows may be dropped if their event time is further than this behind the latest one."
    )
    idle_timeout: Delay | None = Field(
        default=None,
        gt=0,
        description="If no rows arrive for this long, the watermarks of the other inputs advance without this one, and "
        "its next rows may be late. The same for a partition of a Kafka topic. Default: never.",
    )
    max_ahead: Delay = Field(
        default=MOST_AHEAD,
        gt=0,
        exclude_if=lambda value: value == MOST_AHEAD,
        description="An event time further ahead of the clock than this does not move the watermark; its row is "
        "counted, and processed like others. Default: a day.",
    )
    per_partition: bool = Field(
        default=True,
        exclude_if=bool,
        description="Whether each partition of a Kafka topic has a watermark, and the source the least of them. "
        "Otherwise the latest row of any partition moves the watermark.",
    )
    null_event_time: OnError | None = Field(
        default=None,
        description="Handling of a row whose event time is NULL, which no watermark ever passes: `fail` ends the job; "
        "`drop` drops the row and counts it; `deadLetter` also hands it, as JSON, to the readers of "
        "`NAME_dead_letters`, where NAME is the source or operator. Default: `fail`.",
    )


class Node(Spec):
    """A part of the graph."""

    name: NodeName = Field(description="Its name in the job; for sources and operators also the table name in SQL.")
    uid: Uid = Field(default_factory=_name, description="Its identity in snapshots. Default: the name.")


class SourceSpec(Node):
    """An input: any streaming source of Spark."""

    format: str = Field(min_length=1, description="Spark's name of the source: csv, json, parquet, kafka, rate, …")
    schema_ddl: str | None = Field(
        default=None, alias="schema", description="The columns, as `name TYPE, …`; required for files."
    )
    schema_file: str | None = Field(
        default=None,
        description="As an alternative: a file with the columns, also as JSON of Spark or Avro, relative to the job "
        "file. Not in the `job` of a `StreamJob`.",
    )
    key: Encoding | None = Field(
        default=None, description="How to decode the keys of a Kafka source. Default: they stay bytes."
    )
    value: Encoding | None = Field(
        default=None,
        description="How to decode the values of a Kafka source: the column `value` becomes a struct of the fields of "
        "the schema, or a text. Default: they stay bytes.",
    )
    changes: Changes | None = Field(
        default=None,
        description="How records of a Kafka source describe changes: `debezium`, by Debezium's envelopes, whose "
        "rows have the fields of `value.schema`; or `upsert`, where a record replaces that of the same key, and one "
        "without a value deletes it. The column `_change_type` has the kind of each change. Default: records are rows "
        "of their own.",
    )
    unavailable_value: str | None = Field(
        default=None,
        min_length=1,
        description="With `changes`: what stands in a column that the database did not send with a change, as in "
        "`unavailable.value.placeholder` of Debezium's connector. A sink of PostgreSQL, Iceberg or Delta with "
        "`mode: upsert` leaves such a column as it is stored. Default: `__debezium_unavailable_value`.",
    )
    on_unavailable: OnUnavailable | None = Field(
        default=None,
        description="Handling of such a column where it cannot stay as it is stored: in other sinks, and where it is "
        "computed with. `fail` ends the job and names the column, `asNull` makes it `NULL`. Default: `fail`.",
    )
    on_error: OnError | None = Field(
        default=None,
        description="Handling of a record that cannot be decoded, by `key` and `value`, or of csv and json files, and "
        "of a file that is damaged: `fail` ends the job and names the record or file; `drop` leaves it out and counts "
        "it; `deadLetter` also hands it to the readers of `NAME_dead_letters`, where NAME is the source. Default: "
        "`fail`, unless the options of csv or json files set Spark's `mode`.",
    )
    skip: str | None = Field(
        default=None,
        description="Records of a Kafka source that are not read, as `topic/partition/offset, …`.",
    )
    columns: tuple[str, ...] | None = Field(
        default=None,
        description="SQL expressions that compute the source's columns from those of the format: `*`, "
        "`to_timestamp(departed) AS at`. Default: the columns of the format.",
    )
    python: str | None = Field(
        default=None,
        description="In place of `columns`: `module:function`. The function takes the source's rows as a DataFrame and "
        "returns a DataFrame, without state.",
    )
    options: Options = Field(default_factory=dict, description="Spark's options of the source.")
    bounded: bool = Field(
        default=False,
        description="Whether the source ends, with the files or Kafka records that exist at the job's first start.",
    )
    replayable: bool = Field(
        default_factory=lambda data: source_of(data.get("format", "")).replayable,
        exclude_if=bool,
        description="Whether the source gives a row again to a start from a position before it. Otherwise the "
        "source starts over at each start and restart: rows since the last checkpoint, and while the job was down, are "
        "lost. Default: yes, but for `socket`.",
    )
    watermark: Watermark | None = Field(default=None, description="The event-time column, and how late rows may be.")


class TableSpec(Spec):
    """A table that operators join with their inputs: any batch source of Spark, read as a whole."""

    name: NodeName = Field(description="Its name in the job, and in SQL.")
    format: str = Field(
        min_length=1, description="Spark's name of the source: csv, json, parquet, jdbc, iceberg, delta, …"
    )
    schema_ddl: str | None = Field(
        default=None, alias="schema", description="The columns, as `name TYPE, …`; required for csv, json and xml."
    )
    schema_file: str | None = Field(
        default=None,
        description="As an alternative: a file with the columns, also as JSON of Spark or Avro, relative to the job "
        "file. Not in the `job` of a `StreamJob`.",
    )
    options: Options = Field(default_factory=dict, description="Spark's options of the source.")
    refresh: Delay | None = Field(
        default=None,
        gt=0,
        description="How often the table is read again, beside the running batches; the batches that begin afterwards "
        "see the new rows. Default: it is read when the job starts or restarts.",
    )
    max_age: Delay | None = Field(
        default=None,
        gt=0,
        description="How old the rows may get while the table cannot be read again; then the job fails and restarts. "
        "Default: three times `refresh`.",
    )

    lookup: LookupPolicy | None = Field(
        default=None,
        description="Ask the table for the keys of each batch instead of reading it as a whole; `format: jdbc` only, "
        "and for operators with `lookup`.",
    )

    def oldest(self) -> float | None:
        """Return how old the rows may get, in seconds; None for a table that is not read again."""
        return None if self.refresh is None else self.max_age or 3 * self.refresh


def _dedented(text: str) -> str:
    """Remove common indentation, so that equal queries have equal text."""
    return textwrap.dedent(text).strip()


def _input(value: Any) -> Any:
    return {"from": value} if isinstance(value, str) else value


class Input(Spec):
    """An input of an operator: a source or another operator, by name."""

    name: NodeName = Field(alias="from", description="The source or operator to read.")
    feedback: bool = Field(default=False, description="Whether this input closes a loop.")
    schema_ddl: str | None = Field(
        default=None,
        alias="schema",
        description="The columns, as `name TYPE, …`; required for feedback, and only there.",
    )


class OperatorSpec(Node):
    """A computation on the rows of its inputs, with `sql`, `python`, `lookup` or `temporalJoin`."""

    inputs: tuple[Annotated[Input, BeforeValidator(_input, json_schema_input_type=str | Input)], ...] = Field(
        max_length=MOST_INPUTS, description="Names of sources and operators, or `{from: name, feedback: true}`."
    )
    sql: Annotated[str, AfterValidator(_dedented)] | None = Field(
        default=None, description="A query over the inputs, in Spark SQL."
    )
    sql_file: str | None = Field(
        default=None,
        description="As an alternative: a file with the query, relative to the job file. Not in the `job` of a "
        "`StreamJob`.",
    )
    python: str | None = Field(
        default=None,
        description="`module:function`. The function takes one DataFrame for each input, in order, and returns one. "
        "The module is first looked up next to the file.",
    )
    lookup: LookupSpec | None = Field(
        default=None, description="A join of its input with a table that is asked for the keys of the rows."
    )
    temporal_join: TemporalJoinSpec | None = Field(
        default=None,
        description="A join of the rows of its first input with the versions of its second one, each by event time.",
    )
    tables: tuple[NodeName, ...] | None = Field(
        default=None,
        max_length=MOST_INPUTS,
        description="Names of tables that the function of `python` takes as DataFrames, after its inputs. A query "
        "names its tables itself.",
    )
    watermark: Watermark | None = Field(
        default=None,
        description="The event-time column of its rows, and how late they may be. If its inputs have a watermark, its "
        "rows must have lost their event time, and may be late by this delay behind the watermark of its inputs.",
    )
    on_error: OnError | None = Field(
        default=None,
        description="For an operator that computes each row of its one input by itself: handling of a row for which "
        "Spark raises an error. `fail` ends the job and shows the row; `drop` drops the row and counts it; "
        "`deadLetter` also hands it to the readers of `NAME_dead_letters`, where NAME is the operator. Default: the "
        "query fails, and the job restarts.",
    )
    output_mode: OutputMode = Field(default="append", description="Spark's output mode; `append` wherever possible.")
    chain: bool = Field(
        default=True, description="Whether the operator may be fused with its neighbours into one Spark query."
    )
    renames: dict[str, str] = Field(
        default_factory=dict,
        description="Columns and variables of its state that have another name now, as `former: present`. "
        "[How to](../how-to/change-a-job.md).",
    )


STATE = "state"
"""The table that has the state of an operator, if it is one table."""


def _by_table(value: Any) -> Any:
    return {STATE: value} if isinstance(value, str) else value


class MigrationSpec(Spec):
    """How the state of an operator is changed to the form that its present query needs, with `sql` or `sqlFile`."""

    from_: str | None = Field(
        default=None,
        alias="from",
        min_length=1,
        description="The form of the state that the query reads, as the refusal of `streamjob check` shows it. The "
        "query does not touch state in another form. Default: any form.",
    )
    sql: (
        Annotated[
            dict[str, Annotated[str, AfterValidator(_dedented)]],
            BeforeValidator(_by_table, json_schema_input_type=str | dict[str, str]),
        ]
        | None
    ) = Field(
        default=None,
        description="A query that returns the new rows of the state from the former ones, in Spark SQL; or, for state "
        "in several tables, such a query by the name of each. It is used only while the state has another form than "
        "the operator needs.",
    )
    sql_file: (
        Annotated[dict[str, str], BeforeValidator(_by_table, json_schema_input_type=str | dict[str, str])] | None
    ) = Field(
        default=None,
        description="As an alternative: a file with the query, relative to the job file, or such a file by the name of "
        "each table. Not in the `job` of a `StreamJob`.",
    )


BATCH = "batch"
"""The value of `publish` for sinks whose rows are visible with each batch."""


class SinkSpec(Node):
    """An output."""

    input: NodeName = Field(description="The operator or source whose rows it writes.")
    function: str | None = Field(
        default=None,
        description="In place of `format`: `module:function`. The function takes the rows of a checkpoint as a "
        "DataFrame, and the id of the batch. [How to](../how-to/use-foreach-batch.md).",
    )
    format: str = Field(
        default_factory=lambda data: FUNCTION if data.get("function") else "",
        min_length=1,
        description="csv, json, parquet, delta, iceberg, kafka, postgresql (exactly-once), any batch sink of "
        "Spark (at-least-once), or `module:Class` of your own `streamjob.sink.Sink`. Required without `function`.",
    )
    key: Encoding | None = Field(
        default=None, description="How to encode the column `key` of a Kafka sink. Default: it has text or bytes."
    )
    value: Encoding | None = Field(
        default=None,
        description="How to encode the values of a Kafka sink: the column `value`, or if there is none, all columns "
        "that are not Kafka's. Default: the column `value` has text or bytes.",
    )
    options: Options = Field(default_factory=dict, description="The sink's options.")
    delivery: Delivery = Field(
        default_factory=lambda data: default_delivery(data.get("format", ""), data.get("options", {})),
        description="`exactly-once` or `at-least-once`. Default: `exactly-once` if the format supports it.",
    )
    publish: Literal["checkpoint", "batch"] = Field(
        default="checkpoint",
        description="When readers see rows: with the `checkpoint` that covers them, or each `batch`. "
        "[How to](../how-to/publish-each-batch.md).",
    )
    partition_by: tuple[str, ...] = Field(
        default=(), description="Columns to partition the output by; files and Delta tables only."
    )


class JobSpec(Spec):
    """A job: a graph of sources, operators and sinks, and its settings."""

    name: JobName = Field(description="The job's name, also in the store.")
    parallelism: int = Field(
        default=2, ge=1, le=MOST_PARTITIONS, strict=True, description="Task slots: how many tasks run at once."
    )
    max_parallelism: int = Field(
        default_factory=lambda data: min(2 * data.get("parallelism", 2), MOST_PARTITIONS),
        ge=1,
        le=MOST_PARTITIONS,
        strict=True,
        description="State partitions, the upper bound of the parallelism. State with another number is rewritten. If "
        "it is not set, a restored job keeps the number of its state. Default: twice the parallelism.",
    )
    checkpointing: CheckpointingPolicy = Field(
        default_factory=CheckpointingPolicy, description="When and how checkpoints are taken."
    )
    channels: ChannelPolicy = Field(default_factory=ChannelPolicy, description="Limits of the channels between chains.")
    batch_duration: Seconds = Field(
        default=5.0,
        ge=0,
        description="The time that a batch computes while more data waits: the size of batches follows it. Limits of "
        "sources, such as `maxOffsetsPerTrigger`, and `channels.maxBatchRecords` are never exceeded. `0s`: only these "
        "limits count.",
    )
    sources: tuple[SourceSpec, ...] = Field(default=(), max_length=MOST_PARTS, description="Inputs.")
    tables: tuple[TableSpec, ...] = Field(
        default=(), max_length=MOST_PARTS, description="Tables that operators join with their inputs."
    )
    functions: dict[str, str] = Field(
        default_factory=dict,
        description="Python functions that SQL may call: a name for SQL, and `module:function`. "
        "[How to](../how-to/call-python-from-sql.md).",
    )
    operators: tuple[OperatorSpec, ...] = Field(default=(), max_length=MOST_PARTS, description="Computations.")
    sinks: tuple[SinkSpec, ...] = Field(default=(), max_length=MOST_PARTS, description="Outputs.")
    migrate: dict[OperatorUid, MigrationSpec] = Field(
        default_factory=dict,
        description="How state is changed where only the author knows: the `uid` of an operator, and `{sql: …}`. "
        "[How to](../how-to/change-a-job.md).",
    )
    spark_conf: Options = Field(default_factory=dict, description="Spark's configuration for this job.")

    def inputs(self) -> dict[str, SourceSpec | OperatorSpec]:
        """Return sources and operators by name."""
        parts: tuple[SourceSpec | OperatorSpec, ...] = (*self.sources, *self.operators)
        return {each.name: each for each in parts}

    def table_names(self) -> frozenset[str]:
        """Return the names of its tables in lower case, as SQL compares them."""
        return frozenset(each.name.lower() for each in self.tables)

    def lookup_tables(self) -> tuple[TableSpec, ...]:
        """Return its tables that are asked for keys."""
        return tuple(each for each in self.tables if each.lookup is not None)

    def table(self, name: str) -> TableSpec:
        """Return the table with this name; KeyError if there is none."""
        return _named(self.tables, name)

    def nodes(self) -> tuple[Node, ...]:
        """Return all sources, operators and sinks, in this order."""
        return (*self.sources, *self.operators, *self.sinks)

    def connectors(self) -> tuple[SourceSpec | TableSpec | SinkSpec, ...]:
        """Return all parts that read or write outside of the job: sources, tables and sinks, in this order."""
        return (*self.sources, *self.tables, *self.sinks)

    def source(self, name: str) -> SourceSpec:
        """Return the source with this name; KeyError if there is none."""
        return _named(self.sources, name)

    def operator(self, name: str) -> OperatorSpec:
        """Return the operator with this name; KeyError if there is none."""
        return _named(self.operators, name)

    def sink(self, name: str) -> SinkSpec:
        """Return the sink with this name; KeyError if there is none."""
        return _named(self.sinks, name)

    def max_parallelism_is_given(self) -> bool:
        """Return whether the author set `max_parallelism`; otherwise a restored job keeps its snapshot's."""
        return "max_parallelism" in self.model_fields_set


_Part = TypeVar("_Part", SourceSpec, TableSpec, OperatorSpec, SinkSpec)


def _named(parts: tuple[_Part, ...], name: str) -> _Part:
    for part in parts:
        if part.name == name:
            return part
    raise KeyError(name)
