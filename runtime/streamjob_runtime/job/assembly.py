"""Assembles the chains of an epoch: restored files, streams between them, queries, and acknowledgers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from streamjob.clock import Clock
from streamjob.comparison.verdicts import Finding, Verdict
from streamjob.errors import InvalidInput, refuse
from streamjob.ids import NO_BATCH, ChainUid, OperatorUid
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.spec import BATCH
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.loops import loops_of
from streamjob.job.planning.plan import ChainPlan, Plan
from streamjob.job.query.event_time import may_be_idle, retimed
from streamjob.protocol.emissions.cuts import Emissions
from streamjob_runtime.chain.chain import Chain, ChainListener, ChainStart, Place
from streamjob_runtime.chain.channels.stream import SEGMENT_RECORDS, LocalSegments, Reading, Stream
from streamjob_runtime.chain.dataflow import Dataflow, DataflowBuilder
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.chain.emissions.feedback import check_declared, declared
from streamjob_runtime.chain.emissions.outputs import ChainOutput, Outputs
from streamjob_runtime.chain.emissions.publishing import batch_plan, pinned_batch
from streamjob_runtime.chain.event_time.watermarks import event_time_columns
from streamjob_runtime.chain.functions.sql_functions import register_functions
from streamjob_runtime.chain.idle_inputs import IdleChains
from streamjob_runtime.chain.sources.batch_limits import channel_bounds
from streamjob_runtime.checkpointing.acknowledging import Acknowledger, Acknowledges, FinishedChain, Nodes
from streamjob_runtime.job.output_recovery import Journals, check_unchanged
from streamjob_runtime.kafka.starting import KafkaStart
from streamjob_runtime.kafka.topic_ids import KnownTopics
from streamjob_runtime.pinning.dependence import unsteady
from streamjob_runtime.restoring.restoration import Restoration, Workdir
from streamjob_runtime.tables.static import StaticTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamjob_runtime.executors.driver.state import StateOnExecutors

log = logging.getLogger("streamjob")


class NotSteady(InvalidInput):
    """A sink is to publish each batch, and the query of its rows depends on more than its input."""


class ColumnsOfOneName(InvalidInput):
    """A chain's output for other chains has two columns with the same name."""


@dataclass(frozen=True)
class Assembled:
    """The chains of an epoch, ready to start; `finished` are those that were finished before."""

    chains: Mapping[ChainUid, Chain]
    finished: frozenset[ChainUid]
    acknowledgers: Mapping[ChainUid, Acknowledges]
    emission: EmissionLock
    streams: Mapping[ChainUid, Stream]
    tables: StaticTables

    def close(self) -> None:
        """Remove the streams and tables; the chains must have been stopped."""
        for stream in self.streams.values():
            stream.close()
        self.tables.close()


class Assembler:
    """Builds the running parts of an epoch.

    Args:
        restoration: the state that the chains take over; its files must have been downloaded.
        clock: seconds since 1970.
        state: the processes that have the chains' state and segments; None if this one has.
        starts: where the Kafka sources begin; one that is missing begins by its options.
        journals: what sinks have published behind the checkpoint; None if they have published nothing.
        available_now: whether the sources end with what is there when the epoch starts.
    """

    def __init__(
        self,
        loaded: LoadedJob,
        plan: Plan,
        restoration: Restoration,
        workdir: Workdir,
        clock: Clock,
        state: StateOnExecutors | None = None,
        starts: Mapping[OperatorUid, KafkaStart] | None = None,
        topics: Mapping[OperatorUid, KnownTopics] | None = None,
        *,
        journals: Journals | None = None,
        available_now: bool = False,
    ) -> None:
        self._journals = journals
        self._available_now = available_now
        self._starts = starts
        self._topics = topics
        self._state = state
        self._loaded = loaded
        self._plan = plan
        self._restoration = restoration
        self._workdir = workdir
        self._clock = clock
        self._graph = graph_of(loaded.spec)
        self._retimed = bool(retimed(loaded.spec, loops_of(loaded.spec)))
        self._streams: dict[ChainUid, Stream] = {}

    def build(self, spark: SparkSession, outputs: Outputs, listener: ChainListener) -> Assembled:
        """Return the chains; nothing runs yet.

        Raises:
            InvalidInput: Spark refuses a part of the job; the error names it.
            CannotRestore: unread data of a bounded source is gone.
            StreamJobError: a table cannot be read.
        """
        tables = StaticTables(spark, self._loaded, self._clock)
        try:
            return self._build(spark, tables, outputs, listener)
        except BaseException:
            tables.close()
            raise

    def _build(self, spark: SparkSession, tables: StaticTables, outputs: Outputs, listener: ChainListener) -> Assembled:
        plan, restoration = self._plan, self._restoration
        emissions = Emissions(
            [chain.uid for chain in plan.chains],
            [(channel.source, channel.target) for channel in plan.channels],
            feedback=[(channel.source, channel.target) for channel in plan.channels if channel.feedback],
            clock=self._clock,
        )
        finished = frozenset(chain.uid for chain in plan.chains if restoration.is_finished(chain.uid))
        streams = self._streams
        emission = EmissionLock(emissions, self._loaded.spec.channels)
        idle_chains = IdleChains(emission, possible=may_be_idle(self._loaded.spec))
        chains: dict[ChainUid, Chain] = {}
        acknowledgers: dict[ChainUid, Acknowledges] = {}
        for chain, dataflow in self._steady_dataflows(spark, tables):
            restoration.restore(emissions, chain.uid)
            nodes = _nodes(chain)
            state = restoration.state(chain.uid)
            if chain.uid in finished and state is not None:
                own = state.model_copy(update={"uid": chain.uid, "operators": nodes.all})
                acknowledgers[chain.uid] = FinishedChain(own, nodes, restoration.sources)
                continue
            start = self._take_over(spark, chain, dataflow)
            chains[chain.uid] = made = Chain(
                plan=chain,
                spark=spark,
                dataflow=dataflow,
                output=self._output(chain, outputs, start),
                emission=emission,
                start=self._replaying(chain, outputs, start),
                clock=self._clock,
                listener=listener,
                place=self._place(spark, chain),
                before_batch=tables.check,
                batch_duration=self._loaded.spec.batch_duration,
                idle_chains=idle_chains,
            )
            streams_at_hand = {chain.uid, *(channel.source for channel in chain.channels)}
            segments = {producer: self._workdir.segments(producer) for producer in streams_at_hand}
            acknowledgers[chain.uid] = Acknowledger(made, nodes, segments, emission, self._state, self._topics)
        return Assembled(chains, finished, acknowledgers, emission, streams, tables)

    def _check_steady(self, spark: SparkSession, chain: ChainPlan, dataflow: Dataflow) -> None:
        """Refuse a query whose batches would give other rows when they run again, if a sink publishes each batch."""
        publishing = [each.name for each in chain.sinks if each.publish == BATCH]
        if not publishing:
            return
        found = unsteady(spark, dataflow.output, dataflow.output_mode, on_executors=self._state is not None)
        who = f"Sink {publishing[0]!r} cannot publish each batch of {chain.output!r}, which could not run again alike:"
        refuse(NotSteady, who, ((each.what, f"{each.fix}; or leave publish: batch out") for each in found))

    def _output(self, chain: ChainPlan, outputs: Outputs, start: ChainStart) -> ChainOutput:
        sinks = _nodes(chain).sinks
        publishers = {uid: each for uid, each in outputs.publishers.items() if uid in sinks}
        plan_of = partial(batch_plan, start.checkpoint)
        return ChainOutput(outputs.of(sinks), self._streams.get(chain.uid), outputs.meters, publishers, plan_of)

    def _replaying(self, chain: ChainPlan, outputs: Outputs, start: ChainStart) -> ChainStart:
        """Return a start with the batches that have been published behind the checkpoint, which run again."""
        restored = self._restoration.restored
        if self._journals is None or restored is None:
            return start
        state = restored.base(chain.uid)
        replay = self._journals.replay(_nodes(chain).sinks, NO_BATCH if state is None else state.batch)
        rewritten = state is not None and state.batch != start.batch
        check_unchanged(replay, restored.manifest, self._graph, chain.uids(), rewritten=rewritten)
        last = max(replay.plans, default=NO_BATCH)
        # A checkpoint before the first batch names no operators.
        has_state = state is None or state.batch == NO_BATCH or bool(state.stateful)
        for uid in outputs.publishers.keys() & set(_nodes(chain).sinks):
            outputs.publishers[uid].replay(replay.published.get(uid, {}), last, has_state=has_state)
        pinned = tuple(pinned_batch(batch, plan) for batch, plan in replay.plans.items())
        if pinned:
            how = "run again" if has_state else "are not computed again: it has no state"
            log.info("Chain %s: %d batches that its sinks have published %s", chain.uid, len(pinned), how)
        return replace(start, pinned=pinned)

    def _place(self, spark: SparkSession, chain: ChainPlan) -> Place:
        """Return what decides where a chain's queries open their state."""
        state = self._state
        if state is None:
            return lambda query, batch: None
        checkpoint, location = self._workdir.checkpoint(chain.uid), self._workdir.location(chain.uid)
        return lambda query, batch: state.place(spark, query, chain.uid, checkpoint, location, batch)

    def judge(
        self, spark: SparkSession, preview: Callable[[ChainPlan, Dataflow], Iterable[Finding]]
    ) -> tuple[Finding, ...]:
        """Return Spark's findings about the state that the chains take over; the epoch is unusable afterwards.

        Args:
            preview: returns the sinks' findings about the columns of the rows of a chain's query.

        Raises:
            InvalidInput: Spark refuses a part of the job; the error names it.
            CannotRestore: unread data of a bounded source is gone.
            StreamJobError: a table cannot be read.
        """
        restoration = self._restoration
        tables = StaticTables(spark, self._loaded, self._clock)
        try:
            return tuple(
                finding
                for chain, dataflow in self._steady_dataflows(spark, tables)
                for finding in (
                    *restoration.match_state(spark, self._loaded.spec, self._graph, chain, dataflow),
                    *(() if restoration.is_finished(chain.uid) else preview(chain, dataflow)),
                )
            )
        finally:
            for stream in self._streams.values():
                stream.close()
            tables.close()

    def _steady_dataflows(self, spark: SparkSession, tables: StaticTables) -> Iterator[tuple[ChainPlan, Dataflow]]:
        for chain, dataflow in self._dataflows(spark, tables):
            self._check_steady(spark, chain, dataflow)
            yield chain, dataflow

    def _dataflows(self, spark: SparkSession, tables: StaticTables) -> Iterator[tuple[ChainPlan, Dataflow]]:
        plan, streams = self._plan, self._streams
        register_functions(spark, self._loaded)
        readings: dict[tuple[ChainUid, str], Reading] = {}
        for chain in plan.chains:
            if plan.feeds_back(chain.uid):
                streams[chain.uid] = self._open_stream(spark, chain)
                readings.update(self._feedback_readings(chain, streams[chain.uid]))
        for chain in plan.chains:
            mine = {name: reading for (reader, name), reading in readings.items() if reader == chain.uid}
            before = self._restoration.sources_before(chain)
            builder = DataflowBuilder(
                spark,
                self._loaded,
                chain,
                before,
                mine,
                tables.frames,
                self._starts,
                available_now=self._available_now,
            )
            dataflow = builder.build()
            if plan.readers(chain.uid):
                if chain.uid not in streams:
                    streams[chain.uid] = self._open_stream(spark, chain)
                self._let_read(streams[chain.uid], chain, dataflow, readings)
            yield chain, dataflow

    def _take_over(self, spark: SparkSession, chain: ChainPlan, dataflow: Dataflow) -> ChainStart:
        for finding in self._restoration.match_state(spark, self._loaded.spec, self._graph, chain, dataflow):
            if finding.refusal is not None:
                raise finding.refusal
            if finding.verdict is Verdict.DROPPED:
                log.warning("Operator %r: %s", finding.uid, finding.why)
        return self._restoration.start(chain.uid, dataflow)

    def _open_stream(self, spark: SparkSession, chain: ChainPlan) -> Stream:
        log = self._restoration.log(chain.uid)
        base = 0 if log is None else log.next - len(log.entries)
        directory, location = self._workdir.segments(chain.uid), self._workdir.segments_location(chain.uid)
        state = self._state
        files = LocalSegments(directory) if state is None else state.segments.of(chain.uid, location)
        # One task reads a whole segment, so small batches need small segments, at least one for each slot.
        share = self._loaded.spec.channels.max_batch_records // self._loaded.spec.parallelism
        records = max(1, min(SEGMENT_RECORDS, share))
        stream = Stream(spark, str(directory), files, base, segment_records=records)
        stream.extend(base, [entry.segments for entry in log.entries] if log is not None else [])
        return stream

    def _feedback_readings(self, chain: ChainPlan, stream: Stream) -> dict[tuple[ChainUid, str], Reading]:
        """Return the readers of the chains' feedback, before its producers are known."""
        return {
            (channel.target, channel.name): stream.reader(
                channel.target, declared(channel), first_records=self._first_records
            )
            for channel in self._plan.channels
            if channel.feedback and channel.source == chain.uid
        }

    def _let_read(
        self, stream: Stream, chain: ChainPlan, dataflow: Dataflow, readings: dict[tuple[ChainUid, str], Reading]
    ) -> None:
        schema = dataflow.output.schema
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise ColumnsOfOneName(
                f"The output of {chain.output!r} to {', '.join(self._plan.readers(chain.uid))} has several columns "
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
            event_time = event_time_columns(schema)
            lost = not timeless and not event_time and bool(dataflow.watermark_nodes)
            # Rows without event time need their chain's watermark if an operator behind them gives them another one.
            timed = not timeless and bool(event_time or (lost and self._retimed))
            reading = stream.reader(
                channel.target,
                schema,
                event_time if timed else None,
                begin=self._restoration.begin(channel.target, chain.uid),
                first_records=self._first_records,
            )
            readings[(channel.target, chain.output)] = replace(reading, lost=lost)

    @property
    def _first_records(self) -> int:
        spec = self._loaded.spec
        if not spec.batch_duration:
            return 0
        return channel_bounds(spec.channels.max_batch_records, spec.parallelism).first


def _nodes(chain: ChainPlan) -> Nodes:
    return Nodes(chain.uids(), tuple(each.uid for each in chain.sources), tuple(each.uid for each in chain.sinks))
