"""What the chains of an epoch begin with: their part of a snapshot, brought, rewritten, and put where each looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.comparison.compatibility import Restored
from streamjob.comparison.state_forms import same
from streamjob.comparison.verdicts import Finding
from streamjob.ids import NO_BATCH, ChainUid, OperatorUid
from streamjob.job.kafka import FORMAT as KAFKA
from streamjob.job.plan import ChainPlan, Plan
from streamjob.protocol.channels import Entry, EntryKind
from streamjob.protocol.cuts import Emissions
from streamjob.snapshot.manifest import ChainState, FileRef, SourceState
from streamjob_runtime.chain.chain import ChainStart
from streamjob_runtime.chain.channels.in_flight import RestoredLog, restored_log, segment_folder
from streamjob_runtime.chain.dataflow import Dataflow, FilesRead, SourcesBefore
from streamjob_runtime.restoring.download import Locate, download
from streamjob_runtime.restoring.rewriting import RestoredChain, check_beforehand, rewrite_state
from streamjob_runtime.restoring.state_matching import match_state
from streamjob_runtime.restoring.takeover import Takeover, Wanted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Workdir:
    """The local directory of an epoch.

    Args:
        root: the epoch's own directory.
        held: the files that the epoch before still holds of the snapshot, a directory per chain; None if there are
            none.
    """

    root: Path
    held: Path | None

    @property
    def holds(self) -> Path:
        """Where checkpoints hold their files."""
        return self.root / "holds"

    def checkpoint(self, chain: ChainUid) -> Path:
        """Return Spark's checkpoint directory of a chain."""
        return self.root / chain / "checkpoint"

    def beside(self, chain: ChainUid) -> Path:
        """Return the directory for what a chain takes over from other chains of a snapshot."""
        return self.root / chain / "beside"

    def segments(self, chain: ChainUid) -> Path:
        """Return the directory of a chain's stream."""
        return self.root / chain / "stream"

    def candidates(self, chain: ChainUid) -> list[Path]:
        """Return where files of a chain may be found locally."""
        return [self.held / chain] if self.held else []


class Restoration:
    """What the chains of a plan take over from a snapshot.

    Args:
        plan: the job's chains.
        restored: the snapshot; None for a fresh start.
        workdir: the epoch's directory.
    """

    def __init__(self, plan: Plan, restored: Restored | None, workdir: Workdir) -> None:
        self._plan = plan
        self._restored = restored
        self._workdir = workdir
        self._states = {chain.uid: restored.base(chain.uid) if restored else None for chain in plan.chains}
        self._takeovers = {
            chain.uid: Takeover(restored, chain, workdir.checkpoint(chain.uid), workdir.beside(chain.uid))
            for chain in plan.chains
            if restored is not None
        }
        self._logs = {chain.uid: self._log(chain.uid) for chain in plan.chains}

    def download(self, locate: Locate, wanted: Wanted | None = None) -> None:
        """Bring the files of the snapshot into the epoch's directory.

        Args:
            locate: finds the objects of the snapshot.
            wanted: only these files of Spark's checkpoints, and nothing of what is in flight; None for all.

        Raises:
            SnapshotFileMissing, SnapshotFileCorrupt: the snapshot cannot be used.
            StoreError: the store failed.
        """
        for chain in self._plan.chains:
            if (takeover := self._takeovers.get(chain.uid)) is not None:
                takeover.download(locate, self._workdir.candidates(chain.uid), wanted)
            log = self._logs[chain.uid]
            if log is not None and log.files and wanted is None:
                holders = (*self._plan.readers(chain.uid), chain.uid)
                candidates = [path for holder in holders for path in self._candidates(holder, chain.uid)]
                files = [_named(file) for file in log.files]
                download(files, locate, self._workdir.segments(chain.uid), candidates)

    def rewrite_state(self, spark: SparkSession, partitions: int) -> None:
        """Give the state that was brought that many partitions; nothing is done if it has them.

        Raises:
            StateNotRewritable: state of some operator cannot be rewritten; nothing was.
            StateRewrittenWrongly: what was rewritten is not what it was.
        """
        running = {uid: each.state for uid, each in self._takeovers.items() if each.state is not None}
        for uid, batch in rewrite_state(spark, self._to_rewrite(), partitions).items():
            self._states[uid] = self._takeovers[uid].state = running[uid].model_copy(update={"batch": batch})

    def check_rewriting(self, partitions: int) -> None:
        """Check whether the state could be given that many partitions, by what describes it alone.

        Raises:
            StateNotRewritable: state of some operator could not.
        """
        check_beforehand(self._to_rewrite(), partitions)

    def _to_rewrite(self) -> list[RestoredChain]:
        running = {uid: each.state for uid, each in self._takeovers.items() if each.state is not None}
        return [RestoredChain(uid, self._workdir.checkpoint(uid), state.batch) for uid, state in running.items()]

    def match_state(
        self, spark: SparkSession, graph: Mapping[str, Any], chain: ChainPlan, dataflow: Dataflow
    ) -> tuple[Finding, ...]:
        """Put what a chain takes over where its query looks for it; return the findings on state that may not fit.

        Args:
            spark: the session.
            graph: the job's graph.
            chain: the chain, whose files were brought.
            dataflow: its query.

        Raises:
            CannotRestore: an input cannot be read on.
        """
        takeover, restored = self._takeovers.get(chain.uid), self._restored
        if takeover is None or takeover.state is None or restored is None:
            return ()
        takeover.graft_inputs(dataflow)
        if not self._is_in_doubt(restored, takeover.state, chain.uid, dataflow):
            return ()
        checkpoint = self._workdir.checkpoint(chain.uid)
        return match_state(spark, graph, restored, takeover.state, chain, dataflow, checkpoint)

    def _is_in_doubt(self, restored: Restored, state: ChainState, chain: ChainUid, dataflow: Dataflow) -> bool:
        """Return whether state has to be compared with what the query keeps: mostly nothing has changed."""
        if chain in restored.undecided or restored.origin(chain).state is not None:
            return True
        # This process has run the same job: what it held, it made.
        return self._workdir.held is None and bool(state.forms) and not same(state.forms, dataflow.forms)

    def start(self, chain: ChainUid, dataflow: Dataflow) -> ChainStart:
        """Return where a chain begins."""
        takeover = self._takeovers.get(chain)
        return ChainStart(self._workdir.checkpoint(chain)) if takeover is None else takeover.start(dataflow)

    def restore(self, emissions: Emissions, chain: ChainUid) -> None:
        """Let a chain and its stream begin where the snapshot has them."""
        state, log, restored = self._states[chain], self._logs[chain], self._restored
        if restored is None:
            return
        batch = NO_BATCH if state is None else state.batch
        emissions.restore(chain, batch, consumed=restored.origin(chain).consumed)
        if log is not None:
            emissions.restore_log(chain, log.entries, log.next, log.ended, restored.manifest.id)
        elif self.is_finished(chain):
            emissions.restore_log(chain, (), 0, True, restored.manifest.id)

    def log(self, chain: ChainUid) -> RestoredLog | None:
        """Return the stream of a chain as its readers left it; None if the snapshot has none."""
        return self._logs[chain]

    def begin(self, consumer: ChainUid, producer: ChainUid) -> int:
        """Return where a consumer reads from that has never read the stream."""
        return 0 if self._restored is None else self._restored.origin(consumer).consumed.get(producer, 0)

    def is_finished(self, chain: ChainUid) -> bool:
        """Return whether a chain's work was done for good."""
        return self._restored is not None and self._restored.finished(chain)

    def state(self, chain: ChainUid) -> ChainState | None:
        """Return the state that a chain takes over; None if it starts without state."""
        return self._states[chain]

    @property
    def sources(self) -> tuple[SourceState, ...]:
        """How far the sources were read."""
        return () if self._restored is None else self._restored.manifest.sources

    def sources_before(self, chain: ChainPlan) -> SourcesBefore:
        """Return what the snapshot says of the sources of a chain."""
        # What comes from another chain may have the uid of a source, too, but is not read as one here.
        uids = {source.uid for source in chain.sources}
        sources = [each for each in self.sources if each.uid in uids]
        finished = self.is_finished(chain.uid)
        taken = () if self._restored is None else self._restored.origin(chain.uid).positions
        return SourcesBefore(
            ends={each.uid: each.end for each in sources if each.end is not None},
            positions={each.uid: each.position for each in sources if finished or each.uid in taken},
            files_read=self._files_read(chain),
            finished=finished,
        )

    def _files_read(self, chain: ChainPlan) -> FilesRead:
        bounded = {each.uid for each in chain.sources if each.bounded and each.format != KAFKA}

        def read(
            sources: tuple[OperatorUid, ...], directories: tuple[int, ...]
        ) -> Mapping[OperatorUid, frozenset[str]]:
            takeover = self._takeovers.get(chain.uid)
            if takeover is None:
                return {}
            return {uid: takeover.files_read(uid, sources, directories) for uid in bounded if uid in sources}

        return read

    def _candidates(self, reader: ChainUid, producer: ChainUid) -> list[Path]:
        return [path / segment_folder(producer) for path in self._workdir.candidates(reader)]

    def _log(self, chain: ChainUid) -> RestoredLog | None:
        if self._restored is None:
            return None
        channels = [each for each in self._restored.manifest.channels if each.source == chain]
        if channels:
            return restored_log(channels)
        if self.is_finished(chain) and self._plan.readers(chain):
            # Whoever reads it only from here on finds that it has ended.
            return RestoredLog(entries=(Entry(index=0, kind=EntryKind.END),), next=1, ended=True, files=())
        return None


def _named(file: FileRef) -> FileRef:
    return file.model_copy(update={"path": Path(file.path).name})
