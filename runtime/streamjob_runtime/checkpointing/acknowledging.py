"""Takes a chain from its cut to its acknowledgement: waits for Spark's commit, holds files by hard links, uploads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic import JsonValue

from streamjob.ids import NO_BATCH, ChainUid, CheckpointId, OperatorUid
from streamjob.protocol.coordination.messages import AcknowledgementMetrics, ChainAcknowledgement
from streamjob.protocol.emissions.cuts import ChainCut
from streamjob.protocol.segment_places import SegmentNames
from streamjob.snapshot.manifest import (
    ChainState,
    FileRef,
    InputState,
    OperatorState,
    SinkState,
    SourceState,
)
from streamjob_runtime.chain.chain import Chain
from streamjob_runtime.chain.channels.in_flight import channel_states, is_segment, names_in_flight
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.checkpointing.segment_holds import Kept, keep_segments, with_segments
from streamjob_runtime.checkpointing.upload.uploader import Progress, Target, UploadCancelled
from streamjob_runtime.kafka.positions import by_topic
from streamjob_runtime.kafka.positions import read_offsets as topic_offsets
from streamjob_runtime.kafka.topic_ids import KnownTopics
from streamjob_runtime.spark.checkpoint_dir.forced_batch import NO_WATERMARK_MS
from streamjob_runtime.spark.checkpoint_dir.hold import Hold, hold
from streamjob_runtime.spark.checkpoint_dir.logs import VOID_OFFSET, read_commit, read_offsets
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import operator_names

if TYPE_CHECKING:
    from streamjob_runtime.executors.driver.state import StateOnExecutors

_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Nodes:
    """The operators of a chain: all uids, those of native sources, and those of sinks."""

    all: tuple[OperatorUid, ...]
    sources: tuple[OperatorUid, ...]
    sinks: tuple[OperatorUid, ...]


class Acknowledger:
    """The part of a running chain.

    Args:
        segments: directories with the segments of the streams that it reads, and of its own if it feeds back.
        emission: releases in-flight segments once they are held.
        state: the processes that have the chain's state and segments; None if this one has.
        topics: the topics of its Kafka sources.
    """

    def __init__(
        self,
        chain: Chain,
        nodes: Nodes,
        segments: Mapping[ChainUid, Path],
        emission: EmissionLock,
        state: StateOnExecutors | None = None,
        topics: Mapping[OperatorUid, KnownTopics] | None = None,
    ) -> None:
        self._state = state
        self._topics = topics or {}
        self._chain = chain
        self._nodes = nodes
        self._segments = dict(segments)
        self._emission = emission

    @property
    def chain(self) -> ChainUid:
        """The chain that acknowledges."""
        return self._chain.uid

    def acknowledge(
        self,
        checkpoint: CheckpointId,
        cut: ChainCut,
        *,
        directory: Path,
        target: Target,
        progress: Progress,
    ) -> ChainAcknowledgement:
        """Hold what is in flight, wait for Spark's commit, hold and upload; return the acknowledgement. Blocks.

        Args:
            directory: the directory for the hold, on the file system of the chain's checkpoint; it must not exist yet.
            target: the store for its files.
            progress: reports progress, and cancels.

        Raises:
            UploadCancelled: `progress.cancel` was called.
            StoreError: the store failed.
            CheckpointError: the chain's Spark checkpoint lacks files of the cut.
            TopicMadeAgain: what was read up to the cut may be of another topic.
            KafkaUnreachable, KafkaRefuses: Kafka does not tell which topic it is.
        """
        begun = time.monotonic()
        segments = names_in_flight(cut)
        kept = self._keep_in_flight(checkpoint, cut, segments, directory, progress)
        linked = time.monotonic() - begun
        held = None
        if cut.batch != NO_BATCH:
            self._await_commit(cut, progress)
            begun = time.monotonic()
            held = hold(
                self._chain.checkpoint,
                cut.batch,
                directory,
                self._chain.dataflow.directories,
                state_elsewhere=self._state is not None,
            )
            linked += time.monotonic() - begun
        begun = time.monotonic()
        files: tuple[FileRef, ...] = ()
        elsewhere = self._store_elsewhere(checkpoint, cut, held, kept, target, progress)
        here = {} if self._state is not None else segments
        if held is not None or any(here.values()):
            files = target.upload(with_segments(held, here, directory), progress)
        files = (*files, *elsewhere())
        statistics = progress.statistics()
        metrics = AcknowledgementMetrics(
            checkpointed_size=statistics.upload_bytes,
            state_size=statistics.total_bytes,
            sync_duration=linked,
            async_duration=time.monotonic() - begun,
            alignment_duration=cut.alignment_duration,
            start_delay=cut.start_delay,
            processed_data=cut.processed_bytes,
            persisted_data=sum(file.length for file in files if is_segment(file.path)),
            unaligned=cut.unaligned,
            objects=statistics.objects,
        )
        return self._acknowledgement(cut, held, files, metrics)

    def _store_elsewhere(
        self,
        checkpoint: CheckpointId,
        cut: ChainCut,
        held: Hold | None,
        kept: Kept,
        target: Target,
        progress: Progress,
    ) -> Callable[[], tuple[FileRef, ...]]:
        stores = () if held is None else held.files.elsewhere
        if self._state is None or not (stores or kept):
            return lambda: ()
        return self._state.store(checkpoint, self.chain, cut.batch, stores, kept, target, progress)

    def _await_commit(self, cut: ChainCut, progress: Progress) -> None:
        while not self._chain.is_committed(cut.batch):
            if progress.cancelled:
                raise UploadCancelled(f"Chain {self.chain!r} had not committed batch {cut.batch} when it was aborted")
            time.sleep(_POLL_SECONDS)

    def _keep_in_flight(
        self, checkpoint: CheckpointId, cut: ChainCut, segments: SegmentNames, directory: Path, progress: Progress
    ) -> Kept:
        kept: Kept = {}
        if self._state is None:
            keep_segments(segments, self._segments.__getitem__, directory)
        elif any(segments.values()):
            kept = self._state.keep(checkpoint, cut.chain, segments, progress)
        self._emission.unpin(checkpoint, cut.chain)
        return kept

    def _acknowledgement(
        self,
        cut: ChainCut,
        held: Hold | None,
        files: tuple[FileRef, ...],
        metrics: AcknowledgementMetrics,
    ) -> ChainAcknowledgement:
        dataflow = self._chain.dataflow
        positions = {**dataflow.begins, **(self._positions(held) if held else {})}
        watermarks = self._chain.watermarks_behind(cut.batch)
        partitions = self._chain.event_times.behind(cut.batch)
        watermark = _known(read_commit(held.directory, cut.batch).next_watermark_ms) if held else None
        if self._chain.drained or self._chain.is_followed_by_flush(cut.batch):
            watermarks, watermark = self._chain.event_time.inputs(), self._chain.event_time.query()
        names = operator_names(held.directory, cut.batch) if held else {}
        ended = {
            uid
            for uid, producer in dataflow.channels.items()
            if producer in cut.ended_inputs and not cut.in_flight.get(producer)
        }
        state = ChainState(
            uid=self.chain,
            operators=self._nodes.all,
            batch=cut.batch,
            watermark=watermark,
            inputs=tuple(
                InputState(
                    uid=uid,
                    watermark_ms=watermarks.get(uid),
                    ended=cut.ended or uid in ended,
                    partitions=by_topic(partitions.get(uid, {})),
                )
                for uid in dataflow.sources
            ),
            stateful=tuple(names.values()),
            forms=dataflow.forms if len(dataflow.forms) == len(names) else (),
            files=tuple(file for file in files if not is_segment(file.path)),
        )
        return ChainAcknowledgement(
            state=state,
            operators=_operator_states(self._nodes, self.chain, finished=cut.ended),
            channels=channel_states(cut, files),
            sources=tuple(self._source(uid, positions.get(uid)) for uid in self._nodes.sources),
            sinks=tuple(SinkState(uid=uid, committables=cut.committables.get(uid, ())) for uid in self._nodes.sinks),
            metrics=metrics,
        )

    def _source(self, uid: OperatorUid, position: JsonValue) -> SourceState:
        known = self._topics.get(uid)
        ids = {} if known is None else known.check(topic_offsets(position))
        return SourceState(uid=uid, position=position, end=self._chain.dataflow.ends.get(uid), ids=ids)

    def _positions(self, held: Hold) -> dict[OperatorUid, JsonValue]:
        offsets = read_offsets(held.directory, held.files.batch).offsets()
        return {
            uid: json.loads(offset)
            for uid, (_, offset) in zip(self._chain.dataflow.sources, offsets, strict=True)
            if offset != VOID_OFFSET
        }


class FinishedChain:
    """The part of a chain that was finished before this epoch: it never runs again.

    Args:
        state: the chain in the restored snapshot.
        sources: the ends of its sources.
    """

    def __init__(self, state: ChainState, nodes: Nodes, sources: Iterable[SourceState]) -> None:
        # Its state has no readers any more.
        self._state = state.model_copy(update={"files": ()})
        self._nodes = nodes
        self._sources = tuple(each for each in sources if each.uid in nodes.sources)

    def acknowledge(
        self,
        checkpoint: CheckpointId,
        cut: ChainCut,
        *,
        directory: Path,
        target: Target,
        progress: Progress,
    ) -> ChainAcknowledgement:
        """Return the acknowledgement: the chain's part of the restored snapshot."""
        return ChainAcknowledgement(
            state=self._state,
            operators=_operator_states(self._nodes, self._state.uid, finished=True),
            channels=channel_states(cut, ()),
            sources=self._sources,
            sinks=tuple(SinkState(uid=uid) for uid in self._nodes.sinks),
            metrics=AcknowledgementMetrics(start_delay=cut.start_delay, unaligned=cut.unaligned),
        )


Acknowledges: TypeAlias = Acknowledger | FinishedChain
"""A chain's part in checkpoints."""


def _known(watermark_ms: int) -> int | None:
    return watermark_ms if watermark_ms > NO_WATERMARK_MS else None


def _operator_states(nodes: Nodes, chain: ChainUid, *, finished: bool) -> tuple[OperatorState, ...]:
    return tuple(OperatorState(uid=uid, chain=chain, finished=finished) for uid in nodes.all)
