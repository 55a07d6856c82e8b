"""The control API's models of chains, their inputs, and the channels between them; part of `models`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from streamjob.ids import ChainUid, OperatorUid


class View(BaseModel):
    """Base of response models: immutable, and tolerant of fields that a newer server adds."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True, extra="ignore"
    )


class PartitionView(View):
    """A partition of a topic that a source reads, as of the last batch."""

    topic: str
    partition: int
    position: int = Field(description="The offset after the last record that was read.")
    lag: int | None = Field(
        default=None, description="Offsets between the position and the end of the partition; null if not known."
    )
    watermark_ms: int | None = Field(
        default=None,
        description="Event time, in ms since 1970; null before the first, and for a partition that does not count for "
        "the watermark of its source.",
    )
    idle_seconds: float | None = Field(
        default=None,
        description="Seconds since it last brought a row; null if it does not count for the watermark of its source.",
    )
    holds_watermark_back: bool = Field(
        default=False, description="Whether it brings no row and keeps the watermark behind that of other partitions."
    )


class InputView(View):
    """One input of a chain, with its own watermark and that watermark's lag behind the clock, both in ms."""

    uid: OperatorUid
    chain: ChainUid | None = Field(
        default=None, description="The chain that it comes from, through a channel; null for a source."
    )
    watermark_ms: int | None = Field(default=None, description="Event time, in ms since 1970; null before the first.")
    lag_ms: int | None = Field(
        default=None,
        description="Clock minus watermark, in ms; null before the first watermark, or after the end of input.",
    )
    idle_seconds: float | None = Field(
        default=None,
        description="From the last record to the last time that the chain looked for records, in seconds: a running "
        "batch does not count. Null before the chain has looked, and once ended.",
    )
    idle: bool = Field(
        default=False,
        description="Whether it has been silent for the idleTimeout of its watermark, or the chain that it comes from "
        "is idle: it does not hold the watermark back.",
    )
    holds_watermark_back: bool = Field(
        default=False,
        description="Whether it brings no record and keeps the chain's watermark behind that of the other inputs.",
    )
    ended: bool = Field(default=False, description="Whether the input has ended for good.")
    lag_records: int | None = Field(
        default=None,
        description="Unread offsets of all partitions of a Kafka source; null until a batch has reported them, and "
        "for other inputs.",
    )
    lag_seconds: float | None = Field(
        default=None,
        description="Seconds since the arrival of the first unread record of a Kafka source, an estimate; 0 if all is "
        "read, null if not known.",
    )
    partitions: tuple[PartitionView, ...] = Field(default=(), description="The partitions of a Kafka source.")
    records_not_decoded: int | None = Field(
        default=None,
        description="Records that the source dropped in this process because they could not be decoded; null for "
        "inputs that drop none.",
    )
    records_ahead: int = Field(
        default=0,
        description="Records in this process whose event time was further ahead of the clock than `maxAhead`: they did "
        "not move the watermark.",
    )
    farthest_ms: int | None = Field(default=None, description="The farthest of their times, in ms since 1970.")
    records_late: int = Field(
        default=0,
        description="Records in this process that came behind the watermark of the chain; its operators with state "
        "drop those whose window, or whatever they wait for, is over.",
    )
    late_by_ms: int | None = Field(default=None, description="By how much the latest of them was late, in ms.")
    offset_report_failures: int | None = Field(
        default=None,
        description="Completed checkpoints in this process whose positions could not be reported to the consumer "
        "group of a Kafka source; null for other inputs.",
    )
    files_changed: int = Field(
        default=0,
        description="Files that have changed since a source of files has read them. They are not read again.",
    )
    changed_file: str | None = Field(default=None, description="One of these files; null if there is none.")
    files_too_old: int = Field(
        default=0,
        description="Files that came with a time beyond the `maxFileAge` of a source of files. They are not read.",
    )
    too_old_file: str | None = Field(default=None, description="One of these files; null if there is none.")


class BatchTimesView(View):
    """Where the time of a chain's batches goes: means of its last batches, in seconds."""

    batches: int = Field(description="Number of batches that the means are taken of.")
    seconds: float = Field(description="A whole batch.")
    offsets: float = Field(default=0.0, description="To find out what there is to read.")
    planning: float = Field(default=0.0, description="To plan the query.")
    execution: float = Field(default=0.0, description="To compute the batch, and to write it to sinks and channels.")
    logs: float = Field(default=0.0, description="To write Spark's logs of offsets and commits.")
    waiting: float = Field(default=0.0, description="The part of the execution that waited for room in a channel.")
    sinks: dict[OperatorUid, float] = Field(
        default_factory=dict, description="The part of the execution in each sink of the chain."
    )
    sinks_compute: bool = Field(
        default=False,
        description="Whether the time of the sink includes the computation, as in a chain with one output.",
    )
    state_commit: float | None = Field(
        default=None, description="Time of all tasks to commit the state, added up; null without state."
    )


class OperatorView(View):
    """A source, an operator or a sink of a chain, in this process; null for what Spark does not report.

    Spark reports rows where they enter and leave the query, and figures of its state; the rows between two operators of
    one chain are not known.
    """

    uid: OperatorUid
    rows_in: int | None = Field(default=None, description="Rows that it has read.")
    rows_out: int | None = Field(default=None, description="Rows that it has produced.")
    seconds: float | None = Field(
        default=None,
        description="Of a sink, the mean time of its last batches; of an operator with state, the time that all tasks "
        "spent on the state in the last batch, added up.",
    )
    state_rows: int | None = Field(
        default=None,
        description="Rows in its state; null unless the job sets `rocksdb.trackTotalNumberOfRows`, which costs a read "
        "with each write.",
    )
    state_bytes: int | None = Field(default=None, description="Bytes of its state on disk, or in memory.")
    late_rows: int | None = Field(default=None, description="Late rows that it has dropped.")


class ChainView(View):
    """A chain: its work so far and its current rates."""

    uid: ChainUid
    operators: tuple[OperatorUid, ...]
    batch: int = Field(description="Number of the last emitted batch; -1 before the first.")
    records_in: int = Field(default=0, description="Records read in this process, from sources and other chains.")
    records_out: int | None = Field(
        default=0,
        description="Records written in this process, to sinks or other chains; null where a sink cannot tell, as one "
        "of Spark's that is not of files.",
    )
    records_in_per_second: float = 0.0
    records_out_per_second: float = 0.0
    watermark_ms: int | None = Field(default=None, description="The smallest of the inputs' watermarks, ms since 1970.")
    inputs: tuple[InputView, ...] = ()
    last_batch_ms: int | None = Field(default=None, description="Duration of the last batch, in ms.")
    running_seconds: float | None = Field(
        default=None, description="For how long the running batch has run; null between two batches."
    )
    running_records: int | None = Field(
        default=None,
        description="Records that the running batch reads, known for chains that read from Kafka only; null otherwise.",
    )
    batches: int = Field(default=0, description="Batches in this process.")
    batch_seconds: float = Field(default=0.0, description="Duration of all these batches, added up.")
    backpressured: float = Field(
        default=0.0, description="Share, 0 to 1, of the last ten seconds that it waited for the chains that read it."
    )
    busy: float = Field(
        default=0.0, description="Share, 0 to 1, of the last ten seconds in batches, without waiting for other chains."
    )
    batch_times: BatchTimesView | None = Field(
        default=None, description="Where the time of its last batches goes, at most twenty; null before the first."
    )
    backpressured_seconds: float = Field(
        default=0.0, description="Seconds that it has waited for the chains that read it, in this process."
    )
    records_dropped_late: dict[OperatorUid, int] = Field(
        default_factory=dict,
        description="Late records that stateful operators dropped in this process, by operator; after a partial"
        " aggregation, its results count.",
    )
    rows_without_event_time: dict[OperatorUid, int] = Field(
        default_factory=dict,
        description="Rows that were dropped in this process because their event time was NULL, by the source or "
        "operator with `nullEventTime: drop`.",
    )
    rows_failed: dict[OperatorUid, int] = Field(
        default_factory=dict,
        description="Rows that operators with `onError` could not compute in this process, by operator; they were "
        "dropped or handed to the readers of dead letters.",
    )
    operator_figures: tuple[OperatorView, ...] = Field(
        default=(), description="The figures of its sources, operators and sinks, in the order of `operators`."
    )
    finished: bool = Field(default=False, description="Whether its input has ended and all its work is done.")


class ChannelView(View):
    """In-flight data from one chain to another: written, but not read yet."""

    source: ChainUid = Field(description="The chain that writes.")
    target: ChainUid = Field(description="The chain that reads.")
    records: int = Field(default=0, description="Records in flight.")
    bytes: int = Field(default=0, description="Bytes in flight.")
    capacity_records: int | None = Field(
        default=None, description="Records in flight at which the writer waits; null for any number."
    )
    capacity_bytes: int = Field(
        description="Bytes in flight at which the writer waits; in a feedback channel, at which the job fails."
    )
    fill: float = Field(
        default=0.0, description="Share of the capacity that is in flight; the last batch may bring it above 1."
    )
    lag_ms: int | None = Field(
        default=None, description="Watermark of the writer minus that of the reader, in ms; null unless both have one."
    )
    feedback: bool = Field(default=False, description="Whether the channel closes a loop.")
    work_seconds: float | None = Field(
        default=None,
        description="Seconds that the reader needs for the in-flight data at its current rate; null while it reads "
        "nothing.",
    )

    model_config = ConfigDict(
        alias_generator=lambda name: {"source": "from", "target": "to"}.get(name) or to_camel(name),
    )
