"""A job and its checkpoints as the control API shows them, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamjob.client.models import (
    BatchTimesView,
    ChainView,
    ChannelView,
    CheckpointsView,
    ExecutorsView,
    ExecutorView,
    InputView,
    JobState,
    JobView,
    LastCheckpointView,
    LastPublishedView,
    LookupView,
    OperatorView,
    PartitionView,
    RestoredFromView,
    SinkView,
    TableView,
    TaskStatistics,
)
from streamjob.ids import NO_BATCH, ChainUid, CheckpointId, Epoch, OperatorUid
from streamjob.protocol.coordination.messages import AcknowledgementMetrics, ChainAcknowledgement
from streamjob.protocol.coordination.statistics import CheckpointStatus, StatisticsTracker
from streamjob.protocol.coordination.triggers import CheckpointProperties, SnapshotKind
from streamjob.snapshot.manifest import ChainState

START = 1_700_000_000.0
NOW = START + 134
CHAIN = ChainUid("flights")
MANIFEST = "file:///snapshots/default/flights/checkpoints/3-14/manifest.json"
WATERMARK_MS = 1_362_398_400_000


def with_partitions(lags: Sequence[int]) -> JobView:
    """Return a job one of whose sources reads a topic, with the lag of each partition."""
    partitions = tuple(
        PartitionView(topic="departures", partition=number, position=1000 + number, lag=lag)
        for number, lag in enumerate(lags)
    )
    return with_inputs(a_job(), {"partitions": partitions, "lag_records": sum(lags)})


def with_inputs(job: JobView, *changes: Mapping[str, object]) -> JobView:
    """Return a job with the first inputs of its first chain changed."""
    first, *others = job.chains
    changed = [source.model_copy(update=change) for source, change in zip(first.inputs, changes, strict=False)]
    inputs = (*changed, *first.inputs[len(changed) :])
    return job.model_copy(update={"chains": (first.model_copy(update={"inputs": inputs}), *others)})


def read_through_a_channel(job: JobView) -> JobView:
    """Return a job with a second chain, which reads the first source through a channel, under the uid of the source."""
    first = job.chains[0]
    through = first.inputs[0].model_copy(
        update={"chain": first.uid, "partitions": (), "lag_records": None, "lag_seconds": None}
    )
    reader = first.model_copy(update={"uid": ChainUid("reader"), "inputs": (through,)})
    return job.model_copy(update={"chains": (first, reader)})


def a_job(**changes: Any) -> JobView:
    """Return a running job with one chain, with some fields changed."""
    inputs = (
        InputView(uid=OperatorUid("flights"), watermark_ms=WATERMARK_MS, lag_ms=337_601_734_000),
        InputView(uid=OperatorUid("weather"), watermark_ms=WATERMARK_MS, lag_ms=337_601_734_000, ended=True),
    )
    chain = ChainView(
        uid=CHAIN,
        operators=(OperatorUid("flights"), OperatorUid("weather"), OperatorUid("hours"), OperatorUid("report")),
        batch=41,
        records_in=1_234_567,
        records_out=23_456,
        records_in_per_second=45_210.4,
        records_out_per_second=812,
        watermark_ms=WATERMARK_MS,
        inputs=inputs,
        last_batch_ms=1300,
    )
    sink = SinkView(
        uid=OperatorUid("report"),
        name="report",
        format="parquet",
        target="output",
        delivery="exactly-once",
        records=23_456,
        records_published=20_000,
        batches_published=38,
        batches_waiting=3,
        last_published=LastPublishedView(id=CheckpointId(14), time=NOW - 2.5, duration_ms=40),
    )
    job = JobView(
        state=JobState.RUNNING,
        name="flights",
        namespace="default",
        epoch=Epoch(3),
        restarts=1,
        start_time=START,
        uptime=134,
        records_in=1_234_567,
        records_out=23_456,
        records_in_per_second=45_210.4,
        records_out_per_second=812,
        chains=(chain,),
        sinks=(sink,),
        last_checkpoint=LastCheckpointView(
            id=CheckpointId(14),
            kind=SnapshotKind.CHECKPOINT,
            triggered=NOW - 4,
            completed=NOW - 3,
            duration_ms=420,
            checkpointed_size=1_200_000,
            state_size=14_500_000,
            path=MANIFEST,
        ),
        restored_from=RestoredFromView(
            id=CheckpointId(12), kind=SnapshotKind.CHECKPOINT, path=MANIFEST, completed=NOW - 40
        ),
    )
    return job.model_copy(update=changes)


def executors(count: int, wanted: int = 0) -> ExecutorsView:
    """Return executors, the first of which has three times the state of the others."""
    return ExecutorsView(
        wanted=wanted or count,
        lost=1,
        skew=1.5,
        row_skew=1.5,
        byte_skew=1.4,
        record_skew=1.0,
        work_skew=1.2,
        executors=tuple(
            ExecutorView(
                id=str(number + 1),
                name=f"executor-{number}",
                host=f"10.0.0.{number}",
                cores=2,
                state_partitions=4 if number else 12,
                state_stores=4 if number else 12,
                state_rows=400_000 if number else 1_200_000,
                state_bytes=4_000_000 if number else 12_000_000,
                tasks=80,
                records_in=500_000,
                records_in_per_second=22_600,
                bytes_in=3_000_000,
                busy=0.42 if number else 0.95,
            )
            for number in range(count)
        ),
    )


def checkpoints(*entries: str) -> CheckpointsView:
    """Return statistics of checkpoints from id 12.

    Args:
        entries: `completed`, `unaligned`, `failed`, `running`, `savepoint`, or `waiting savepoint` for a running one of
            two chains.
    """
    tracker = StatisticsTracker()
    for index, entry in enumerate(entries):
        kind = SnapshotKind.SAVEPOINT if "savepoint" in entry else SnapshotKind.CHECKPOINT
        checkpoint, triggered = CheckpointId(12 + index), START + 100 + 8 * index
        chains = (CHAIN, ChainUid("hours")) if entry == "waiting savepoint" else (CHAIN,)
        tracker.started(checkpoint, CheckpointProperties(kind=kind), triggered, chains)
        if entry == "failed":
            message = "a chain could not write its files to the store: 503 Slow Down"
            tracker.failed(checkpoint, f"{message}\nTraceback …", triggered + 5)
        elif entry not in ("running", "waiting savepoint"):
            metrics = AcknowledgementMetrics(
                checkpointed_size=1_200_000 * (index + 1),
                state_size=14_500_000,
                async_duration=0.3,
                unaligned=entry == "unaligned",
            )
            state = ChainState(uid=CHAIN, operators=(), batch=NO_BATCH)
            acknowledgement = ChainAcknowledgement(state=state, metrics=metrics)
            tracker.acknowledged(checkpoint, acknowledgement, triggered + 0.42 * (index + 1))
            tracker.completed(checkpoint, MANIFEST)
    return tracker.overview()


def several_chains(**changes: Any) -> JobView:
    """Return a running job of three chains and two channels, with some fields changed."""
    (flights,) = a_job().chains
    hours = ChainView(
        uid=ChainUid("hours"),
        operators=(OperatorUid("hours"),),
        batch=40,
        records_in=1_230_000,
        records_out=40_000,
        records_in_per_second=44_000,
        records_out_per_second=1_500,
        watermark_ms=WATERMARK_MS - 60_000,
        inputs=(InputView(uid=OperatorUid("flights"), chain=CHAIN, watermark_ms=WATERMARK_MS - 60_000),),
        last_batch_ms=900,
        backpressured=0.72,
        backpressured_seconds=61.5,
    )
    report = ChainView(
        uid=ChainUid("report"),
        operators=(OperatorUid("slow"), OperatorUid("report")),
        batch=12,
        records_in=27_655,
        records_out=23_456,
        records_in_per_second=812,
        records_out_per_second=812,
        watermark_ms=WATERMARK_MS - 3_600_000,
        inputs=(InputView(uid=OperatorUid("hours"), chain=hours.uid, watermark_ms=WATERMARK_MS - 3_600_000),),
        last_batch_ms=5000,
    )
    into_hours = ChannelView(source=CHAIN, target=hours.uid, capacity_bytes=67_108_864, lag_ms=60_000, work_seconds=0)
    into_report = ChannelView(
        source=hours.uid,
        target=report.uid,
        records=12_345,
        bytes=64_000_000,
        capacity_bytes=67_108_864,
        fill=0.954,
        lag_ms=3_540_000,
        work_seconds=15.2,
    )
    last = a_job().last_checkpoint
    assert last is not None
    tasks = {
        uid: TaskStatistics(
            id=uid,
            status=CheckpointStatus.COMPLETED,
            checkpointed_size=400_000,
            state_size=4_800_000,
            persisted_data=persisted,
            processed_data=10_000,
            sync_duration=7,
            async_duration=300,
            alignment_duration=alignment,
            start_delay=delay,
            unaligned_checkpoint=persisted > 0,
        )
        for uid, delay, alignment, persisted in ((CHAIN, 0, 0, 0), (hours.uid, 40, 1200, 0), (report.uid, 900, 0, 5000))
    }
    job = a_job(
        chains=(flights, hours, report),
        channels=(into_hours, into_report),
        last_checkpoint=last.model_copy(
            update={"unaligned": True, "alignment_ms": 1200, "persisted_data": 5000, "tasks": tasks}
        ),
    )
    return job.model_copy(update=changes)


def tables_and_lookups() -> dict[str, Any]:
    """Return the fields of a job with two tables, one of which cannot be read again, and two lookups."""
    loaded: dict[str, Any] = {"rows": 1200, "size": 34_000, "loaded": NOW - 61, "reloads": 3}
    tables = (
        TableView(name="airports", format="csv", **loaded),
        TableView(name="carriers", format="csv", **loaded, failures=1, problem="no such file"),
    )
    asks = LookupView(
        uid=OperatorUid("hours"), table="owners", hits=3, misses=1, queries=2, retries=1, query_seconds=0.5
    )
    return {"tables": tables, "lookups": (asks, LookupView(uid=OperatorUid("report"), table="owners"))}


def everything() -> JobView:
    """Return a job that has a value for each figure."""
    hours, report = OperatorUid("hours"), OperatorUid("report")
    flights = (
        several_chains()
        .chains[0]
        .model_copy(
            update={
                "busy": 0.4,
                "batch_times": BatchTimesView(
                    batches=3, seconds=1, offsets=0.1, planning=0.2, execution=0.3, logs=0.4, sinks={report: 0.25}
                ),
                "operator_figures": (OperatorView(uid=hours, state_rows=30, state_bytes=40), OperatorView(uid=report)),
                "records_dropped_late": {hours: 7},
                "rows_without_event_time": {hours: 5},
                "rows_failed": {hours: 2},
            }
        )
    )
    silent = PartitionView(topic="departures", partition=0, position=7, lag=3, holds_watermark_back=True)
    topic = {"lag_seconds": 2.5, "offset_report_failures": 1, "records_not_decoded": 4, "partitions": (silent,)}
    files: dict[str, Any] = {"files_unread": 4, "bytes_unread": 1_200_000, "files_changed": 2}
    files |= {"records_late": 120, "records_ahead": 1, "messages_refused": 5, "ended": False}
    job = several_chains(executors=executors(2, wanted=3), **tables_and_lookups())
    job = job.model_copy(update={"chains": (flights, *job.chains[1:])})
    return with_inputs(job, topic, files | {"holds_watermark_back": True})
