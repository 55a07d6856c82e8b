"""The state and positions that a chain takes over from a snapshot, possibly from chains with other names."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamjob.comparison.compatibility import Restored
from streamjob.comparison.snapshot_job import inputs_read
from streamjob.errors import CannotRestore
from streamjob.ids import NO_BATCH, ChainUid, OperatorUid
from streamjob.job.planning.plan import ChainPlan
from streamjob.snapshot.manifest import ChainState, FileRef
from streamjob.store.effects import Locate
from streamjob_runtime.chain.chain import ChainStart
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.discovery.files_read import ReadByAll, files_read
from streamjob_runtime.kafka.positions import read_offsets as by_partition
from streamjob_runtime.restoring.download import download
from streamjob_runtime.spark.checkpoint_dir.forced_batch import NO_WATERMARK_MS, is_followed_by_flush
from streamjob_runtime.spark.checkpoint_dir.graft import GraftedInput, graft_inputs
from streamjob_runtime.spark.checkpoint_dir.logs import VOID_OFFSET, read_offsets
from streamjob_runtime.spark.checkpoint_dir.relocate import relocate
from streamjob_runtime.spark.checkpoint_dir.rewind import rewind_event_time

Wanted = Callable[[str], bool]
"""Decides by a file's path whether it is needed."""


class SourceReadDifferently(CannotRestore):
    """A source was read twice in a query, from two positions, and is read less often in the new one."""


@dataclass(frozen=True, slots=True)
class _FormerInput:
    """A line in the offset log of a snapshot's chain: its number, its directory below `sources/`, its offset."""

    line: int
    directory: int
    offset: str


class Takeover:
    """The take-over of one chain of the job.

    Args:
        checkpoint: its directory for Spark's checkpoint.
        location: the URI by which Spark opens that.
        beside: a directory for files from other chains of the snapshot.
    """

    def __init__(self, restored: Restored, chain: ChainPlan, checkpoint: Path, location: str, beside: Path) -> None:
        self._restored = restored
        self._chain = chain
        self._checkpoint = checkpoint
        self._location = location
        self._beside = beside
        self._origin = restored.origin(chain.uid)
        # Positions of these mean nothing to another process.
        self._anew = {each.uid for each in chain.sources if not each.replayable}
        base = restored.base(chain.uid)
        self.state: ChainState | None = (
            None if base is None or base.batch == NO_BATCH or self._origin.finished else base
        )

    def download(self, locate: Locate, candidates: Sequence[Path], wanted: Wanted | None = None) -> None:
        """Download the files. Raises the errors of `streamjob_runtime.restoring.download.download`."""
        state = self.state
        if state is None:
            return
        download(
            [file for file in state.files if wanted is None or wanted(file.path)], locate, self._checkpoint, candidates
        )
        relocate(self._checkpoint, self._location)
        if self._restored.manifest.drained or is_followed_by_flush(self._checkpoint, state.batch):
            rewind_event_time(
                self._checkpoint, state.batch, NO_WATERMARK_MS if state.watermark is None else state.watermark
            )
        for other in self._others():
            files = [file for file in other.files if _tells_positions(file, other)]
            download(files, locate, self._beside / other.uid)

    def start(self, dataflow: Dataflow) -> ChainStart:
        """Return where the chain begins; each input has the watermark of the chain that read it in the snapshot."""
        if self.state is None:
            return ChainStart(self._checkpoint, self._location)
        watermarks, partitions = {}, {}
        for chain in (self.state, *self._others()):
            for each in chain.inputs:
                if each.uid in dataflow.sources and each.watermark_ms is not None:
                    watermarks[each.uid] = each.watermark_ms
                if each.uid in dataflow.sources:
                    partitions[each.uid] = by_partition(each.partitions)
        return ChainStart(self._checkpoint, self._location, self.state.batch, watermarks, partitions)

    def files_read(
        self, uid: OperatorUid, sources: Sequence[OperatorUid], directories: Sequence[int]
    ) -> Container[str]:
        """Return the files that a source has read, given the sources and directories of the new query."""
        holder = self._holder(uid)
        if holder is None:
            return ()
        chain, checkpoint = holder
        lines = self._lines(chain, checkpoint, sources, directories)
        each = [files_read(checkpoint, line.line, chain.batch, line.directory) for line in lines.get(uid, [])]
        return ReadByAll(each)

    def log(self, uid: OperatorUid) -> Path | None:
        """Return the directory below `sources/` with what a source had there; None if there is none."""
        holder = self._holder(uid)
        if holder is None:
            return None
        chain, checkpoint = holder
        return next(
            (checkpoint / "sources" / str(line.directory) for line in self._lines(chain, checkpoint).get(uid, [])), None
        )

    def graft_inputs(self, dataflow: Dataflow) -> bool:
        """Give the checkpoint the inputs of the new query, by uid; return whether that changed anything.

        Raises:
            SourceReadDifferently: a source was at two positions, but has to be read from one.
        """
        state = self.state
        if state is None or not self.needs_graft(dataflow):
            return False
        grafted: list[GraftedInput] = []
        taken: dict[OperatorUid, int] = {}
        for uid, directory in zip(dataflow.sources, dataflow.directories, strict=True):
            producer = dataflow.channels.get(uid)
            if producer is not None:
                grafted.append(GraftedInput(directory, f'{{"pos":{self._origin.consumed.get(producer, 0)}}}'))
                continue
            holder = self._holder(uid)
            if holder is None:
                grafted.append(GraftedInput(directory, VOID_OFFSET))
                continue
            chain, checkpoint = holder
            line = self._line(uid, dataflow, taken.setdefault(uid, 0), self._lines(chain, checkpoint)[uid])
            taken[uid] += 1
            grafted.append(GraftedInput(directory, line.offset, checkpoint / "sources" / str(line.directory)))
        graft_inputs(self._checkpoint, state.batch, grafted)
        return True

    def needs_graft(self, dataflow: Dataflow) -> bool:
        """Return whether the query has other inputs, or other state, than its checkpoint."""
        if self.state is None:
            return False
        # A former source may now be a chain with the same uid. And the chain's input channels may have been read by
        # another chain, up to another position.
        before = inputs_read(self._restored.manifest, self.state)
        now = {uid: self._origin.consumed.get(producer, 0) for uid, producer in dataflow.channels.items()}
        same = before == tuple((uid, now.get(uid)) for uid in dataflow.sources) and not self._anew
        return not same or bool(tuple(self._others())) or self._origin.state is not None

    def _line(self, uid: OperatorUid, dataflow: Dataflow, taken: int, lines: Sequence[_FormerInput]) -> _FormerInput:
        if len({line.offset for line in lines}) == 1:
            return lines[min(taken, len(lines) - 1)]
        if dataflow.sources.count(uid) != len(lines):
            raise SourceReadDifferently(
                f"Source {uid!r} was read at {len(lines)} places of a query, and had been read differently far at each",
                "start from a snapshot that was taken while the job had read all input",
            )
        return lines[taken]

    def _holder(self, uid: OperatorUid) -> tuple[ChainState, Path] | None:
        """Return the snapshot's chain that has read a source, and the location of its files."""
        chain = None if uid in self._anew else self._origin.positions.get(uid)
        if chain is None or self.state is None:
            return None
        if chain == self.state.uid:
            return self.state, self._checkpoint
        return next((other, self._beside / other.uid) for other in self._others() if other.uid == chain)

    def _others(self) -> Iterator[ChainState]:
        """Yield the snapshot's other chains whose sources the chain continues to read."""
        if self.state is None:
            return
        uids: dict[ChainUid, None] = dict.fromkeys(self._origin.positions.values())
        for chain in self._restored.manifest.chains:
            if chain.uid in uids and chain.uid != self.state.uid and chain.batch != NO_BATCH:
                yield chain

    def _lines(
        self,
        chain: ChainState,
        checkpoint: Path,
        sources: Sequence[OperatorUid] = (),
        directories: Sequence[int] = (),
    ) -> dict[OperatorUid, list[_FormerInput]]:
        """Return the lines of a previous offset log by uid."""
        inputs = tuple(each.uid for each in chain.inputs)
        if inputs != tuple(sources):
            directories = _directories(checkpoint, inputs)
        lines: dict[OperatorUid, list[_FormerInput]] = {}
        offsets = read_offsets(checkpoint, chain.batch).offsets()
        for number, (uid, (_, offset)) in enumerate(zip(inputs, offsets, strict=True)):
            lines.setdefault(uid, []).append(_FormerInput(number, directories[number], offset))
        return lines


def _directories(checkpoint: Path, inputs: Sequence[OperatorUid]) -> list[int]:
    """Return the directories of a query's sources: a source read twice has one directory in a union, two in a join."""
    there = {int(each.name) for each in (checkpoint / "sources").glob("[0-9]*")}
    if len(set(inputs)) == len(inputs) or max(there, default=-1) >= len(set(inputs)):
        return list(range(len(inputs)))
    numbers = {uid: number for number, uid in enumerate(dict.fromkeys(inputs))}
    return [numbers[uid] for uid in inputs]


def _tells_positions(file: FileRef, chain: ChainState) -> bool:
    return file.path.startswith("sources/") or file.path == f"offsets/{chain.batch}"
