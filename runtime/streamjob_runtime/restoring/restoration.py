"""Prepares the start of an epoch's chains: downloads their part of a snapshot, rewrites it, and puts it in place."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.comparison.compatibility import Restored
from streamjob.comparison.state_forms import same, tells_all
from streamjob.comparison.verdicts import Finding
from streamjob.ids import NO_BATCH, ChainUid, OperatorUid
from streamjob.job.connectors.kafka_source import FORMAT as KAFKA
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.plan import ChainPlan, Plan
from streamjob.protocol.emissions.channels import Entry, EntryKind
from streamjob.protocol.emissions.cuts import Emissions
from streamjob.snapshot.manifest import ChainState, FileRef, SourceState
from streamjob.store.effects import Locate
from streamjob_runtime.chain.chain import ChainStart
from streamjob_runtime.chain.channels.in_flight import RestoredLog, restored_log, segment_folder
from streamjob_runtime.chain.dataflow import Dataflow, FilesRead, SourcesBefore
from streamjob_runtime.migrating.watching import MigrationWatch
from streamjob_runtime.restoring.download import download
from streamjob_runtime.restoring.rewriting import RestoredChain, check_beforehand, keep_partitions, rewrite_state
from streamjob_runtime.restoring.state_matching import match_state
from streamjob_runtime.restoring.takeover import Takeover, Wanted
from streamjob_runtime.spark.checkpoint_dir.files import is_uniquely_named
from streamjob_runtime.spark.job_files import JobFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Workdir:
    """The local directory of an epoch.

    Args:
        root: the epoch's own directory.
        held: the snapshot's files that the previous epoch still holds, with a directory per chain; None if there are
            none.
        files: gives directories the names by which Spark knows them.
        at_hand: files of a checkpoint that this process has brought beforehand, with a directory per chain; None if
            there are none.
    """

    root: Path
    held: Path | None
    files: JobFiles
    at_hand: Path | None = None

    @property
    def holds(self) -> Path:
        """The directory in which checkpoints hold their files."""
        return self.root / "holds"

    def checkpoint(self, chain: ChainUid) -> Path:
        """Return Spark's checkpoint directory of a chain."""
        return self.root / chain / "checkpoint"

    def location(self, chain: ChainUid) -> str:
        """Return the URI by which Spark opens its checkpoint of a chain."""
        return self.files.location(self.checkpoint(chain))

    def beside(self, chain: ChainUid) -> Path:
        """Return the directory for state that a chain takes over from other chains of a snapshot."""
        return self.root / chain / "beside"

    def segments(self, chain: ChainUid) -> Path:
        """Return the directory of a chain's stream."""
        return self.root / chain / "stream"

    def segments_location(self, chain: ChainUid) -> str:
        """Return the URI by which executors name their directory of a chain's stream."""
        return self.files.location(self.segments(chain))

    def candidates(self, chain: ChainUid) -> list[Path]:
        """Return the local directories that may contain files of a chain."""
        return [directory / chain for directory in (self.held, self.at_hand) if directory is not None]


@dataclass(frozen=True, slots=True)
class RestoredSegments:
    """The segments of one chain that were in flight in a snapshot.

    Args:
        files: the files in the store; their paths are those of snapshots.
        holders: the chains whose holds may have them.
    """

    files: tuple[FileRef, ...]
    holders: tuple[ChainUid, ...]


class Restoration:
    """The state that a plan's chains take over from a snapshot.

    Args:
        restored: the snapshot; None for a fresh start.
        failed_before: whether an epoch of this process has failed from the same snapshot, so that its state may be the
            reason.
        state_elsewhere: whether other processes bring the files of state and the segments of channels, so that this
            one has none of them.
        watch: is told of the changes of state to new forms.
    """

    def __init__(
        self,
        plan: Plan,
        restored: Restored | None,
        workdir: Workdir,
        *,
        failed_before: bool = False,
        state_elsewhere: bool = False,
        watch: MigrationWatch | None = None,
    ) -> None:
        self._watch = watch or MigrationWatch()
        self._state_elsewhere = state_elsewhere
        self._described_only = False
        self._plan = plan
        self._failed_before = failed_before
        self._restored = restored
        self._workdir = workdir
        self._states = {chain.uid: restored.base(chain.uid) if restored else None for chain in plan.chains}
        self._takeovers = {
            chain.uid: Takeover(
                restored,
                chain,
                workdir.checkpoint(chain.uid),
                workdir.location(chain.uid),
                workdir.beside(chain.uid),
            )
            for chain in plan.chains
            if restored is not None
        }
        self._logs = {chain.uid: self._log(chain.uid) for chain in plan.chains}

    def state_files(self) -> Mapping[ChainUid, tuple[ChainUid, tuple[FileRef, ...]]]:
        """Return the files of state of the chains that continue: by chain, the snapshot's chain and its files."""
        return {
            uid: (each.state.uid, tuple(file for file in each.state.files if is_uniquely_named(file.path)))
            for uid, each in self._takeovers.items()
            if each.state is not None
        }

    def segments(self) -> Mapping[ChainUid, RestoredSegments]:
        """Return the segments in flight, by the chain that wrote them."""
        return {
            chain: RestoredSegments(log.files, (*self._plan.readers(chain), chain))
            for chain, log in self._logs.items()
            if log is not None and log.files
        }

    def download(self, locate: Locate, wanted: Wanted | None = None) -> None:
        """Download the snapshot's files to the epoch's directory.

        Args:
            locate: finds the objects of the snapshot.
            wanted: selects files of Spark's checkpoints, and excludes in-flight data; None for everything.

        Raises:
            SnapshotFileMissing, SnapshotFileCorrupt: the snapshot is unusable.
            StoreError: the store failed.
        """
        self._described_only = wanted is not None
        for chain in self._plan.chains:
            if (takeover := self._takeovers.get(chain.uid)) is not None:
                chosen = _without_state if self._state_elsewhere and wanted is None else wanted
                takeover.download(locate, self._workdir.candidates(chain.uid), chosen)
        if wanted is not None or self._state_elsewhere:
            return
        for uid, segments in self.segments().items():
            held = (path for holder in segments.holders for path in self._workdir.candidates(holder))
            candidates = [path / segment_folder(uid) for path in held]
            download([_named(file) for file in segments.files], locate, self._workdir.segments(uid), candidates)

    def rewrite_state(self, spark: SparkSession, partitions: int) -> None:
        """Rewrite the downloaded state for the given number of partitions; do nothing if it has that number.

        Raises:
            StateNotRewritable: the state of an operator cannot be rewritten; nothing was rewritten.
            StateRewrittenWrongly: rewritten state differs from the original.
        """
        if self._state_elsewhere:
            keep_partitions(self._to_rewrite(), partitions)
            return
        running = {uid: each.state for uid, each in self._takeovers.items() if each.state is not None}
        for uid, batch in rewrite_state(spark, self._to_rewrite(), partitions).items():
            self._states[uid] = self._takeovers[uid].state = running[uid].model_copy(update={"batch": batch})

    def check_rewriting(self, partitions: int) -> None:
        """Check from the descriptions alone whether the state could be rewritten for the given number of partitions.

        Raises:
            StateNotRewritable: the state of an operator could not be rewritten.
        """
        check_beforehand(self._to_rewrite(), partitions)

    def _to_rewrite(self) -> list[RestoredChain]:
        running = {uid: each.state for uid, each in self._takeovers.items() if each.state is not None}
        return [
            RestoredChain(uid, self._workdir.checkpoint(uid), self._workdir.location(uid), state.batch)
            for uid, state in running.items()
        ]

    def match_state(
        self, spark: SparkSession, spec: JobSpec, graph: Mapping[str, Any], chain: ChainPlan, dataflow: Dataflow
    ) -> tuple[Finding, ...]:
        """Put a chain's state where its query looks for it; return findings about state that may not fit.

        Args:
            chain: the chain; its files must have been downloaded.

        Raises:
            CannotRestore: an input cannot be continued.
        """
        takeover, restored = self._takeovers.get(chain.uid), self._restored
        if takeover is None or takeover.state is None or restored is None:
            return ()
        takeover.graft_inputs(dataflow)
        if not self._is_in_doubt(restored, takeover.state, chain.uid, dataflow):
            return ()
        checkpoint, location = self._workdir.checkpoint(chain.uid), self._workdir.location(chain.uid)
        return match_state(
            spark,
            graph,
            restored,
            takeover.state,
            chain,
            dataflow,
            checkpoint,
            location,
            spec,
            watch=self._watch,
            described_only=self._described_only,
            state_elsewhere=self._state_elsewhere,
        )

    def _is_in_doubt(self, restored: Restored, state: ChainState, chain: ChainUid, dataflow: Dataflow) -> bool:
        """Return whether state has to be compared with the query's: usually nothing has changed."""
        if chain in restored.undecided or restored.origin(chain).state is not None or self._failed_before:
            return True
        if restored.allow and self._workdir.held is None:
            # State that does not fit is to be dropped now, and not behind a failure that Spark's first batch would be.
            return True
        # This process has run the same job, and has created the held files itself.
        if self._workdir.held is not None or not state.forms:
            return False
        return not same(state.forms, dataflow.forms) or not all(map(tells_all, dataflow.forms))

    def start(self, chain: ChainUid, dataflow: Dataflow) -> ChainStart:
        """Return the starting point of a chain."""
        takeover = self._takeovers.get(chain)
        if takeover is None:
            return ChainStart(self._workdir.checkpoint(chain), self._workdir.location(chain))
        return takeover.start(dataflow)

    def restore(self, emissions: Emissions, chain: ChainUid) -> None:
        """Start a chain and its stream as in the snapshot."""
        state, log, restored = self._states[chain], self._logs[chain], self._restored
        if restored is None:
            return
        batch = NO_BATCH if state is None else state.batch
        emissions.restore(chain, batch, consumed=self._positions(restored, chain))
        if log is not None:
            emissions.restore_log(chain, log.entries, log.next, log.ended, restored.manifest.id)
        elif self.is_finished(chain):
            emissions.restore_log(chain, (), 0, True, restored.manifest.id)

    def _positions(self, restored: Restored, consumer: ChainUid) -> Mapping[ChainUid, int]:
        """Return a consumer's positions in the streams that it reads; at their ends if its work was done for good."""
        origin = restored.origin(consumer)
        if not origin.finished:
            return origin.consumed
        # It runs no batch that could read the end of a new stream, whose rows it has read inside one chain before.
        return {each: log.next for each in origin.consumed if (log := self._logs[each]) is not None}

    def log(self, chain: ChainUid) -> RestoredLog | None:
        """Return the stream of a chain as its readers left it; None if the snapshot has none."""
        return self._logs[chain]

    def begin(self, consumer: ChainUid, producer: ChainUid) -> int:
        """Return the position of a consumer that has never read the stream."""
        return 0 if self._restored is None else self._positions(self._restored, consumer).get(producer, 0)

    def is_finished(self, chain: ChainUid) -> bool:
        """Return whether a chain's work was done for good."""
        return self._restored is not None and self._restored.finished(chain)

    def state(self, chain: ChainUid) -> ChainState | None:
        """Return the state that a chain takes over; None if it starts without state."""
        return self._states[chain]

    @property
    def restored(self) -> Restored | None:
        """The snapshot; None for a fresh start."""
        return self._restored

    @property
    def sources(self) -> tuple[SourceState, ...]:
        """The positions of the sources."""
        return () if self._restored is None else self._restored.manifest.sources

    def sources_before(self, chain: ChainPlan) -> SourcesBefore:
        """Return the snapshot's data about a chain's sources."""
        # An input from another chain may have the uid of a source, but is not read as one here.
        uids = {source.uid for source in chain.sources}
        sources = [each for each in self.sources if each.uid in uids]
        finished = self.is_finished(chain.uid)
        takeover = self._takeovers.get(chain.uid)
        taken = () if self._restored is None else self._restored.origin(chain.uid).positions
        return SourcesBefore(
            ends={each.uid: each.end for each in sources if each.end is not None},
            positions={each.uid: each.position for each in sources if finished or each.uid in taken},
            files_read=self._files_read(chain),
            finished=finished,
            log=lambda uid: None if takeover is None else takeover.log(uid),
        )

    def _files_read(self, chain: ChainPlan) -> FilesRead:
        bounded = {each.uid for each in chain.sources if each.bounded and each.format != KAFKA}

        def read(
            sources: tuple[OperatorUid, ...], directories: tuple[int, ...]
        ) -> Mapping[OperatorUid, Container[str]]:
            takeover = self._takeovers.get(chain.uid)
            if takeover is None:
                return {}
            return {uid: takeover.files_read(uid, sources, directories) for uid in bounded if uid in sources}

        return read

    def _log(self, chain: ChainUid) -> RestoredLog | None:
        if self._restored is None:
            return None
        channels = [each for each in self._restored.manifest.channels if each.source == chain]
        if channels:
            return restored_log(channels)
        if self.is_finished(chain) and self._plan.readers(chain):
            # A reader that starts here finds that it has ended.
            return RestoredLog(entries=(Entry(index=0, kind=EntryKind.END),), next=1, ended=True, files=())
        return None


def _without_state(path: str) -> bool:
    return not is_uniquely_named(path)


def _named(file: FileRef) -> FileRef:
    return file.model_copy(update={"path": Path(file.path).name})
