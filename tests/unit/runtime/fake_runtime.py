"""The runtime of a job without Spark: a real coordination, and chains whose figures a test sets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.models.clocks import SettableClock

from streamjob.ids import ChainUid, CheckpointId, OperatorUid
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.plan import plan
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.emissions.cuts import Emissions
from streamjob.protocol.lifecycle import JobState
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.chain.event_time.event_times import PartitionTime, StrayTimes
from streamjob_runtime.job.coordination import Coordination
from streamjob_runtime.kafka.positions import TopicPartition
from streamjob_runtime.kafka.reporting import OffsetReports
from streamjob_runtime.sinks.meter import SinkMeters

NOW = 1_700_000_000.0


class Streams:
    """Replaces the JVM's index of a stream."""

    def extend(self, *_: object) -> None: ...

    def serve(self, *_: object) -> None: ...

    def drop(self, *_: object) -> None: ...


class Reports:
    """Replaces a query whose batches Spark reports."""

    def __init__(self) -> None:
        self.reports: list[Any] = []
        self.status = {"message": "Waiting for data to arrive"}
        self._jsq = SimpleNamespace(recentProgress=lambda: list(self.reports))

    def add(
        self,
        rows: int,
        *,
        from_chains: int = 0,
        positions: object = None,
        latest: object = None,
        late: int | None = None,
        bytes_read: int = 0,
    ) -> None:
        """Report one more batch, of a query with a watermark if rows were late."""
        batch = len(self.reports)
        sources = [
            {
                "description": "FileStreamSource[file:/in]",
                "numInputRows": rows - from_chains,
                "endOffset": positions,
                "latestOffset": latest,
                "metrics": {"bytesRead": str(bytes_read)},
            },
            {"description": "channel /var/1/events to counts", "numInputRows": from_chains},
        ]
        report = {
            "batchId": batch,
            "numInputRows": rows,
            "durationMs": {"triggerExecution": 250, "addBatch": 1},
            "sources": sources,
            "eventTime": {} if late is None else {"watermark": "2013-01-01T00:00:00.000Z"},
            "stateOperators": [{"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": late or 0}],
        }
        self.reports.append(SimpleNamespace(batchId=lambda: batch, json=lambda: json.dumps(report)))


@dataclass
class FakeChain:
    """A chain whose figures a test sets."""

    uid: ChainUid
    query: Reports = field(default_factory=Reports)
    rows: int | None = 0
    watermarks: dict[OperatorUid, int] = field(default_factory=dict)
    idle_inputs: frozenset[OperatorUid] = frozenset()
    strays: dict[OperatorUid, StrayTimes] = field(default_factory=dict)
    partition_times: dict[OperatorUid, dict[TopicPartition, PartitionTime]] = field(default_factory=dict)
    ended: bool = False
    replaying: tuple[int, int] | None = None
    checkpoint: Path = field(default_factory=lambda: Path("none"))
    dataflow: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(sources=(OperatorUid("flights"),), directories=(0,), discovered={})
    )

    @property
    def event_times(self) -> SimpleNamespace:
        return SimpleNamespace(strays=self.strays, partition_times=lambda: self.partition_times)

    @property
    def queries(self) -> tuple[Reports]:
        return (self.query,)

    @property
    def output(self) -> SimpleNamespace:
        return SimpleNamespace(rows=self.rows)

    def watermarks_now(self) -> dict[OperatorUid, int]:
        return self.watermarks


class FakeRuntime:
    """Runs a job's epochs without Spark.

    Args:
        loaded: the job.
        deliver: receives the events for the epoch that runs.
        last_id: the highest id of a checkpoint so far.
    """

    def __init__(self, loaded: LoadedJob, deliver: Callable[[m.Event], None], *, last_id: int = 0) -> None:
        self.plan = plan(loaded.spec)
        self.clock = SettableClock(NOW)
        self.coordination = Coordination(
            [chain.uid for chain in self.plan.chains], loaded.spec.checkpointing, self.clock
        )
        self.coordination.enter(JobState.RESTORING)
        self.coordination.enter(JobState.RUNNING)
        self.coordination.begin(CheckpointId(last_id), deliver)
        self.runner: Any = SimpleNamespace(
            job=SimpleNamespace(
                loaded=loaded,
                plan=self.plan,
                name="flights",
                namespace="default",
                clock=self.clock,
                sink_meters=SinkMeters(clock=self.clock),
                offset_reports=OffsetReports(),
                executors=None,
            ),
            coordination=self.coordination,
            epoch=None,
            attempt=0,
            started=NOW,
            location="file:///snapshots/",
        )
        self.chains: dict[ChainUid, FakeChain] = {}
        self.blocked: dict[ChainUid, float] = {}

    def begin_epoch(self, *finished: ChainUid) -> None:
        """Let an epoch begin, in which the `finished` chains do not run."""
        uids = [chain.uid for chain in self.plan.chains]
        channels = [(channel.source, channel.target) for channel in self.plan.channels]
        emission = EmissionLock(Emissions(uids, channels), self.runner.job.loaded.spec.channels)
        emission.open_channels(cast(Any, {uid: Streams() for uid in uids}))
        self.blocked = {}
        emission.blocked_seconds = lambda chain: self.blocked.get(chain, 0.0)  # type: ignore[method-assign]
        self.chains = {uid: FakeChain(uid) for uid in uids if uid not in finished}
        manifest = SimpleNamespace(id=CheckpointId(3), kind="checkpoint", completed=NOW - 60)
        self.runner.epoch = SimpleNamespace(
            chains=self.chains,
            emission=emission,
            rewriting=None,
            migrating=None,
            partitions=None,
            tables=None,
            begun={},
            restored=SimpleNamespace(manifest=manifest, uri="file:///m", finished=lambda uid: uid in finished),
        )
