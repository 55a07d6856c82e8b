"""Builds the control API's views of chains, channels and sinks from figures; pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from streamjob.client.models import (
    ChainView,
    ChannelView,
    CheckpointDetail,
    InputView,
    LastCheckpointView,
    LastPublishedView,
    LookupView,
    PartitionView,
    SinkView,
    SnapshotKind,
    TableView,
)
from streamjob.ids import BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.job.connectors.options import option
from streamjob.job.model.spec import ChannelPolicy, SinkSpec, TableSpec
from streamjob.job.planning.plan import ChainPlan, ChannelPlan
from streamjob.protocol.emissions.channels import END_OF_TIME_MS, Backlog
from streamjob.stored.state_owners import owners
from streamjob_runtime.chain.event_time.event_times import PartitionTime, StrayTimes
from streamjob_runtime.control.operator_figures import operator_figures
from streamjob_runtime.kafka.positions import TopicPartition, lags
from streamjob_runtime.monitoring.chain_meter import ChainFigures
from streamjob_runtime.monitoring.query_progress import Positions
from streamjob_runtime.sinks.meter import SinkFigures
from streamjob_runtime.tables.lookups import LookupFigures
from streamjob_runtime.tables.static import TableFigures

Input = TypeVar("Input", OperatorUid, TopicPartition)

_STANDING = 0.5
"""Records per second below which a chain counts as standing still."""
_IDLE = 10.0
"""Seconds without a record after which an input counts as idle."""
_TARGETS = ("path", "table", "dbtable", "topic")
"""Options with a sink's target."""


def chain_view(
    plan: ChainPlan,
    figures: ChainFigures,
    *,
    batch: BatchId,
    finished: bool,
    ended: Collection[ChainUid],
    now_ms: int,
    report_failures: Mapping[OperatorUid, int] | None = None,
    graph: Mapping[str, Any] | None = None,
    has_readers: bool = False,
    written: Mapping[OperatorUid, int | None] | None = None,
) -> ChainView:
    """Return the view of a chain.

    Args:
        batch: its last emitted batch.
        finished: whether its work is finished.
        ended: those of its input chains that will send no more rows.
        now_ms: ms since 1970.
        report_failures: number of failed position reports by source uid.
        graph: the job's graph, which assigns state to operators.
        has_readers: whether other chains read it.
        written: rows that each sink has written; None if a sink does not count them.
    """
    operators = {each.uid for each in plan.operators}
    late = _by_operator(plan, figures.dropped_late, graph or {})
    watermarks = figures.watermarks
    inputs = [(source.uid, None, finished) for source in plan.sources]
    channels = [(channel.uid, channel.source, finished or channel.source in ended) for channel in plan.channels]
    watermarked = {source.uid for source in plan.sources if source.watermark is not None} | watermarks.keys()
    held_back = held_back_by(
        {uid: watermarks.get(uid) for uid, _, _ in (*inputs, *channels) if uid in watermarked},
        figures.idle_seconds,
        ended=[uid for uid, _, has_ended in (*inputs, *channels) if has_ended],
    )
    return ChainView(
        uid=plan.uid,
        operators=plan.uids(),
        batch=batch,
        records_in=figures.records_in,
        records_out=figures.records_out,
        records_in_per_second=figures.in_rate,
        records_out_per_second=figures.out_rate,
        watermark_ms=min(watermarks.values(), default=None),
        inputs=tuple(
            InputView(
                uid=uid,
                chain=chain,
                watermark_ms=watermarks.get(uid),
                lag_ms=_lag(now_ms, watermarks.get(uid)),
                ended=has_ended,
                partitions=(
                    read := _partitions(
                        position := figures.positions.get(uid),
                        figures.partition_times.get(uid, {}),
                        figures.unknown_seconds,
                    )
                ),
                lag_records=total(each.lag for each in read) if read else None,
                lag_seconds=figures.lag_seconds.get(uid),
                files_unread=unread.files if (unread := figures.unread.get(uid)) else None,
                bytes_unread=unread.bytes if unread else None,
                record_bytes=figures.record_bytes.get(uid),
                idle_seconds=None if has_ended else figures.idle_seconds.get(uid),
                idle=uid in figures.idle and not has_ended,
                holds_watermark_back=uid in held_back - figures.idle,
                records_not_decoded=figures.not_decoded.get(uid),
                records_ahead=(stray := figures.strays.get(uid, StrayTimes())).ahead,
                farthest_ms=stray.farthest_ms if stray.ahead else None,
                records_late=stray.late,
                late_by_ms=stray.late_by_ms if stray.late else None,
                offset_report_failures=(report_failures or {}).get(uid),
                files_changed=position.files_changed if position else 0,
                changed_file=position.changed_file if position else None,
                messages_refused=position.messages_refused if position else 0,
            )
            for uid, chain, has_ended in (*inputs, *channels)
        ),
        last_batch_ms=figures.last_batch_ms,
        batches=figures.batches,
        batch_seconds=figures.batch_seconds,
        backpressured=figures.backpressured,
        backpressured_seconds=figures.waited,
        busy=figures.busy,
        running_seconds=figures.running_seconds,
        running_records=figures.running_records,
        # Several outputs write what was computed before, for all of them.
        batch_times=figures.times
        and figures.times.model_copy(update={"sinks_compute": len(plan.sinks) == 1 and not has_readers}),
        records_dropped_late=late,
        rows_without_event_time=dict(figures.timeless),
        rows_failed={uid: rows for uid, rows in figures.not_decoded.items() if uid in operators},
        operator_figures=operator_figures(plan, figures, late=late, written=written or {}, graph=graph or {}),
        finished=finished,
    )


def held_back_by(
    watermarks: Mapping[Input, int | None], idle_seconds: Mapping[Input, float], ended: Collection[Input]
) -> frozenset[Input]:
    """Return the idle inputs that hold back the watermark of their chain, or partitions that do so with their source.

    Args:
        watermarks: the inputs' watermarks in ms since 1970; None before the first one.
        idle_seconds: seconds since the last record of each input.
        ended: the inputs that will bring no more records, and hold up nobody.
    """
    counting = {uid: watermark for uid, watermark in watermarks.items() if uid not in ended}
    known = [each for each in counting.values() if each is not None]
    lowest = None if len(known) < len(counting) else min(known, default=None)
    if lowest == max(known, default=None):
        return frozenset()
    return frozenset(
        uid for uid, watermark in counting.items() if watermark == lowest and idle_seconds.get(uid, 0.0) >= _IDLE
    )


def _by_operator(
    plan: ChainPlan, dropped: Sequence[tuple[str, int]], graph: Mapping[str, Any]
) -> dict[OperatorUid, int]:
    whose = owners(graph, plan.uids(), [name for name, _ in dropped])
    found: dict[OperatorUid, int] = {}
    for uids, (_, rows) in zip(whose, dropped, strict=True):
        # If several operators may have dropped them, all are named.
        name = OperatorUid(" or ".join(uids))
        found[name] = found.get(name, 0) + rows
    return found


def _partitions(
    positions: Positions | None, times: Mapping[TopicPartition, PartitionTime], unknown_seconds: float
) -> tuple[PartitionView, ...]:
    if positions is None:
        return ()
    behind = lags(positions.read, positions.latest)
    known = [each.watermark_ms for each in times.values() if each.watermark_ms is not None]
    idle = {each: max(0.0, time.idle_seconds - unknown_seconds) for each, time in times.items()}
    held = held_back_by(
        {each: time.watermark_ms for each, time in times.items()},
        # A batch with a limit may leave out a partition.
        {each: seconds for each, seconds in idle.items() if not behind.get(each)},
        ended=(),
    )
    return tuple(
        PartitionView(
            topic=each.topic,
            partition=each.partition,
            position=position,
            lag=behind.get(each),
            watermark_ms=times[each].watermark_ms if each in times else None,
            idle_seconds=idle.get(each),
            # Without any row of the topic, nothing waits.
            holds_watermark_back=each in held and bool(known),
        )
        for each, position in sorted(positions.read.items())
    )


def channel_view(
    channel: ChannelPlan, backlog: Backlog, policy: ChannelPolicy, *, writer: ChainFigures, reader: ChainFigures
) -> ChannelView:
    """Return the view of a channel."""
    # Writers never wait for room in a feedback channel: its capacity is the quota of its loop.
    most_records = None if channel.feedback else policy.capacity_records
    most_bytes = policy.feedback_bytes if channel.feedback else policy.capacity_bytes
    by_records = backlog.records / most_records if most_records else 0.0
    written, read = min(writer.watermarks.values(), default=None), reader.watermarks.get(channel.uid)
    return ChannelView(
        source=channel.source,
        target=channel.target,
        records=backlog.records,
        bytes=backlog.bytes,
        capacity_records=most_records,
        capacity_bytes=most_bytes,
        fill=max(backlog.bytes / most_bytes, by_records),
        feedback=channel.feedback,
        lag_ms=None if not _is_time(written) else _lag(written, read),
        work_seconds=backlog.records / reader.in_rate if reader.in_rate >= _STANDING else None,
    )


def sink_view(sink: SinkSpec, options: Mapping[str, str], figures: SinkFigures, *, lossy: bool) -> SinkView:
    """Return the view of a sink.

    Args:
        options: its options in the job's graph, without secrets.
    """
    targets = (option(options, name) for name in _TARGETS)
    last = figures.last if sink.delivery == "exactly-once" else None
    return SinkView(
        uid=sink.uid,
        name=sink.name,
        format=sink.format,
        target=next(filter(None, targets), sink.function),
        delivery=sink.delivery,
        lossy=lossy,
        records=figures.staged_rows,
        records_published=figures.committed_rows,
        batches_published=figures.committed,
        batches_waiting=figures.waiting,
        last_published=LastPublishedView(id=last.checkpoint, time=last.time, duration_ms=round(last.seconds * 1000))
        if last
        else None,
        failures=figures.failures,
    )


def table_view(table: TableSpec, figures: TableFigures) -> TableView:
    """Return the view of a table."""
    return TableView(
        name=table.name,
        format=table.format,
        rows=figures.rows,
        size=figures.bytes,
        loaded=figures.loaded,
        reloads=figures.reloads,
        failures=figures.failures,
        problem=figures.problem,
    )


def lookup_view(uid: OperatorUid, table: str, figures: LookupFigures) -> LookupView:
    """Return the view of an operator that asks a table for keys."""
    return LookupView(
        uid=uid,
        table=table,
        hits=figures.hits,
        misses=figures.misses,
        queries=figures.queries,
        retries=figures.retries,
        query_seconds=figures.seconds,
    )


def last_checkpoint_view(last: CheckpointDetail, kind: SnapshotKind) -> LastCheckpointView:
    """Return the view of the last completed checkpoint, given its statistics, and its kind in the log."""
    triggered = last.trigger_timestamp / 1000
    return LastCheckpointView(
        id=CheckpointId(last.id),
        kind=kind,
        triggered=triggered,
        completed=triggered + last.end_to_end_duration / 1000,
        duration_ms=last.end_to_end_duration,
        checkpointed_size=last.checkpointed_size,
        state_size=last.state_size,
        path=last.external_path or "",
        unaligned=last.is_unaligned,
        alignment_ms=max((max(0, task.alignment_duration) for task in last.tasks.values()), default=0),
        persisted_data=last.persisted_data,
        tasks={ChainUid(chain): task for chain, task in last.tasks.items()},
    )


def total(figures: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of the figures is unknown."""
    known = list(figures)
    return None if None in known else sum(figure or 0 for figure in known)


def _is_time(watermark_ms: int | None) -> bool:
    """Return whether a watermark is a time: the maximum means the end."""
    return watermark_ms is not None and watermark_ms < END_OF_TIME_MS


def _lag(ahead_ms: int | None, watermark_ms: int | None) -> int | None:
    if ahead_ms is None or watermark_ms is None or not _is_time(watermark_ms):
        return None
    return max(0, ahead_ms - watermark_ms)
