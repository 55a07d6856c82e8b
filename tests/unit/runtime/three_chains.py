"""A job of three chains without Spark, as the control API sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.runtime.fake_runtime import NOW, FakeRuntime

from streamjob.client.models import ChainView, ChannelView, SnapshotKind
from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.job.loading.load import load_job
from streamjob.protocol.coordination.messages import AcknowledgementMetrics, ChainAcknowledgement
from streamjob.protocol.coordination.triggers import CheckpointProperties
from streamjob.protocol.emissions.channels import Segment
from streamjob.protocol.emissions.cuts import Batch, Output
from streamjob.snapshot.manifest import ChainState
from streamjob_runtime.control.running_job import RunningJob

JOB = """
name: flights
channels: {capacityBytes: 1000}
sources:
- {name: flights, format: csv, schema: "at TIMESTAMP, id INT", options: {path: in},
   watermark: {column: at, delay: 0s}}
operators:
- {name: clean, inputs: [flights], sql: "SELECT * FROM flights", chain: false}
- {name: slow, inputs: [clean], sql: "SELECT * FROM clean", chain: false}
sinks:
- {name: report, input: slow, format: parquet, options: {path: out}, delivery: exactly-once}
"""
FLIGHTS, CLEAN, SLOW = ChainUid("flights"), ChainUid("clean"), ChainUid("slow")


class JobOfThreeChains(FakeRuntime):
    """A job of three chains without Spark, and what is known of it."""

    def __init__(self, directory: Path) -> None:
        (directory / "job.yaml").write_text(JOB)
        self.posted: list[Any] = []
        super().__init__(load_job(directory / "job.yaml"), self.posted.append)
        self.statistics = self.coordination._statistics
        self.control = RunningJob(cast(Any, self.runner))

    def write(self, chain: ChainUid, *, records: int, length: int) -> None:
        """Emit a batch that other chains can read."""
        emission = self.runner.epoch.emission
        batch = BatchId(emission.last_emitted(chain) + 1)
        segment = Segment(name=f"{chain}-{batch}", records=records, length=length)
        emission.emit(chain, Batch(batch=batch, output=Output(segments=(segment,))))

    def complete(self, checkpoint: int, *, alignment: float = 0.0, unaligned: bool = False) -> None:
        """Let a checkpoint complete."""
        uid = CheckpointId(checkpoint)
        properties = CheckpointProperties(kind=SnapshotKind.CHECKPOINT)
        self.statistics.started(uid, properties, NOW, [chain.uid for chain in self.plan.chains])
        for chain in self.plan.chains:
            metrics = AcknowledgementMetrics(
                alignment_duration=alignment if chain.uid == SLOW else 0.0,
                unaligned=unaligned and chain.uid == SLOW,
                persisted_data=500 if unaligned and chain.uid == SLOW else 0,
            )
            state = ChainState(uid=chain.uid, operators=(), batch=BatchId(1))
            self.statistics.acknowledged(uid, ChainAcknowledgement(state=state, metrics=metrics), NOW + 1.5)
        self.statistics.completed(uid, "file:///m")

    def chain(self, uid: ChainUid) -> ChainView:
        return next(chain for chain in self.control.job().chains if chain.uid == uid)

    def channel(self, source: ChainUid, target: ChainUid) -> ChannelView:
        channels = self.control.job().channels
        return next(channel for channel in channels if (channel.source, channel.target) == (source, target))


@pytest.fixture
def world(tmp_path: Path) -> JobOfThreeChains:
    return JobOfThreeChains(tmp_path)
