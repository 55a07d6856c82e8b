"""The control API's models of chains, their inputs, and the channels between them; part of `models`."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from streamjob.figures import Detail, Figure, Unit
from streamjob.ids import ChainUid, OperatorUid


class View(BaseModel):
    """Base of response models: immutable, and tolerant of fields that a newer server adds."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True, extra="ignore"
    )


def _phase(name: str) -> Figure:
    text = "Mean time of a phase in a chain's last batches: `offsets`, `planning`, `execution` or `logs`."
    return Figure("batch_phase_seconds", Unit.SECONDS, text, label=("phase", name))


class PartitionView(View):
    """A partition of a topic that a source reads, as of the last batch."""

    topic: str
    partition: int
    position: Annotated[int, Figure("source_position_offset", heading="position")] = Field(
        description="Offset after the last record that the source has read."
    )
    lag: Annotated[int | None, Figure("source_lag_records", heading="unread")] = Field(
        default=None,
        description=(
            "Offsets between the position of the source and the end of the partition, as of the last batch; null "
            "if not known."
        ),
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
    watermark_ms: Annotated[
        int | None, Figure("watermark_timestamp_seconds", Unit.TIME_MS, heading="watermark", detail=Detail.NARROW)
    ] = Field(default=None, description="Watermark of the input, since 1970; null before the first.")
    lag_ms: Annotated[int | None, Figure("watermark_lag_seconds", Unit.MS)] = Field(
        default=None,
        description=("Clock minus watermark of the input; null before the first watermark, or after the end of input."),
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
    lag_seconds: Annotated[float | None, Figure("source_lag_seconds", Unit.SECONDS, scope="source")] = Field(
        default=None,
        description="Seconds since the arrival of the first unread record of a Kafka source, an estimate, or since the "
        "time of the oldest unread file of a source in a bucket; 0 if all is read, null if not known.",
    )
    files_unread: Annotated[int | None, Figure("source_files_unread", scope="source")] = Field(
        default=None,
        description="Files that a source in a bucket has found and not read yet; those of a running batch count. Null "
        "before its first search, and for other inputs.",
    )
    bytes_unread: Annotated[int | None, Figure("source_bytes_unread", Unit.BYTES, scope="source")] = Field(
        default=None,
        description="Size of the files that a source in a bucket has found and not read yet; null as there.",
    )
    record_bytes: float | None = Field(
        default=None,
        description="Mean size of a record in the files that a source in a bucket has read in this process; null if "
        "not known.",
    )
    partitions: tuple[PartitionView, ...] = Field(default=(), description="The partitions of a Kafka source.")
    records_not_decoded: Annotated[
        int | None, Figure("source_records_not_decoded_total", scope="source", heading="not decoded", rare=True)
    ] = Field(
        default=None,
        description="Records that the source dropped in this process because they could not be decoded, and damaged "
        "files that it left out; null for inputs that drop none.",
    )
    records_ahead: Annotated[int, Figure("records_ahead_total")] = Field(
        default=0,
        description="Records in this process whose event time was further ahead of the clock than `maxAhead`: they did "
        "not move the watermark.",
    )
    farthest_ms: int | None = Field(default=None, description="The farthest of their times, in ms since 1970.")
    records_late: Annotated[int, Figure("records_late_total")] = Field(
        default=0,
        description="Records in this process that came behind the watermark of the chain; its operators with state "
        "drop those whose window, or whatever they wait for, is over.",
    )
    late_by_ms: int | None = Field(default=None, description="By how much the latest of them was late, in ms.")
    offset_report_failures: Annotated[int | None, Figure("source_offset_report_failures_total", scope="source")] = (
        Field(
            default=None,
            description="Completed checkpoints in this process whose positions could not be reported to the consumer "
            "group of a Kafka source; null for other inputs.",
        )
    )
    files_changed: Annotated[int, Figure("source_files_changed", scope="source", unless=0)] = Field(
        default=0,
        description="Files that have changed since a source of files has read them. They are not read again.",
    )
    changed_file: str | None = Field(default=None, description="One of these files; null if there is none.")
    messages_refused: Annotated[int, Figure("source_messages_refused", scope="source", unless=0)] = Field(
        default=0,
        description="Messages in the queue of a source of files that are no notifications, up to 1,000. They stay "
        "there.",
    )

    @property
    def watermark_held_back(self) -> Annotated[bool, Figure("watermark_held_back")]:
        """Whether the input holds back the watermark of its chain, or one of its partitions that of the input."""
        return self.holds_watermark_back or any(each.holds_watermark_back for each in self.partitions)


class BatchTimesView(View):
    """Where the time of a chain's batches goes: means of its last batches, in seconds."""

    batches: int = Field(description="Number of batches that the means are taken of.")
    seconds: float = Field(description="A whole batch.")
    offsets: Annotated[float, _phase("offsets")] = Field(default=0.0, description="To find out what there is to read.")
    planning: Annotated[float, _phase("planning")] = Field(default=0.0, description="To plan the query.")
    execution: Annotated[float, _phase("execution")] = Field(
        default=0.0, description="To compute the batch, and to write it to sinks and channels."
    )
    logs: Annotated[float, _phase("logs")] = Field(
        default=0.0, description="To write Spark's logs of offsets and commits."
    )
    waiting: float = Field(default=0.0, description="The part of the execution that waited for room in a channel.")
    sinks: Annotated[dict[OperatorUid, float], Figure("batch_sink_seconds", Unit.SECONDS, by="sink")] = Field(
        default_factory=dict,
        description="Mean time in each sink of the chain in its last batches, a part of the execution.",
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
    state_rows: Annotated[int | None, Figure("state_rows")] = Field(
        default=None,
        description=(
            "Rows in the operator's state; null unless the job sets `rocksdb.trackTotalNumberOfRows`, which costs "
            "a read with each write."
        ),
    )
    state_bytes: Annotated[int | None, Figure("state_size_bytes", Unit.BYTES)] = Field(
        default=None, description="Bytes of the operator's state on disk, or in memory."
    )
    late_rows: int | None = Field(default=None, description="Late rows that it has dropped.")


class ChainView(View):
    """A chain: its work so far and its current rates."""

    uid: ChainUid
    operators: tuple[OperatorUid, ...]
    batch: Annotated[int, Figure("batch_id", heading="batch")] = Field(
        description="Number of the last emitted batch; -1 before the first."
    )
    records_in: Annotated[int, Figure("records_in_total", heading="records in")] = Field(
        default=0, description="Records read in this process, from sources and other chains."
    )
    records_out: Annotated[int | None, Figure("records_out_total", heading="records out")] = Field(
        default=0,
        description="Records written in this process, to sinks or other chains; null where a sink cannot tell, as one "
        "of Spark's that is not of files.",
    )
    records_in_per_second: Annotated[float, Figure(unit=Unit.RATE, heading="in", detail=Detail.NARROW)] = 0.0
    records_out_per_second: Annotated[float, Figure(unit=Unit.RATE, heading="out", detail=Detail.PANEL)] = 0.0
    watermark_ms: Annotated[int | None, Figure(unit=Unit.TIME_MS, heading="watermark", detail=Detail.PANEL)] = Field(
        default=None, description="The smallest of the inputs' watermarks, ms since 1970."
    )
    inputs: tuple[InputView, ...] = ()
    last_batch_ms: Annotated[int | None, Figure(unit=Unit.MS, heading="took")] = Field(
        default=None, description="Duration of the last batch, in ms."
    )
    running_seconds: float | None = Field(
        default=None, description="For how long the running batch has run; null between two batches."
    )
    running_records: int | None = Field(
        default=None,
        description="Records that the running batch reads, known for chains that read from Kafka only; null otherwise.",
    )
    batches: int = Field(default=0, description="Batches in this process.")
    batch_seconds: float = Field(default=0.0, description="Duration of all these batches, added up.")
    backpressured: Annotated[
        float, Figure("backpressured_ratio", Unit.SHARE, heading="backpressure", detail=Detail.NARROW, alarm=0.1)
    ] = Field(
        default=0.0,
        description=("Share, 0 to 1, of the last ten seconds that the chain waited for the chains that read it."),
    )
    busy: Annotated[float, Figure("busy_ratio", Unit.SHARE)] = Field(
        default=0.0, description="Share, 0 to 1, of the last ten seconds in batches, without waiting for other chains."
    )
    batch_times: BatchTimesView | None = Field(
        default=None, description="Where the time of its last batches goes, at most twenty; null before the first."
    )
    backpressured_seconds: Annotated[float, Figure("backpressured_seconds_total", Unit.SECONDS)] = Field(
        default=0.0, description="Seconds that the chain has waited for the chains that read it, in this process."
    )
    records_dropped_late: Annotated[
        dict[OperatorUid, int],
        Figure("records_dropped_late_total", by="operator", heading="dropped as late", rare=True),
    ] = Field(
        default_factory=dict,
        description="Late records that stateful operators dropped in this process, by operator; after a partial"
        " aggregation, its results count.",
    )
    rows_without_event_time: Annotated[
        dict[OperatorUid, int],
        Figure("rows_without_event_time_total", by="operator", heading="without event time", rare=True),
    ] = Field(
        default_factory=dict,
        description="Rows that were dropped in this process because their event time was NULL, by the source or "
        "operator with `nullEventTime: drop`.",
    )
    rows_failed: Annotated[
        dict[OperatorUid, int], Figure("operator_rows_failed_total", by="operator", heading="rows failed", rare=True)
    ] = Field(
        default_factory=dict,
        description="Rows that operators with `onError` could not compute in this process, by operator; they were "
        "dropped or handed to the readers of dead letters.",
    )
    operator_figures: tuple[OperatorView, ...] = Field(
        default=(), description="The figures of its sources, operators and sinks, in the order of `operators`."
    )
    finished: Annotated[bool, Figure("chain_finished")] = Field(
        default=False, description="Whether the chain's input has ended and all its work is done."
    )


class ChannelView(View):
    """In-flight data from one chain to another: written, but not read yet."""

    source: ChainUid = Field(description="The chain that writes.")
    target: ChainUid = Field(description="The chain that reads.")
    records: Annotated[int, Figure("channel_records", heading="in flight")] = Field(
        default=0, description="Records in flight from a chain to another."
    )
    bytes: Annotated[int, Figure("channel_bytes", Unit.BYTES, heading="size")] = Field(
        default=0, description="Bytes in flight from a chain to another."
    )
    capacity_records: int | None = Field(
        default=None, description="Records in flight at which the writer waits; null for any number."
    )
    capacity_bytes: Annotated[int, Figure("channel_capacity_bytes", Unit.BYTES)] = Field(
        description="Bytes in flight at which the writer waits; in a feedback channel, at which the job fails."
    )
    fill: Annotated[float, Figure("channel_fill_ratio", Unit.SHARE, heading="full")] = Field(
        default=0.0,
        description="Share of the channel's capacity that is in flight; the last batch may bring it above 1.",
    )
    lag_ms: Annotated[int | None, Figure("channel_lag_seconds", Unit.MS, heading="lag")] = Field(
        default=None, description="Watermark of the writer minus that of the reader; null unless both have one."
    )
    feedback: bool = Field(default=False, description="Whether the channel closes a loop.")
    work_seconds: Annotated[float | None, Figure(unit=Unit.SECONDS, heading="work")] = Field(
        default=None,
        description="Seconds that the reader needs for the in-flight data at its current rate; null while it reads "
        "nothing.",
    )

    model_config = ConfigDict(
        alias_generator=lambda name: {"source": "from", "target": "to"}.get(name) or to_camel(name),
    )
