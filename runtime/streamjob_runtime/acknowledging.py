"""A chain's way from its cut to its acknowledgement: committed by Spark, held by hard links, uploaded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import JsonValue

from streamjob.ids import NO_BATCH, ChainUid, CheckpointId, OperatorUid
from streamjob.protocol.cuts import ChainCut
from streamjob.protocol.messages import AcknowledgementMetrics, ChainAcknowledgement
from streamjob.snapshot.manifest import ChainState, FileRef, InputState, OperatorState, SinkState, SourceState
from streamjob_runtime.chain import Chain
from streamjob_runtime.spark_checkpoint.hold import Hold, hold
from streamjob_runtime.spark_checkpoint.logs import VOID_OFFSET, read_commit, read_offsets
from streamjob_runtime.upload.packing import Identity
from streamjob_runtime.upload.uploader import KeyOf, Progress, UploadCancelled, Uploader

_POLL_SECONDS = 0.005


class Acknowledger:
    """Takes a chain's part of a checkpoint.

    Args:
        chain: the chain.
        operators: uids of everything fused into it: sources, operators, sinks.
        sinks: uids of its sinks.
        uploader: shared by all chains.
        holds: directory for the holds; on the file system of the chain's checkpoint.
    """

    def __init__(
        self,
        chain: Chain,
        operators: tuple[OperatorUid, ...],
        sinks: tuple[OperatorUid, ...],
        uploader: Uploader,
        holds: Path,
    ) -> None:
        self._chain = chain
        self._operators = operators
        self._sinks = sinks
        self._uploader = uploader
        self._holds = holds

    @property
    def chain(self) -> ChainUid:
        """The chain that acknowledges."""
        return self._chain.uid

    def hold_directory(self, checkpoint: CheckpointId) -> Path:
        """Return where the chain's files of a checkpoint are held."""
        return self._holds / str(checkpoint) / self._chain.uid

    def acknowledge(
        self,
        checkpoint: CheckpointId,
        cut: ChainCut,
        *,
        finished: bool,
        known: Mapping[Identity, FileRef],
        key_of: KeyOf,
        progress: Progress,
        sync_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> ChainAcknowledgement:
        """Wait for Spark's commit, hold and upload; return the acknowledgement. Blocks.

        Args:
            checkpoint: the checkpoint.
            cut: where it cut the chain.
            finished: whether the chain's work is done for good.
            known: files that need no upload.
            key_of: names new objects.
            progress: to watch and cancel.
            sync_seconds: how long the cut itself took.
            clock: seconds, for the figures.

        Raises:
            UploadCancelled: `progress.cancel` was called.
            StoreError: the store failed.
            CheckpointError: the chain's Spark checkpoint lacks what the cut needs.
        """
        if cut.batch == NO_BATCH:
            return self._acknowledgement(cut, finished, None, (), AcknowledgementMetrics(sync_duration=sync_seconds))
        while not self._chain.is_committed(cut.batch):
            if progress.cancelled:
                raise UploadCancelled(f"Chain {self.chain!r} had not committed batch {cut.batch} when it was aborted")
            time.sleep(_POLL_SECONDS)
        begun = clock()
        directories = self._chain.dataflow.directories
        held = hold(self._chain.checkpoint, cut.batch, self.hold_directory(checkpoint), directories)
        linked = clock()
        files = self._uploader.upload(held, known, key_of, progress)
        statistics = progress.statistics()
        metrics = AcknowledgementMetrics(
            checkpointed_size=statistics.upload_bytes,
            state_size=statistics.total_bytes,
            sync_duration=sync_seconds + linked - begun,
            async_duration=clock() - linked,
        )
        return self._acknowledgement(cut, finished, held, files, metrics)

    def _acknowledgement(
        self,
        cut: ChainCut,
        finished: bool,
        held: Hold | None,
        files: tuple[FileRef, ...],
        metrics: AcknowledgementMetrics,
    ) -> ChainAcknowledgement:
        dataflow = self._chain.dataflow
        positions = self._positions(held) if held else {}
        watermarks = self._chain.watermarks_behind(cut.batch)
        state = ChainState(
            uid=self.chain,
            operators=self._operators,
            batch=cut.batch,
            watermark=read_commit(held.directory, cut.batch).next_watermark_ms if held else None,
            inputs=tuple(
                InputState(uid=uid, watermark_ms=watermarks.get(uid), ended=finished) for uid in dataflow.sources
            ),
            files=files,
        )
        return ChainAcknowledgement(
            state=state,
            operators=tuple(OperatorState(uid=uid, chain=self.chain, finished=finished) for uid in self._operators),
            sources=tuple(
                SourceState(uid=uid, position=positions.get(uid), end=dataflow.ends.get(uid))
                for uid in dict.fromkeys(dataflow.sources)
            ),
            sinks=tuple(SinkState(uid=uid, committables=cut.committables.get(uid, ())) for uid in self._sinks),
            metrics=metrics,
        )

    def _positions(self, held: Hold) -> dict[OperatorUid, JsonValue]:
        offsets = read_offsets(held.directory, held.files.batch).offsets()
        return {
            uid: json.loads(offset)
            for uid, (_, offset) in zip(self._chain.dataflow.sources, offsets, strict=True)
            if offset != VOID_OFFSET
        }
