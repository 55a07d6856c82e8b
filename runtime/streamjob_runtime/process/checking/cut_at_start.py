"""The snapshot that a job would leave if it ended right after it has restored another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from streamjob.ids import NO_BATCH, ChainUid
from streamjob.job.planning.plan import ChainPlan, Plan
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import (
    ChainState,
    ChannelState,
    FileRef,
    InputState,
    Manifest,
    OperatorState,
    SinkState,
    SourceState,
)
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.kafka.positions import by_topic
from streamjob_runtime.restoring.restoration import Restoration
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import operator_names


@dataclass(frozen=True, slots=True)
class CutAtStart:
    """A job that has restored a snapshot with nothing in flight, and has run no batch.

    Args:
        former: the snapshot.
        restoration: what the chains have taken over; their checkpoints are there.
        dataflows: the queries of the chains that are not finished.
    """

    former: Manifest
    plan: Plan
    restoration: Restoration
    dataflows: Mapping[ChainUid, Dataflow]

    def manifest(
        self, job: JobId, graph: Mapping[str, Any], files: Mapping[ChainUid, tuple[FileRef, ...]], now: float
    ) -> Manifest:
        """Return the manifest of a savepoint.

        Args:
            graph: the job as it is now.
            files: those of each running chain.
            now: seconds since 1970.
        """
        plan, restoration = self.plan, self.restoration
        return Manifest(
            job=job.name,
            namespace=job.namespace,
            id=self.former.id,
            epoch=self.former.epoch,
            kind="savepoint",
            triggered=now,
            completed=now,
            graph=dict(graph),
            operators=tuple(
                OperatorState(uid=uid, chain=chain.uid, finished=restoration.is_finished(chain.uid))
                for chain in plan.chains
                for uid in chain.uids()
            ),
            chains=tuple(self._chain(chain, files.get(chain.uid, ())) for chain in plan.chains),
            channels=tuple(self._channel(channel.source, channel.target) for channel in plan.channels),
            sources=tuple(each for chain in plan.chains for each in self._sources(chain)),
            # What the snapshot has staged is published by the job that took it.
            sinks=tuple(SinkState(uid=sink.uid) for chain in plan.chains for sink in chain.sinks),
        )

    def _chain(self, chain: ChainPlan, files: tuple[FileRef, ...]) -> ChainState:
        state, dataflow = self.restoration.state(chain.uid), self.dataflows.get(chain.uid)
        own: dict[str, Any] = {"uid": chain.uid, "operators": chain.uids()}
        if dataflow is None:
            # It is finished, and nothing reads its state any more.
            return ChainState(**own, batch=NO_BATCH) if state is None else state.model_copy(update={**own, "files": ()})
        start = self.restoration.start(chain.uid, dataflow)
        ended = {each.uid for before in self.former.chains for each in before.inputs if each.ended}
        inputs = tuple(
            InputState(
                uid=uid,
                watermark_ms=start.watermarks.get(uid),
                ended=uid in ended,
                partitions=by_topic(start.partitions.get(uid, {})),
            )
            for uid in dataflow.sources
        )
        if start.batch == NO_BATCH or state is None:
            return ChainState(**own, batch=NO_BATCH, inputs=inputs)
        names = operator_names(start.checkpoint, start.batch)
        return ChainState(
            **own,
            batch=start.batch,
            watermark=state.watermark,
            inputs=inputs,
            stateful=tuple(names.values()),
            forms=dataflow.forms if len(dataflow.forms) == len(names) else (),
            files=files,
        )

    def _channel(self, source: ChainUid, target: ChainUid) -> ChannelState:
        for before in self.former.channels:
            if (before.source, before.target) == (source, target):
                return before
        log, begin = self.restoration.log(source), self.restoration.begin(target, source)
        # It reads only what comes from now on: nothing is in flight.
        at = begin if log is None else log.next
        return ChannelState(source=source, target=target, consumed=at, next=at, ended=log is not None and log.ended)

    def _sources(self, chain: ChainPlan) -> Iterator[SourceState]:
        known = {each.uid: each for each in self.former.sources}
        before, dataflow = self.restoration.sources_before(chain), self.dataflows.get(chain.uid)
        for source in chain.sources:
            if source.uid in before.positions and source.uid in known:
                yield known[source.uid]
            else:
                yield SourceState(uid=source.uid, end=None if dataflow is None else dataflow.ends.get(source.uid))
