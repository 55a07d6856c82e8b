"""An epoch of a job as it is planned: what its chains take over from a snapshot, the runtime's own code decides."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.simulation.chains_run import ChainsRun, Computed, LocalStream, Shape
from tests.simulation.changed_world import ChangedWorld
from tests.simulation.process import Process
from tests.simulation.revision_flow import Item, decode, encode, partition_of
from tests.simulation.spark_twin import Query, Standing, without_spark

from streamjob.comparison.compatibility import Restored
from streamjob.comparison.graphs import compare
from streamjob.errors import CannotRestore
from streamjob.ids import NO_BATCH, BatchId, ChainUid, Key, OperatorUid
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.emissions.cuts import ChainCut
from streamjob.snapshot.manifest import (
    ChainState,
    FileRef,
    InputState,
    Manifest,
    OperatorState,
    SinkState,
    SourceState,
)
from streamjob.store.base import Store
from streamjob_runtime.chain.channels.in_flight import channel_states, is_segment
from streamjob_runtime.checkpointing.acknowledging import FinishedChain, Nodes
from streamjob_runtime.restoring.restoration import Restoration, Workdir
from streamjob_runtime.spark.job_files import JobFiles

SEGMENT_RECORDS = 2
_NOT_NEEDED: Any = None


class ChangedRun(ChainsRun[Standing]):
    """One epoch of all chains of a revision."""

    def __init__(self, job: ChangedWorld, process: Process, number: int, revision: int) -> None:
        self.job = job
        self.moments = job.known.moments
        self.revision = job.revisions[revision]
        self.plan = self.revision.plan
        self.queries = {chain.uid: Query(self.revision, chain) for chain in self.plan.chains}
        self.shapes = {
            chain.uid: Shape(
                chain.uid,
                tuple(channel.source for channel in chain.channels),
                # Some chains are slow, so that there is something in flight.
                (1, 1, 12)[sum(map(ord, chain.uid)) % 3],
                bool(chain.loop),
            )
            for chain in self.plan.chains
        }
        self._finished_before: dict[ChainUid, FinishedChain] = {}
        super().__init__(process, number)

    @property
    def job_graph(self) -> dict[str, Any]:
        return {**self.revision.graph, "maxParallelism": self.partitions, "revision": self.revision.number}

    def examine(self, manifest: Manifest | None) -> CannotRestore | None:
        spec = self.revision.spec
        self.restored: Restored | None = None
        self.partitions = spec.max_parallelism
        if manifest is None:
            return None
        try:
            compared = compare(spec, self.plan, manifest, "memory:///job", self.revision.allow)
            compared.check()
        except CannotRestore as error:
            return error
        undecided = {uid: why for uid, why in compared.undecided.items() if uid in compared.changed}
        origins, allow = compared.origins, self.revision.allow
        self.restored = Restored(
            manifest, "memory:///job", fork=False, origins=origins, undecided=undecided, allow=allow
        )
        self.partitions = compared.max_parallelism
        return None

    def refused(self, error: CannotRestore) -> None:
        assert self.log is not None
        self.job.known.check_untouched(self.log.claim.epoch)
        self.job.refused(self.revision, error)

    def restore(self, manifest: Manifest | None, files: dict[str, bytes]) -> None:
        channels = tuple((each.source, each.target) for each in self.plan.channels)
        feedback = tuple((each.source, each.target) for each in self.plan.channels if each.feedback)
        self.make_emissions(channels, feedback)
        directory = self.job.directory / self.name
        try:
            with without_spark():
                self._restore_in(Workdir(directory, None, JobFiles(directory)))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        self.open_channels()
        self.world.note(f"{self.name}: epoch {self.epoch} starts behind {manifest.id if manifest else 'nothing'}")

    def _restore_in(self, workdir: Workdir) -> None:
        restoration = Restoration(self.plan, self.restored, workdir)
        restoration.download(self._locate)
        restoration.rewrite_state(_NOT_NEEDED, self.partitions)
        self.finished = frozenset(uid for uid in self.shapes if restoration.is_finished(uid))
        for chain in self.plan.chains:
            dataflow = self.queries[chain.uid].dataflow()
            restoration.restore(self.decided, chain.uid)
            state = restoration.state(chain.uid)
            if chain.uid in self.finished:
                assert state is not None, f"nothing is known of chain {chain.uid}, which has finished"
                nodes = Nodes(chain.uids(), self.queries[chain.uid].sources, tuple(e.uid for e in chain.sinks))
                own = state.model_copy(update={"uid": chain.uid, "operators": nodes.all})
                self._finished_before[chain.uid] = FinishedChain(own, nodes, restoration.sources)
            else:
                for finding in restoration.match_state(
                    _NOT_NEEDED, self.revision.spec, self.revision.graph, chain, dataflow
                ):
                    if finding.refusal is not None:
                        raise finding.refusal
            self._place(restoration, workdir, chain.uid)
            self._open_stream(restoration, workdir, chain.uid)

    def _locate(self, reference: str) -> tuple[Store, Key]:
        store = self.world.store
        return store, Key(reference.removeprefix(store.uri))

    def _place(self, restoration: Restoration, workdir: Workdir, chain: ChainUid) -> None:
        state, producers = restoration.state(chain), self.shapes[chain].producers
        begins = {producer: restoration.begin(chain, producer) for producer in producers}
        if state is None or state.batch == NO_BATCH or chain in self.finished:
            batch = NO_BATCH if state is None else state.batch
            self.places[chain] = {batch: Standing(consumed=begins)}
            return
        found = self.queries[chain].read(workdir.checkpoint(chain), state.batch, self.partitions)
        self.places[chain] = {state.batch: found}

    def _open_stream(self, restoration: Restoration, workdir: Workdir, chain: ChainUid) -> None:
        log = restoration.log(chain)
        if log is None or chain not in self.streams:
            return
        base = log.next - len(log.entries)
        files = {Path(file.path).name: b"" for file in log.files}
        for name in files:
            files[name] = (workdir.segments(chain) / name).read_bytes()
        self.streams[chain] = stream = LocalStream(base, files)
        stream.extend(base, [entry.segments for entry in log.entries])
        self.moments["restored rows in flight"] += bool(files)

    def begin_place(self, chain: ChainUid) -> Standing:
        return Standing(consumed=dict.fromkeys(self.shapes[chain].producers, 0))

    def source_ended(self, shape: Shape, place: Standing) -> bool:
        return all(place.offsets.get(uid, 0) == self.job.limits[uid] for uid in self.queries[shape.uid].sources)

    def has_more(self, shape: Shape, place: Standing) -> bool:
        return any(place.offsets.get(uid, 0) != self.job.limits[uid] for uid in self.queries[shape.uid].sources)

    def compute(
        self, shape: Shape, place: Standing, ends: dict[ChainUid, int], count: int, source_done: bool
    ) -> Computed[Standing]:
        query, after = self.queries[shape.uid], place.copy()
        reads: dict[OperatorUid, list[Item]] = {}
        for uid, producer in query.channels.items():
            segments = self.streams[producer].read(place.consumed[producer], ends[producer])
            reads[uid] = [item for segment in segments for item in decode(segment)]
        after.consumed = ends
        for uid in query.sources:
            reads[uid] = self.job.read_source(uid, place.offsets.get(uid, 0), count)
            if reads[uid]:
                after.offsets[uid] = place.offsets.get(uid, 0) + len(reads[uid])
        items = query.run(after, reads, self.partitions)
        return Computed(place=after, segments=list(self._segments_of(items)), rows=self._rows_of(shape.uid, items))

    def _segments_of(self, items: list[Item]) -> list[tuple[bytes, int]]:
        """Return the segments that the slots write, each those of its keys."""
        segments = []
        slots = self.revision.slots
        for slot in range(slots):
            mine = [item for item in items if partition_of(item.key, 1 << 8) % slots == slot]
            for start in range(0, len(mine), SEGMENT_RECORDS):
                part = mine[start : start + SEGMENT_RECORDS]
                segments.append((encode(part), len(part)))
        return segments

    def _rows_of(self, chain: ChainUid, items: list[Item]) -> dict[OperatorUid, tuple[tuple[str, int, int], ...]]:
        sinks = [each.uid for each in self.plan.chain(chain).sinks]
        return {
            sink: tuple((f"{sink}|{item.id}|{json.dumps(item.marks)}", item.key, item.time) for item in items)
            for sink in sinks
            if items
        }

    def contents(self, chain: ChainUid, batch: BatchId, place: Standing) -> dict[str, bytes]:
        if batch == NO_BATCH or chain in self.finished:
            return {}
        return self.queries[chain].files(batch, place, self.partitions)

    def acknowledgement(self, cut: ChainCut, place: Standing, files: tuple[FileRef, ...]) -> m.ChainAcknowledgement:
        if (finished := self._finished_before.get(cut.chain)) is not None:
            return finished.acknowledge(
                _NOT_NEEDED, cut, directory=_NOT_NEEDED, target=_NOT_NEEDED, progress=_NOT_NEEDED
            )
        query, chain = self.queries[cut.chain], self.plan.chain(cut.chain)
        has_run = cut.batch != NO_BATCH
        return m.ChainAcknowledgement(
            state=ChainState(
                uid=cut.chain,
                operators=chain.uids(),
                batch=cut.batch,
                watermark=0,
                inputs=tuple(InputState(uid=uid) for uid in query.leaves),
                stateful=tuple(query.name(uid) for uid in query.stateful) if has_run else (),
                files=tuple(file for file in files if not is_segment(file.path)),
            ),
            channels=channel_states(cut, files),
            operators=tuple(OperatorState(uid=uid, chain=cut.chain, finished=cut.ended) for uid in chain.uids()),
            sources=tuple(SourceState(uid=uid, position=place.offsets.get(uid)) for uid in query.sources),
            sinks=tuple(
                SinkState(uid=each.uid, committables=cut.committables.get(each.uid, ())) for each in chain.sinks
            ),
            metrics=m.AcknowledgementMetrics(unaligned=cut.unaligned),
        )


def run_of(job: ChangedWorld, revisions: dict[str, int]) -> Any:
    """Return what makes the epochs of a process, which keeps the revision that it began with."""

    def make(process: Process, number: int) -> ChangedRun:
        return ChangedRun(job, process, number, revisions.setdefault(process.name, job.current.number))

    return make
