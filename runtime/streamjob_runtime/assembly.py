"""Puts the chains of an epoch together: restored files, streams between them, queries, and who acknowledges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from streamjob.errors import InvalidInput
from streamjob.ids import NO_BATCH, ChainUid, OperatorUid
from streamjob.job.graph import graph_of
from streamjob.job.load import LoadedJob
from streamjob.job.plan import ChainPlan, Plan
from streamjob.protocol.cuts import Publications
from streamjob.snapshot.manifest import FileRef
from streamjob.stored.compatibility import Restored
from streamjob.stored.verdicts import Finding
from streamjob_runtime.acknowledging import Acknowledger, Acknowledges, FinishedChain, Nodes
from streamjob_runtime.chain import Chain, ChainStart, StatusListener
from streamjob_runtime.channels.in_flight import RestoredLog, restored_log, segment_folder
from streamjob_runtime.channels.stream import SEGMENT_RECORDS, Reading, Stream
from streamjob_runtime.clock import Clock
from streamjob_runtime.dataflow import Dataflow, DataflowBuilder, FilesRead
from streamjob_runtime.download import Locate, download
from streamjob_runtime.feedback import check_declared, declared
from streamjob_runtime.judging import settle_state
from streamjob_runtime.outputs import ChainOutput, Outputs
from streamjob_runtime.publication import Publication
from streamjob_runtime.rewriting import RestoredChain, rewrite_state
from streamjob_runtime.takeover import Takeover, Wanted
from streamjob_runtime.watermarks import event_time_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ColumnsOfOneName(InvalidInput):
    """What a chain hands to others has two columns of one name."""


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


@dataclass(frozen=True)
class Assembled:
    """The chains of an epoch, ready to start; `finished` are those whose work was done before."""

    chains: Mapping[ChainUid, Chain]
    finished: frozenset[ChainUid]
    acknowledgers: Mapping[ChainUid, Acknowledges]
    publication: Publication
    streams: Mapping[ChainUid, Stream]

    def close(self) -> None:
        """Forget the streams; the chains have been stopped."""
        for stream in self.streams.values():
            stream.close()


class Assembler:
    """Builds what runs in an epoch.

    Args:
        loaded: the job.
        plan: its chains.
        restored: the snapshot that the epoch starts from; None for a fresh start.
        workdir: the epoch's directory.
        clock: seconds since 1970.
    """

    def __init__(
        self, loaded: LoadedJob, plan: Plan, restored: Restored | None, workdir: Workdir, clock: Clock
    ) -> None:
        self._loaded = loaded
        self._plan = plan
        self._restored = restored
        self._workdir = workdir
        self._clock = clock
        self._states = {chain.uid: restored.base(chain.uid) if restored else None for chain in plan.chains}
        self._takeovers = {
            chain.uid: Takeover(restored, chain, workdir.checkpoint(chain.uid), workdir.beside(chain.uid))
            for chain in plan.chains
            if restored is not None
        }
        self._streams: dict[ChainUid, Stream] = {}
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
        chains = [RestoredChain(uid, self._workdir.checkpoint(uid), state.batch) for uid, state in running.items()]
        for uid, batch in rewrite_state(spark, chains, partitions).items():
            self._states[uid] = self._takeovers[uid].state = running[uid].model_copy(update={"batch": batch})

    def _candidates(self, reader: ChainUid, producer: ChainUid) -> list[Path]:
        return [path / segment_folder(producer) for path in self._workdir.candidates(reader)]

    def build(
        self,
        spark: SparkSession,
        outputs: Outputs,
        on_status: StatusListener,
        on_first_output: Callable[[], None],
    ) -> Assembled:
        """Return the chains; nothing runs yet.

        Args:
            spark: the session.
            outputs: the job's sinks, opened.
            on_status: see `Chain`.
            on_first_output: see `Chain`.

        Raises:
            InvalidInput: Spark refuses a part of the job; the error names it.
            CannotRestore: files of a bounded source are gone.
        """
        plan = self._plan
        publications = Publications(
            [chain.uid for chain in plan.chains],
            [(channel.source, channel.target) for channel in plan.channels],
            feedback=[(channel.source, channel.target) for channel in plan.channels if channel.feedback],
            clock=self._clock,
        )
        finished = frozenset(chain.uid for chain in plan.chains if self._is_finished(chain.uid))
        streams = self._streams
        publication = Publication(publications, self._loaded.spec.channels)
        chains: dict[ChainUid, Chain] = {}
        acknowledgers: dict[ChainUid, Acknowledges] = {}
        for chain, dataflow in self._dataflows(spark):
            self._restore(publications, chain.uid)
            nodes = _nodes(chain)
            state = self._states[chain.uid]
            if chain.uid in finished and state is not None and self._restored is not None:
                sources = self._restored.manifest.sources
                own = state.model_copy(update={"uid": chain.uid, "operators": nodes.all})
                acknowledgers[chain.uid] = FinishedChain(own, nodes, sources)
                continue
            chains[chain.uid] = made = Chain(
                uid=chain.uid,
                spark=spark,
                dataflow=dataflow,
                output=ChainOutput(outputs.of(nodes.sinks), streams.get(chain.uid)),
                read_by_others=chain.uid in streams,
                in_loop=bool(chain.loop),
                bounded=chain.bounded,
                checkpoint=self._workdir.checkpoint(chain.uid),
                publication=publication,
                start=self._take_over(spark, chain, dataflow),
                clock_ms=lambda: round(self._clock() * 1000),
                on_status=on_status,
                on_first_output=on_first_output,
            )
            streams_at_hand = {chain.uid, *(channel.source for channel in chain.channels)}
            segments = {producer: self._workdir.segments(producer) for producer in streams_at_hand}
            acknowledgers[chain.uid] = Acknowledger(made, nodes, segments, publication)
        return Assembled(chains, finished, acknowledgers, publication, streams)

    def _restore(self, publications: Publications, chain: ChainUid) -> None:
        state, log, restored = self._states[chain], self._logs[chain], self._restored
        if restored is None:
            return
        batch = NO_BATCH if state is None else state.batch
        publications.restore(chain, batch, {}, {}, consumed=restored.origin(chain).consumed)
        if log is not None:
            publications.restore_log(chain, log.entries, log.next, log.ended, restored.manifest.id)
        elif self._is_finished(chain):
            publications.restore_log(chain, (), 0, True, restored.manifest.id)

    def judge(self, spark: SparkSession) -> tuple[Finding, ...]:
        """Return what Spark finds of the state that the chains take over; the epoch is of no use then.

        Raises:
            InvalidInput: Spark refuses a part of the job; the error names it.
            CannotRestore: files of a bounded source are gone.
        """
        try:
            return tuple(
                finding
                for chain, dataflow in self._dataflows(spark)
                for finding in self._settle(spark, chain, dataflow)
            )
        finally:
            for stream in self._streams.values():
                stream.close()

    def _dataflows(self, spark: SparkSession) -> Iterator[tuple[ChainPlan, Dataflow]]:
        plan, streams = self._plan, self._streams
        readings: dict[tuple[ChainUid, str], Reading] = {}
        for chain in plan.chains:
            if plan.feeds_back(chain.uid):
                streams[chain.uid] = self._open_stream(spark, chain)
                readings.update(self._feedback_readings(chain, streams[chain.uid]))
        for chain in plan.chains:
            dataflow = self._dataflow(spark, chain, readings)
            if plan.readers(chain.uid):
                if chain.uid not in streams:
                    streams[chain.uid] = self._open_stream(spark, chain)
                self._let_read(streams[chain.uid], chain, dataflow.output, readings)
            yield chain, dataflow

    def _take_over(self, spark: SparkSession, chain: ChainPlan, dataflow: Dataflow) -> ChainStart:
        for finding in self._settle(spark, chain, dataflow):
            if finding.refusal is not None:
                raise finding.refusal
        takeover = self._takeovers.get(chain.uid)
        return ChainStart() if takeover is None else takeover.start(dataflow)

    def _settle(self, spark: SparkSession, chain: ChainPlan, dataflow: Dataflow) -> tuple[Finding, ...]:
        """Put what a chain takes over where its query looks for it; return what came of the state that may not fit."""
        takeover, restored = self._takeovers.get(chain.uid), self._restored
        if takeover is None or takeover.state is None or restored is None:
            return ()
        takeover.graft_inputs(dataflow)
        if chain.uid not in restored.undecided and restored.origin(chain.uid).state is None:
            return ()
        graph = graph_of(self._loaded.spec)
        place = self._workdir.checkpoint(chain.uid)
        return settle_state(spark, graph, restored, takeover.state, chain, dataflow, place)

    def _open_stream(self, spark: SparkSession, chain: ChainPlan) -> Stream:
        log = self._logs[chain.uid]
        base = 0 if log is None else log.next - len(log.entries)
        directory = self._workdir.segments(chain.uid)
        # A segment is read by one task as a whole: a batch that is to be small has to find small ones, for every slot.
        share = self._loaded.spec.channels.max_batch_records // self._loaded.spec.parallelism
        records = max(1, min(SEGMENT_RECORDS, share))
        stream = Stream(spark, str(directory), directory, base, segment_records=records)
        stream.extend(base, [entry.segments for entry in log.entries] if log is not None else [])
        return stream

    def _feedback_readings(self, chain: ChainPlan, stream: Stream) -> dict[tuple[ChainUid, str], Reading]:
        """Return how chains read what comes back to them, before it is known what makes it."""
        return {
            (channel.target, channel.name): stream.reader(channel.target, declared(channel))
            for channel in self._plan.channels
            if channel.feedback and channel.source == chain.uid
        }

    def _let_read(
        self, stream: Stream, chain: ChainPlan, output: DataFrame, readings: dict[tuple[ChainUid, str], Reading]
    ) -> None:
        schema = output.schema
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise ColumnsOfOneName(
                f"What {chain.output!r} hands to {', '.join(self._plan.readers(chain.uid))} has several columns "
                f"{twice[0]!r}",
                "give each column a name of its own",
            )
        for channel in self._plan.channels:
            if channel.source != chain.uid:
                continue
            if channel.feedback:
                check_declared(channel, schema)
                continue
            # In a loop a row may come round at any time, so there is no event time.
            timeless = bool(self._plan.chain(channel.target).loop)
            event_time = () if timeless else event_time_columns(schema)
            readings[(channel.target, chain.output)] = stream.reader(
                channel.target, schema, event_time, begin=self._begin(channel.target, chain.uid)
            )

    def _begin(self, consumer: ChainUid, producer: ChainUid) -> int:
        """Return where a consumer reads from that has never read the stream."""
        return 0 if self._restored is None else self._restored.origin(consumer).consumed.get(producer, 0)

    def _dataflow(
        self, spark: SparkSession, chain: ChainPlan, readings: Mapping[tuple[ChainUid, str], Reading]
    ) -> Dataflow:
        mine = {name: reading for (reader, name), reading in readings.items() if reader == chain.uid}
        return DataflowBuilder(spark, self._loaded, chain, self._ends(), self._files_read(chain), mine).build()

    def _is_finished(self, chain: ChainUid) -> bool:
        return self._restored is not None and self._restored.finished(chain)

    def _log(self, chain: ChainUid) -> RestoredLog | None:
        if self._restored is None:
            return None
        channels = [each for each in self._restored.manifest.channels if each.source == chain]
        return restored_log(channels) if channels else None

    def _ends(self) -> Mapping[OperatorUid, JsonValue]:
        if self._restored is None:
            return {}
        return {source.uid: source.end for source in self._restored.manifest.sources if source.end is not None}

    def _files_read(self, chain: ChainPlan) -> FilesRead:
        # What comes from another chain may have the uid of a bounded source, too, but no files here.
        bounded = {source.uid for source in chain.sources} & self._ends().keys()

        def read(
            sources: tuple[OperatorUid, ...], directories: tuple[int, ...]
        ) -> Mapping[OperatorUid, frozenset[str]]:
            takeover = self._takeovers.get(chain.uid)
            if takeover is None:
                return {}
            return {uid: takeover.files_read(uid, sources, directories) for uid in bounded if uid in sources}

        return read


def _nodes(chain: ChainPlan) -> Nodes:
    return Nodes(chain.uids(), tuple(each.uid for each in chain.sources), tuple(each.uid for each in chain.sinks))


def _named(file: FileRef) -> FileRef:
    return file.model_copy(update={"path": Path(file.path).name})
