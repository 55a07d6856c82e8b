"""Moves the watermarks of a chain's inputs by the event times of their rows.

Spark takes the latest row of a source. Here each partition of a Kafka topic has a watermark, and the source has the
least of them; and a time far ahead of the clock moves none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.clock import Clock
from streamjob.ids import BatchId, OperatorUid
from streamjob.job.model.spec import Watermark
from streamjob.job.query.quoting import quoted
from streamjob.protocol.event_time.partition_times import PartitionTimes
from streamjob_runtime.chain.event_time.watermarks import InputWatermarks, event_time_columns, with_event_time
from streamjob_runtime.kafka.bounded import KafkaEnd
from streamjob_runtime.kafka.positions import Offsets, TopicPartition, read_offsets
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets as log_entry
from streamjob_runtime.spark.gateway import column_of, java_column, java_query, java_session, our_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from streamjob_runtime.chain.dataflow import Dataflow

_Advance = Callable[["StreamingQuery", Mapping[OperatorUid, int]], None]

_REMEMBERED_BATCHES = 1000


@dataclass(frozen=True, slots=True)
class StrayTimes:
    """The rows of an input whose event time was out of the ordinary; times in ms since 1970.

    Args:
        ahead: how many were further ahead of the clock than `maxAhead`.
        farthest_ms: the farthest of their times; 0 without any.
        late: how many were behind the watermark of their chain.
        late_by_ms: by how much the latest was.
    """

    ahead: int = 0
    farthest_ms: int = 0
    late: int = 0
    late_by_ms: int = 0

    def __add__(self, other: StrayTimes) -> StrayTimes:
        return StrayTimes(
            self.ahead + other.ahead,
            max(self.farthest_ms, other.farthest_ms),
            self.late + other.late,
            max(self.late_by_ms, other.late_by_ms),
        )


@dataclass(frozen=True, slots=True)
class PartitionTime:
    """The watermark of a partition in ms since 1970, None before the first row, and the seconds since its last row."""

    watermark_ms: int | None
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class ObservedInput:
    """An input whose rows move its watermark.

    Args:
        times: what observes their event time, `ObservedTimes.java`.
        watermark: the watermark that is declared for them.
        by_partition: whether its partitions have watermarks of their own.
    """

    times: Any
    watermark: Watermark
    by_partition: bool = False


@dataclass(frozen=True, slots=True)
class Watermarked:
    """Rows of a source or operator; if they have a watermark, also its node, and what observes their event time."""

    frame: DataFrame
    node: str | None = None
    times: Any = None


def with_observed_time(frame: DataFrame, watermark: Watermark) -> Watermarked | None:
    """Return rows with a watermark that `EventTimes` moves; None if the event time would be that of a window.

    Raises:
        PySparkException: the column does not exist, or cannot be event time.
    """
    from pyspark.sql import functions as f

    spark = frame.sparkSession
    # Spark looks for the column, and says whether it can be event time.
    timed = frame.withWatermark(watermark.column, f"{round(watermark.delay * 1000)} milliseconds").schema
    name = event_time_columns(timed)[0]
    if timed[name].dataType.typeName() == "struct":
        return None
    times = our_java(spark).ObservedTimes.of(java_session(spark), round(watermark.max_ahead * 1000))
    columns = (f.col(quoted(name)), f.current_timestamp(), f.spark_partition_id())
    observed = column_of(times.observed(*map(java_column, columns)))
    rows, node = with_event_time(frame.withColumn(name, observed), timed, [name])
    return Watermarked(rows, node, times)


class EventTimes:
    """The event time of one chain's inputs.

    Args:
        before: the watermarks of partitions in the restored snapshot.
        batch: the batch behind which the chain starts.
        clock: seconds.
    """

    def __init__(
        self,
        dataflow: Dataflow,
        watermarks: InputWatermarks,
        before: Mapping[OperatorUid, Mapping[TopicPartition, int]],
        batch: BatchId,
        clock: Clock,
    ) -> None:
        self._dataflow = dataflow
        self._inputs = dataflow.observed
        self._ends = {uid: KafkaEnd.from_json(dataflow.ends[uid]) for uid in self._inputs if _ends(dataflow, uid)}
        self._watermarks = watermarks
        self._clock = clock
        self._partitions = {
            uid: PartitionTimes(before.get(uid, {}), each.watermark.idle_timeout)
            for uid, each in self._inputs.items()
            if each.by_partition
        }
        self._behind = {batch: self._stored()}
        self.strays = dict.fromkeys(self._inputs, StrayTimes())
        """The rows of each input whose event time was out of the ordinary."""

    def begin(self, query: StreamingQuery) -> None:
        """Let rows count as late in the running batch; call it before the action that reads its rows."""
        for each in self._inputs.values():
            each.times.begin(java_query(query))

    def pass_in_batch(
        self, query: StreamingQuery, checkpoint: Path, batch: BatchId, begun: float
    ) -> frozenset[OperatorUid]:
        """Raise the watermarks by the rows of the running batch; return the inputs that have brought some.

        Args:
            query: the query; the action that has read all rows of the batch is over.
            begun: when the batch had found its rows, in seconds.
        """
        brought, positions = set(), self._positions(checkpoint, batch)
        for uid, each in self._inputs.items():
            seen = json.loads(each.times.take(java_query(query)))
            self.strays[uid] += StrayTimes(seen["ahead"], seen.get("farthest", 0), seen["late"], seen["lateBy"])
            delay_ms = round(each.watermark.delay * 1000)
            if "latest" in seen:
                brought.add(uid)
                if "partitions" not in seen:
                    # The rows have been shuffled, or come from something without partitions.
                    self._partitions.pop(uid, None)
                    self._watermarks.advance(query, {uid: seen["latest"] - delay_ms})
            if (partitions := self._partitions.get(uid)) is not None and (at := positions.get(uid)):
                latest = read_offsets(seen.get("partitions", {}))
                end = self._ends.get(uid)
                partitions.note(
                    {partition: time - delay_ms for partition, time in latest.items()},
                    at.keys(),
                    () if end is None else at.keys() - end.left(at).keys(),
                    begun,
                )
                self._advance(query, uid, begun, self._watermarks.advance)
        return frozenset(brought)

    def pass_between_batches(self, query: StreamingQuery) -> None:
        """Advance the watermarks past idle partitions while the query has found no rows; call it repeatedly."""
        for uid in self._partitions:
            if self._inputs[uid].watermark.idle_timeout is not None:
                self._advance(query, uid, self._clock(), self._watermarks.advance_waiting)

    def note(self, batch: BatchId) -> None:
        """Remember the watermarks of partitions behind a batch."""
        self._behind[batch] = self._stored()
        for old in list(self._behind)[:-_REMEMBERED_BATCHES]:
            del self._behind[old]

    def behind(self, batch: BatchId) -> Mapping[OperatorUid, Mapping[TopicPartition, int]]:
        """Return the watermarks of partitions behind a batch. Raises KeyError if it is long past."""
        return self._behind[batch]

    def _positions(self, checkpoint: Path, batch: BatchId) -> dict[OperatorUid, Offsets]:
        """Return the positions behind a batch of the inputs with partitions; the lower one of an input read twice."""
        result: dict[OperatorUid, Offsets] = {}
        if self._partitions:
            offsets = log_entry(checkpoint, batch).offsets(self._dataflow.directories)
            for uid, (_, offset) in zip(self._dataflow.sources, offsets, strict=True):
                if uid in self._partitions:
                    at, other = read_offsets(offset), result.get(uid, {})
                    result[uid] = {**other, **{each: min(to, other.get(each, to)) for each, to in at.items()}}
        return result

    def partition_times(self) -> dict[OperatorUid, dict[TopicPartition, PartitionTime]]:
        """Return the partitions that count for the watermark of each input that has some; any thread may call it."""
        result = {}
        for uid, each in [*self._partitions.items()]:
            watermarks, silent = each.watermarks, each.silent(self._clock())
            result[uid] = {name: PartitionTime(watermarks.get(name), seconds) for name, seconds in silent.items()}
        return result

    def _stored(self) -> dict[OperatorUid, dict[TopicPartition, int]]:
        return {uid: each.watermarks for uid, each in self._partitions.items()}

    def _advance(self, query: StreamingQuery, uid: OperatorUid, now: float, advance: _Advance) -> None:
        watermark = self._partitions[uid].watermark(now)
        if watermark is not None:
            advance(query, {uid: watermark})


def _ends(dataflow: Dataflow, uid: OperatorUid) -> bool:
    return dataflow.observed[uid].by_partition and uid in dataflow.ends
