"""A job and its checkpoints as the control API shows them, for tests."""

from __future__ import annotations

from typing import Any

from streamjob.client.models import (
    ChainView,
    CheckpointsView,
    InputView,
    JobState,
    JobView,
    LastCheckpointView,
    RestoredFromView,
    SinkView,
)
from streamjob.ids import NO_BATCH, ChainUid, CheckpointId, Epoch, OperatorUid
from streamjob.protocol.messages import AcknowledgementMetrics, ChainAcknowledgement
from streamjob.protocol.statistics import StatisticsTracker
from streamjob.protocol.triggers import CheckpointProperties, SnapshotKind
from streamjob.snapshot.manifest import ChainState

START = 1_700_000_000.0
NOW = START + 134
CHAIN = ChainUid("flights")
MANIFEST = "file:///snapshots/default/flights/checkpoints/3-14/manifest.json"
WATERMARK_MS = 1_362_398_400_000


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
    job = JobView(
        state=JobState.RUNNING,
        name="flights",
        namespace="default",
        epoch=Epoch(3),
        restarts=1,
        start_time=START,
        uptime=134,
        chains=(chain,),
        sinks=(SinkView(uid=OperatorUid("report"), format="parquet", target="output", delivery="exactly-once"),),
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
        restored_from=RestoredFromView(id=CheckpointId(12), kind=SnapshotKind.CHECKPOINT, path=MANIFEST),
    )
    return job.model_copy(update=changes)


def checkpoints(*entries: str) -> CheckpointsView:
    """Return statistics whose checkpoints, from id 12, are `completed`, `failed`, `running` or a `savepoint`."""
    tracker = StatisticsTracker()
    for index, entry in enumerate(entries):
        kind = SnapshotKind.SAVEPOINT if entry == "savepoint" else SnapshotKind.CHECKPOINT
        checkpoint, triggered = CheckpointId(12 + index), START + 100 + 8 * index
        tracker.started(checkpoint, CheckpointProperties(kind=kind), triggered, (CHAIN,))
        if entry == "failed":
            message = "a chain could not write its files to the store: 503 Slow Down"
            tracker.failed(checkpoint, f"{message}\nTraceback …", triggered + 5)
        elif entry != "running":
            metrics = AcknowledgementMetrics(
                checkpointed_size=1_200_000 * (index + 1), state_size=14_500_000, async_duration=0.3
            )
            state = ChainState(uid=CHAIN, operators=(), batch=NO_BATCH)
            acknowledgement = ChainAcknowledgement(state=state, metrics=metrics)
            tracker.acknowledged(checkpoint, acknowledgement, triggered + 0.42 * (index + 1))
            tracker.completed(checkpoint, MANIFEST)
    return tracker.overview()
