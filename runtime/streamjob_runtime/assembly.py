"""Puts the chains of an epoch together: restored files, streams between them, queries, and who acknowledges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from streamjob.errors import InvalidInput
from streamjob.ids import NO_BATCH, ChainUid, OperatorUid
from streamjob.job.load import LoadedJob
from streamjob.job.plan import ChainPlan, Plan
from streamjob.protocol.cuts import Publications
from streamjob.snapshot.manifest import ChainState, FileRef
from streamjob.stored.compatibility import Restored
from streamjob_runtime.acknowledging import Acknowledger, Acknowledges, FinishedChain, Nodes
from streamjob_runtime.chain import Chain, ChainStart, StatusListener
from streamjob_runtime.channels.in_flight import RestoredLog, restored_log, segment_folder
from streamjob_runtime.channels.stream import SEGMENT_RECORDS, Reading, Stream
from streamjob_runtime.clock import Clock
from streamjob_runtime.dataflow import Dataflow, DataflowBuilder, FilesRead
from streamjob_runtime.download import Locate, download
from streamjob_runtime.feedback import check_declared, declared
from streamjob_runtime.outputs import ChainOutput, Outputs
from streamjob_runtime.publication import Publication
from streamjob_runtime.spark_checkpoint.files_read import files_read
from streamjob_runtime.spark_checkpoint.relocate import relocate
from streamjob_runtime.spark_checkpoint.rewind import rewind_event_time
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
        self._logs = {chain.uid: self._log(chain.uid) for chain in plan.chains}

    def download(self, locate: Locate) -> None:
        """Bring the files of the snapshot into the epoch's directory.

        Raises:
            SnapshotFileMissing, SnapshotFileCorrupt: the snapshot cannot be used.
            StoreError: the store failed.
        """
        for chain in self._plan.chains:
            state = self._state_to_run(chain.uid)
            if state is not None:
                checkpoint = self._workdir.checkpoint(chain.uid)
                download(state.files, locate, checkpoint, self._workdir.candidates(chain.uid))
                relocate(checkpoint)
                if self._restored is not None and self._restored.manifest.drained:
                    rewind_event_time(checkpoint, state.batch, state.watermark or 0)
            log = self._logs[chain.uid]
            if log is not None and log.files:
                holders = (*self._plan.readers(chain.uid), chain.uid)
                candidates = [path for holder in holders for path in self._candidates(holder, chain.uid)]
                files = [_named(file) for file in log.files]
                download(files, locate, self._workdir.segments(chain.uid), candidates)

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
        streams: dict[ChainUid, Stream] = {}
        readings: dict[tuple[ChainUid, str], Reading] = {}
        publication = Publication(publications, self._loaded.spec.channels)
        chains: dict[ChainUid, Chain] = {}
        acknowledgers: dict[ChainUid, Acknowledges] = {}
        for chain in plan.chains:
            if plan.feeds_back(chain.uid):
                streams[chain.uid] = self._open_stream(spark, chain)
                readings.update(self._feedback_readings(chain, streams[chain.uid]))
        for chain in plan.chains:
            self._restore(publications, chain.uid)
            dataflow = self._dataflow(spark, chain, readings)
            if plan.readers(chain.uid):
                if chain.uid not in streams:
                    streams[chain.uid] = self._open_stream(spark, chain)
                self._let_read(streams[chain.uid], chain, dataflow.output, readings)
            nodes = _nodes(chain)
            state = self._states[chain.uid]
            if chain.uid in finished and state is not None and self._restored is not None:
                sources = self._restored.manifest.sources
                acknowledgers[chain.uid] = FinishedChain(state, nodes, sources)
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
                start=_start(state),
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
        if state is None or restored is None:
            return
        consumed = {
            channel.source: channel.consumed for channel in restored.manifest.channels if channel.target == chain
        }
        publications.restore(chain, state.batch, {}, {}, consumed=consumed)
        finished = self._is_finished(chain)
        if log is not None:
            publications.restore_log(chain, log.entries, log.next, log.ended, restored.manifest.id)
        elif finished:
            publications.restore_log(chain, (), 0, True, restored.manifest.id)

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
            readings[(channel.target, chain.output)] = stream.reader(channel.target, schema, event_time)

    def _dataflow(
        self, spark: SparkSession, chain: ChainPlan, readings: Mapping[tuple[ChainUid, str], Reading]
    ) -> Dataflow:
        mine = {name: reading for (reader, name), reading in readings.items() if reader == chain.uid}
        return DataflowBuilder(spark, self._loaded, chain, self._ends(), self._files_read(chain), mine).build()

    def _is_finished(self, chain: ChainUid) -> bool:
        return self._restored is not None and self._restored.finished(chain)

    def _state_to_run(self, chain: ChainUid) -> ChainState | None:
        state = self._states[chain]
        return None if state is None or state.batch == NO_BATCH or self._is_finished(chain) else state

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
            state = self._state_to_run(chain.uid)
            if state is None:
                return {}
            found: dict[OperatorUid, frozenset[str]] = {}
            inputs = tuple(each.uid for each in state.inputs)
            # Spark itself refuses a query with other sources than those of its checkpoint.
            for index, uid in enumerate(inputs if inputs == sources else ()):
                if uid in bounded:
                    files = files_read(self._workdir.checkpoint(chain.uid), index, state.batch, directories[index])
                    found[uid] = found.get(uid, files) & files
            return found

        return read


def _start(state: ChainState | None) -> ChainStart:
    if state is None:
        return ChainStart()
    watermarks = {each.uid: each.watermark_ms for each in state.inputs if each.watermark_ms is not None}
    return ChainStart(batch=state.batch, watermarks=watermarks)


def _nodes(chain: ChainPlan) -> Nodes:
    return Nodes(chain.uids(), tuple(each.uid for each in chain.sources), tuple(each.uid for each in chain.sinks))


def _named(file: FileRef) -> FileRef:
    return file.model_copy(update={"path": Path(file.path).name})
