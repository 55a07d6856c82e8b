"""Follows a chain's query through Spark's progress reports: records, rates, durations of batches."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from streamjob.ids import OperatorUid
from streamjob_runtime.chain.sources.broken_records import COUNT, OBSERVED
from streamjob_runtime.chain.sources.null_event_times import OBSERVED as TIMELESS
from streamjob_runtime.kafka.positions import Offsets, read_offsets
from streamjob_runtime.spark.gateway import progress_reports

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_RATE_WINDOW_SECONDS = 10.0
_OFFSETS = ("latestOffset", "getOffset", "getBatch")
_LOGS = ("walCommit", "commitOffsets", "commitBatch")
"""Spark's names of phases."""
_TIMES_OF_STATE = ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs")
_SIZE_ON_DISK = "rocksdbSstFileSize"
_CHANNEL = "channel "  # the beginning of ChannelStream's description: the source is another chain


@dataclass(frozen=True, slots=True)
class Phases:
    """The phases of a batch in ms: finding offsets, planning, execution, and writing Spark's logs.

    `state_commit_ms` is the time of all tasks to commit the state; None without state.
    """

    offsets_ms: int = 0
    planning_ms: int = 0
    execution_ms: int = 0
    logs_ms: int = 0
    state_commit_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StateProgress:
    """A stateful operator after a batch.

    Args:
        name: Spark's name of the operator.
        rows: rows in its state; None if Spark does not count them.
        size: bytes of its state, on disk if Spark reports that, otherwise in memory.
        task_ms: time that all tasks spent on its state in the batch, added up.
    """

    name: str
    rows: int | None
    size: int
    task_ms: int


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """A batch in Spark's report: rows read, its duration in ms, and the number of rows that other chains wrote.

    `begun` is its begin in seconds since 1970; None if Spark does not report it.

    `rows_by_source` has the number of rows by Spark's number of the source, and `bytes_by_source` the size of the files
    that a source in a bucket has read, 0 for any other source. `dropped_late` has Spark's name of each
    stateful operator with the number of late rows that it dropped; it is empty without a watermark.
    `not_decoded` has the number of records and rows that could not be decoded or computed, by source and operator;
    `timeless` that of rows dropped without an event time.
    """

    batch: int
    rows_in: int
    duration_ms: int
    begun: float | None = None
    rows_from_chains: int = 0
    rows_by_source: tuple[int, ...] = ()
    bytes_by_source: tuple[int, ...] = ()
    phases: Phases = field(default_factory=Phases)
    dropped_late: tuple[tuple[str, int], ...] = ()
    states: tuple[StateProgress, ...] = ()
    not_decoded: Mapping[OperatorUid, int] = field(default_factory=dict)
    timeless: Mapping[OperatorUid, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Positions:
    """A Kafka source's position and its end when the batch was planned, by partition.

    `planned` is the time when the batch began, in seconds since 1970; None if Spark does not report it. `files_changed`
    is the number of files that have changed since a source of files read them, and `changed_file` one of them;
    `messages_refused` that of messages in a queue that are no notifications.
    """

    read: Offsets
    latest: Offsets
    planned: float | None = None
    files_changed: int = 0
    changed_file: str | None = None
    messages_refused: int = 0


class ProgressReader:
    """Collects the progress of a chain's queries in one epoch; one thread calls it several times a second."""

    def __init__(self) -> None:
        self._last_batch = -1
        self.positions: list[Positions] = []
        """The newest report for sources that have partitions, by Spark's number of the source."""

    def new_batches(self, queries: Sequence[StreamingQuery]) -> list[BatchProgress]:
        """Return the batches that have ended since the last call, oldest first.

        Args:
            queries: the epoch's queries in sequence; their batches are numbered continuously.
        """
        return [batch for query in queries for batch in self._new_batches(query)]

    def _new_batches(self, query: StreamingQuery) -> list[BatchProgress]:
        fresh: list[dict[str, Any]] = []
        # Newest first: each report costs a call into the JVM, and most have been read before.
        reports = progress_reports(query)
        for index in range(len(reports) - 1, -1, -1):
            if reports[index].batchId() <= self._last_batch:
                break
            fresh.append(json.loads(reports[index].json()))
        if fresh:
            self._note_positions(fresh[0])
        by_batch: dict[int, BatchProgress] = {}
        for report in reversed(fresh):
            # An idle query repeats the report of its next batch, without a duration of `addBatch`.
            if "addBatch" in report.get("durationMs", {}):
                sources = report.get("sources", ())
                by_batch[report["batchId"]] = BatchProgress(
                    batch=report["batchId"],
                    rows_in=report["numInputRows"] + sum(map(_surplus, sources)),
                    duration_ms=report["durationMs"]["triggerExecution"],
                    begun=_seconds(report.get("timestamp")),
                    rows_from_chains=sum(
                        _rows_in(source) for source in sources if source["description"].startswith(_CHANNEL)
                    ),
                    rows_by_source=tuple(map(_rows_in, sources)),
                    bytes_by_source=tuple(map(_bytes_in, sources)),
                    phases=_phases(report),
                    dropped_late=_dropped_late(report),
                    states=tuple(_state(each) for each in report.get("stateOperators", ())),
                    not_decoded=_counts(report, OBSERVED),
                    timeless=_counts(report, TIMELESS),
                )
        self._last_batch = max((self._last_batch, *by_batch))
        return list(by_batch.values())

    def _note_positions(self, report: Mapping[str, Any]) -> None:
        sources = report.get("sources", ())
        if any(source.get("endOffset") is not None for source in sources):
            self.positions = [
                Positions(
                    read_offsets(source.get("endOffset")),
                    read_offsets(source.get("latestOffset")),
                    _seconds(report.get("timestamp")),
                    int(figures.get("filesChanged", 0)),
                    figures.get("changedFile"),
                    int(figures.get("messagesRefused", 0)),
                )
                for source in sources
                for figures in [source.get("metrics") or {}]
            ]


def _rows_in(source: Mapping[str, Any]) -> int:
    return int(source["numInputRows"]) + _surplus(source)


def _surplus(source: Mapping[str, Any]) -> int:
    # Of CSV and JSON files Spark counts lines, those of headers as well, or whole files.
    return int((source.get("metrics") or {}).get("recordsSurplus", 0))


def _bytes_in(source: Mapping[str, Any]) -> int:
    return int((source.get("metrics") or {}).get("bytesRead", 0))


def _seconds(timestamp: str | None) -> float | None:
    return None if timestamp is None else datetime.fromisoformat(timestamp).timestamp()


def _state(operator: Mapping[str, Any]) -> StateProgress:
    on_disk = operator.get("customMetrics", {}).get(_SIZE_ON_DISK, 0)
    return StateProgress(
        name=operator["operatorName"],
        # By default RocksDB does not count its rows, since that would cost a read with each write: Spark reports 0.
        rows=operator.get("numRowsTotal") or None,
        size=on_disk or operator.get("memoryUsedBytes", 0),
        task_ms=sum(operator.get(name, 0) for name in _TIMES_OF_STATE),
    )


def _phases(report: Mapping[str, Any]) -> Phases:
    durations = report["durationMs"]
    commits = [each["commitTimeMs"] for each in report.get("stateOperators", ()) if "commitTimeMs" in each]
    return Phases(
        offsets_ms=sum(durations.get(name, 0) for name in _OFFSETS),
        planning_ms=durations.get("queryPlanning", 0),
        execution_ms=durations["addBatch"],
        logs_ms=sum(durations.get(name, 0) for name in _LOGS),
        state_commit_ms=sum(commits) if commits else None,
    )


def _dropped_late(report: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    if not report.get("eventTime"):
        return ()
    operators = report.get("stateOperators", ())
    return tuple((each["operatorName"], each["numRowsDroppedByWatermark"]) for each in operators)


def _counts(report: Mapping[str, Any], prefix: str) -> dict[OperatorUid, int]:
    observed = report.get("observedMetrics") or {}
    return {
        OperatorUid(name.removeprefix(prefix)): int(counts[COUNT])
        for name, counts in observed.items()
        if name.startswith(prefix)
    }


class Rate:
    """The growth of a total per second, over the last ten seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()

    def note(self, now: float, total: float) -> None:
        """Record the total at `now`, a monotonic time in seconds."""
        self._samples.append((now, total))
        while len(self._samples) > 2 and self._samples[0][0] < now - _RATE_WINDOW_SECONDS:
            self._samples.popleft()

    @property
    def per_second(self) -> float:
        """Return the rate; 0 until there are two samples."""
        if len(self._samples) < 2:
            return 0.0
        (begun, first), (ended, last) = self._samples[0], self._samples[-1]
        return max(0.0, (last - first) / (ended - begun)) if ended > begun else 0.0
