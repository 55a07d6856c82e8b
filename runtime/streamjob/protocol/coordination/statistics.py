"""Statistics of the job's checkpoints, in the models and names of Flink's REST API.

Sizes are in bytes, durations and timestamps in milliseconds; unknown timestamps and durations are -1, as in Flink. A
subtask is a chain here. `checkpointed_size` counts the bytes written, `state_size` all files that it refers to. The
end-to-end duration lasts from the trigger to the last acknowledgement.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from streamjob.figures import Figure, Unit
from streamjob.ids import ChainUid, CheckpointId
from streamjob.protocol.coordination.messages import AcknowledgementMetrics, ChainAcknowledgement
from streamjob.protocol.coordination.triggers import CheckpointProperties, SnapshotKind

UNKNOWN_MS = -1


class CheckpointStatus(StrEnum):
    """Flink's names for the states of a checkpoint."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class Model(BaseModel):
    """Base of the statistics' models: immutable, named as Flink's REST API names them."""

    model_config = ConfigDict(frozen=True, populate_by_name=True, serialize_by_alias=True)


def _part(metric: str, text: str, unit: Unit = Unit.NUMBER) -> Figure:
    text = f"A chain in the last completed checkpoint: {text}."
    return Figure(f"last_checkpoint_chain_{metric}", unit, text, unless=UNKNOWN_MS)


class TaskStatistics(Model):
    """One chain's part in a checkpoint."""

    id: str
    status: CheckpointStatus
    latest_ack_timestamp: int = UNKNOWN_MS
    end_to_end_duration: int = UNKNOWN_MS
    checkpointed_size: Annotated[int, _part("size_bytes", "bytes that it wrote", Unit.BYTES)] = 0
    state_size: Annotated[int, _part("state_size_bytes", "bytes that it refers to", Unit.BYTES)] = 0
    processed_data: Annotated[int, _part("processed_bytes", "bytes processed during the alignment", Unit.BYTES)] = 0
    persisted_data: Annotated[int, _part("persisted_bytes", "stored bytes of in-flight data to it", Unit.BYTES)] = 0
    alignment_buffered: int = 0
    num_subtasks: int = 1
    num_acknowledged_subtasks: int = 0
    sync_duration: Annotated[int, _part("sync_seconds", "time to hold its files", Unit.MS)] = UNKNOWN_MS
    async_duration: Annotated[int, _part("async_seconds", "time to upload its files", Unit.MS)] = UNKNOWN_MS
    alignment_duration: Annotated[int, _part("alignment_seconds", "from the first barrier to the cut", Unit.MS)] = (
        UNKNOWN_MS
    )
    start_delay: Annotated[int, _part("start_delay_seconds", "from the trigger to the first barrier", Unit.MS)] = (
        UNKNOWN_MS
    )
    unaligned_checkpoint: Annotated[
        bool, _part("unaligned", "1 if it did not wait for all its barriers, otherwise 0")
    ] = False


class CheckpointStatistics(Model):
    """One checkpoint or savepoint; fields that apply only to completed or failed ones are otherwise omitted."""

    class_name: Literal["in_progress", "completed", "failed"] = Field(alias="className")
    id: int
    status: CheckpointStatus
    is_savepoint: bool
    savepoint_format: str | None = Field(default=None, alias="savepointFormat")
    trigger_timestamp: int
    latest_ack_timestamp: int = UNKNOWN_MS
    end_to_end_duration: int = UNKNOWN_MS
    checkpointed_size: int = 0
    state_size: int = 0
    processed_data: int = 0
    persisted_data: int = 0
    alignment_buffered: int = 0
    num_subtasks: int
    num_acknowledged_subtasks: int = 0
    checkpoint_type: str
    tasks: dict[str, TaskStatistics] = Field(default_factory=dict)
    external_path: str | None = None
    discarded: bool | None = None
    failure_timestamp: int | None = None
    failure_message: str | None = None

    @property
    def is_unaligned(self) -> bool:
        """Whether any chain did not wait for all its barriers."""
        return self.checkpoint_type.startswith("UNALIGNED")

    @model_serializer(mode="wrap")
    def _leave_out_what_it_has_not(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        written: dict[str, object] = handler(self)
        return {name: value for name, value in written.items() if value is not None}


class RestoredStatistics(Model):
    """The snapshot that the job was last restored from."""

    id: int
    restore_timestamp: int
    is_savepoint: bool
    external_path: str | None = None


def _ended(outcome: str) -> Figure:
    text = "Checkpoints and savepoints that ended in this process."
    return Figure("checkpoints_total", text=text, label=("outcome", outcome))


class Counts(Model):
    """Numbers of checkpoints."""

    restored: Annotated[int, Figure("restores_total", text="Restores from a snapshot in this process.")] = 0
    total: int = 0
    in_progress: Annotated[int, Figure("checkpoints_in_progress", text="Checkpoints in progress.")] = 0
    completed: Annotated[int, _ended("completed")] = 0
    failed: Annotated[int, _ended("failed")] = 0


class Distribution(Model):
    """Distribution of a figure: minimum, maximum and mean of all values, quantiles of the latest; 0 without values."""

    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p999: float = 0.0


class Summary(Model):
    """Distributions over the completed checkpoints."""

    checkpointed_size: Distribution = Distribution()
    state_size: Distribution = Distribution()
    end_to_end_duration: Distribution = Distribution()
    alignment_buffered: Distribution = Distribution()
    processed_data: Distribution = Distribution()
    persisted_data: Distribution = Distribution()


class Latest(Model):
    """The latest of each kind."""

    completed: CheckpointStatistics | None = None
    savepoint: CheckpointStatistics | None = None
    failed: CheckpointStatistics | None = None
    restored: RestoredStatistics | None = None


class CheckpointingStatistics(Model):
    """Response to `GET /v1/checkpoints`; `history` has the youngest first, without tasks."""

    counts: Counts
    summary: Summary
    latest: Latest
    history: list[CheckpointStatistics]


def quantile(ordered: list[int], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the ascending values lie, interpolated; 0 for no values."""
    if not ordered:
        return 0.0
    position = share * (len(ordered) + 1)
    below = int(position)
    if below < 1:
        return float(ordered[0])
    if below >= len(ordered):
        return float(ordered[-1])
    lower, upper = ordered[below - 1], ordered[below]
    return lower + (position - below) * (upper - lower)


class _Figure:
    def __init__(self, window: int) -> None:
        self._latest: deque[int] = deque(maxlen=window)
        self._count = self._sum = self._min = self._max = 0

    def add(self, value: int) -> None:
        self._min = value if not self._count else min(self._min, value)
        self._max = value if not self._count else max(self._max, value)
        self._sum += value
        self._count += 1
        self._latest.append(value)

    def distribution(self) -> Distribution:
        if not self._count:
            return Distribution()
        ordered = sorted(self._latest)
        p50, p90, p95, p99, p999 = (quantile(ordered, share) for share in (0.5, 0.9, 0.95, 0.99, 0.999))
        average = self._sum // self._count
        return Distribution(min=self._min, max=self._max, avg=average, p50=p50, p90=p90, p95=p95, p99=p99, p999=p999)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


@dataclass
class _Record:
    id: CheckpointId
    properties: CheckpointProperties
    triggered: float
    chains: tuple[ChainUid, ...]
    acknowledged: dict[ChainUid, tuple[float, AcknowledgementMetrics]] = field(default_factory=dict)
    status: CheckpointStatus = CheckpointStatus.IN_PROGRESS
    uri: str | None = None
    discarded: bool = False
    failed_at: float | None = None
    failure: str | None = None

    def task(self, chain: ChainUid) -> TaskStatistics:
        if chain not in self.acknowledged:
            status = CheckpointStatus.FAILED if self.status is CheckpointStatus.FAILED else CheckpointStatus.IN_PROGRESS
            return TaskStatistics(id=chain, status=status)
        at, metrics = self.acknowledged[chain]
        return TaskStatistics(
            id=chain,
            status=CheckpointStatus.COMPLETED,
            latest_ack_timestamp=_ms(at),
            end_to_end_duration=_ms(at - self.triggered),
            checkpointed_size=metrics.checkpointed_size,
            state_size=metrics.state_size,
            processed_data=metrics.processed_data,
            persisted_data=metrics.persisted_data,
            num_acknowledged_subtasks=1,
            sync_duration=_ms(metrics.sync_duration),
            async_duration=_ms(metrics.async_duration),
            alignment_duration=_ms(metrics.alignment_duration),
            start_delay=_ms(metrics.start_delay),
            unaligned_checkpoint=metrics.unaligned,
        )

    def render(self, *, with_tasks: bool) -> CheckpointStatistics:
        metrics = [metrics for _, metrics in self.acknowledged.values()]
        latest_ack = max((at for at, _ in self.acknowledged.values()), default=None)
        completed, failed = self.status is CheckpointStatus.COMPLETED, self.status is CheckpointStatus.FAILED
        unaligned = self.properties.unaligned or any(metric.unaligned for metric in metrics)
        type_name = (
            "SAVEPOINT" if self.properties.is_savepoint else "UNALIGNED_CHECKPOINT" if unaligned else "CHECKPOINT"
        )
        return CheckpointStatistics(
            className="completed" if completed else "failed" if failed else "in_progress",
            id=self.id,
            status=self.status,
            is_savepoint=self.properties.is_savepoint,
            savepointFormat="NATIVE" if self.properties.is_savepoint else None,
            trigger_timestamp=_ms(self.triggered),
            latest_ack_timestamp=UNKNOWN_MS if latest_ack is None else _ms(latest_ack),
            end_to_end_duration=UNKNOWN_MS if latest_ack is None else _ms(latest_ack - self.triggered),
            checkpointed_size=sum(metric.checkpointed_size for metric in metrics),
            state_size=sum(metric.state_size for metric in metrics),
            processed_data=sum(metric.processed_data for metric in metrics),
            persisted_data=sum(metric.persisted_data for metric in metrics),
            num_subtasks=len(self.chains),
            num_acknowledged_subtasks=len(self.acknowledged),
            checkpoint_type=type_name,
            tasks={chain: self.task(chain) for chain in self.chains} if with_tasks else {},
            external_path=self.uri,
            discarded=self.discarded if completed else None,
            failure_timestamp=None if self.failed_at is None else _ms(self.failed_at),
            failure_message=self.failure,
        )


class StatisticsTracker:
    """Follows the checkpoints of a job through the epochs of a process.

    Args:
        history: the number of checkpoints in `history`, and of completed ones for quantiles.
    """

    def __init__(self, *, history: int = 10) -> None:
        self._limit = history
        self._history: OrderedDict[CheckpointId, _Record] = OrderedDict()
        self._counts = {"restored": 0, "total": 0, "completed": 0, "failed": 0}
        self._latest: dict[str, _Record] = {}
        self._restored: RestoredStatistics | None = None
        self._figures = {name: _Figure(history) for name in Summary.model_fields}

    def started(
        self,
        checkpoint: CheckpointId,
        properties: CheckpointProperties,
        triggered: float,
        chains: Collection[ChainUid],
    ) -> None:
        """Note the start of a checkpoint."""
        self._counts["total"] += 1
        # An id that an earlier epoch of this process gave up may be used again.
        self._history.pop(checkpoint, None)
        self._history[checkpoint] = _Record(checkpoint, properties, triggered, tuple(chains))
        while len(self._history) > self._limit:
            oldest_ended = next((key for key, value in self._history.items() if self._ended(value)), None)
            if oldest_ended is None:
                break
            del self._history[oldest_ended]

    def acknowledged(self, checkpoint: CheckpointId, acknowledgement: ChainAcknowledgement, now: float) -> None:
        """Note an acknowledgement, also a late one of a failed checkpoint; a repeated one changes nothing."""
        record = self._history.get(checkpoint)
        if record is not None and acknowledgement.chain in record.chains:
            record.acknowledged.setdefault(acknowledgement.chain, (now, acknowledgement.metrics))

    def completed(self, checkpoint: CheckpointId, uri: str) -> None:
        """Note that the log names a checkpoint, whose manifest is at `uri`."""
        record = self._history[checkpoint]
        record.status, record.uri = CheckpointStatus.COMPLETED, uri
        self._counts["completed"] += 1
        self._latest["savepoint" if record.properties.kind is SnapshotKind.SAVEPOINT else "completed"] = record
        rendered = record.render(with_tasks=False)
        for name, figure in self._figures.items():
            figure.add(getattr(rendered, name))

    def failed(self, checkpoint: CheckpointId, message: str, now: float) -> None:
        """Note that a checkpoint failed."""
        record = self._history[checkpoint]
        record.status, record.failed_at, record.failure = CheckpointStatus.FAILED, now, message
        self._counts["failed"] += 1
        self._latest["failed"] = record

    def withdrawn(self, checkpoint: CheckpointId) -> None:
        """Forget a checkpoint in progress that was no longer wanted: it has not failed."""
        del self._history[checkpoint]
        self._counts["total"] -= 1

    def restored(self, checkpoint: CheckpointId, now: float, *, is_savepoint: bool, uri: str | None) -> None:
        """Note that the job was restored from a snapshot."""
        self._counts["restored"] += 1
        self._restored = RestoredStatistics(
            id=checkpoint, restore_timestamp=_ms(now), is_savepoint=is_savepoint, external_path=uri
        )

    def discarded(self, checkpoint: CheckpointId) -> None:
        """Note that a completed checkpoint is no longer retained."""
        for record in (*self._history.values(), *self._latest.values()):
            if record.id == checkpoint:
                record.discarded = True

    def overview(self) -> CheckpointingStatistics:
        """Return counts, summary, the latest of each kind, and the history."""
        in_progress = sum(not self._ended(record) for record in self._history.values())
        latest = {name: record.render(with_tasks=False) for name, record in self._latest.items()}
        return CheckpointingStatistics(
            counts=Counts(**self._counts, in_progress=in_progress),
            summary=Summary(**{name: figure.distribution() for name, figure in self._figures.items()}),
            latest=Latest(**latest, restored=self._restored),
            history=[record.render(with_tasks=False) for record in reversed(self._history.values())],
        )

    def details(self, checkpoint: CheckpointId) -> CheckpointStatistics | None:
        """Return one checkpoint with its tasks, or None if the history does not hold it."""
        record = self._history.get(checkpoint)
        return None if record is None else record.render(with_tasks=True)

    @staticmethod
    def _ended(record: _Record) -> bool:
        return record.status is not CheckpointStatus.IN_PROGRESS
