"""A chain in one epoch: one streaming query, the emissions of its batches, and the flush at its end.

Spark calls `_process` for every batch on the query's own thread. The batch's one action stages its rows in the sinks
and hands them to the chain's readers; emission under the job-wide lock is the last step. An emitted batch that Spark
then fails to commit ends the epoch, like any other failure: recovery is from the store only.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from streamjob.clock import Clock
from streamjob.errors import CannotRestore, JobFailed, StreamJobError
from streamjob.ids import NO_BATCH, BatchId, ChainUid, OperatorUid
from streamjob.job.planning.plan import ChainPlan
from streamjob.journal import ReplayDiverged
from streamjob.protocol.coordination.messages import ChainStatus
from streamjob.protocol.emissions.cuts import Batch, Output
from streamjob.telemetry.logs import within
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.chain.emissions.outputs import ChainOutput
from streamjob_runtime.chain.ending.end_of_chains import stop_query
from streamjob_runtime.chain.ending.end_of_input import check_that_all_is_read
from streamjob_runtime.chain.ending.flushes import has_more_to_fire, has_run_flush, is_at_the_end
from streamjob_runtime.chain.ending.gate import EventTime, Gate
from streamjob_runtime.chain.event_time.event_times import EventTimes
from streamjob_runtime.chain.event_time.watermarks import InputWatermarks
from streamjob_runtime.chain.idle_inputs import IdleChains, IdleInputs
from streamjob_runtime.chain.query_status import waits_for_data
from streamjob_runtime.chain.sources.batch_limits import BatchLimits
from streamjob_runtime.chain.sources.discoveries import Discoveries
from streamjob_runtime.kafka.positions import TopicPartition
from streamjob_runtime.pinning.batches import (
    PinnedBatch,
    PinnedBatchFailed,
    WrongPinnedBatch,
    beginning_with,
    check_pinned,
    check_planned,
)
from streamjob_runtime.spark.checkpoint_dir.compaction import DEFAULT_INTERVAL, INTERVAL, settle_intervals
from streamjob_runtime.spark.checkpoint_dir.forced_batch import (
    END_OF_TIME_MS,
    brings_nothing,
    drop_planned,
    force_batch,
    force_flush,
)
from streamjob_runtime.spark.checkpoint_dir.logs import VOID_OFFSET, last_committed, read_commit, read_offsets
from streamjob_runtime.spark.text.error_text import describe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_REMEMBERED_BATCHES = 1000
_LOOK_SECONDS = 0.1
_SELDOM_SECONDS = 1.0


Place = Callable[["StreamingQuery", BatchId], None]
"""Decides where a query opens its state; called in its first batch, before any action."""


class ChainListener(Protocol):
    """Is notified by a chain, on the chain's own threads."""

    def status_changed(self, chain: ChainUid, status: ChainStatus, message: str) -> None:
        """The chain is RUNNING, FINISHED, DRAINED or FAILED; a message gives the reason of a failure."""
        ...

    def cannot_continue(self, chain: ChainUid, error: CannotRestore) -> None:
        """The chain has failed in a way that every restart would repeat."""
        ...

    def has_output(self) -> None:
        """The chain's first batch with output for a sink in this epoch has been emitted."""
        ...

    def wants_checkpoint(self, why: str) -> None:
        """The chain waits for a checkpoint, or will; it repeats that until one has come."""
        ...


@dataclass(frozen=True)
class ChainStart:
    """The starting point of a chain.

    Args:
        checkpoint: Spark's checkpoint directory of the chain; restored if there is a batch.
        location: the URI by which Spark opens that.
        batch: the batch after which it continues, NO_BATCH for none.
        watermarks: its inputs' watermarks after that batch, in ms since 1970.
        partitions: those of the inputs' partitions.
        pinned: the batches that it then runs as they ran before; it goes on by itself behind them.
    """

    checkpoint: Path
    location: str
    batch: BatchId = NO_BATCH
    watermarks: Mapping[OperatorUid, int] = field(default_factory=dict)
    partitions: Mapping[OperatorUid, Mapping[TopicPartition, int]] = field(default_factory=dict)
    pinned: tuple[PinnedBatch, ...] = ()


class Chain:
    """One chain of a job, from its start or restore to the end of its epoch.

    Args:
        clock: seconds since 1970.
        place: decides where its queries open their state.
        before_batch: is called before each batch computes; an error fails the chain.
        batch_duration: seconds that a batch is to take.
        idle_chains: the idle chains of the job; None if no input may be idle.

    Raises:
        StreamJobError: a sink cannot take the query's rows.
        WrongPinnedBatch: the pinned batches cannot follow one another in this chain.
    """

    def __init__(
        self,
        *,
        plan: ChainPlan,
        spark: SparkSession,
        dataflow: Dataflow,
        output: ChainOutput,
        emission: EmissionLock,
        start: ChainStart,
        clock: Clock,
        listener: ChainListener,
        place: Place = lambda query, batch: None,
        before_batch: Callable[[], None] = lambda: None,
        batch_duration: float = 0.0,
        idle_chains: IdleChains | None = None,
    ) -> None:
        output.check(dataflow.output)
        check_pinned(plan.uid, start.batch, len(dataflow.sources), start.pinned)
        self.uid = plan.uid
        self.dataflow = dataflow
        self.checkpoint = start.checkpoint
        self.output = output
        self.bounded = plan.bounded
        self._spark = spark
        self._in_loop = bool(plan.loop)
        self._emission = emission
        self._start = start
        self._last_pinned = BatchId(start.batch + len(start.pinned))
        if start.pinned:
            emission.run_again(plan.uid, self._last_pinned)
        self._clock = clock
        self._listener = listener
        self._place = place
        self._before_batch = before_batch
        self._batch_duration = batch_duration
        self._limits: BatchLimits | None = None
        self._placed: StreamingQuery | None = None
        self.discoveries = Discoveries(dataflow.discovered, dataflow.sources, dataflow.directories, start.checkpoint)
        self._has_output = False
        self._watermarks = InputWatermarks(spark, dataflow.watermark_nodes, dataflow.output_delay_ms)
        self._watermarks_behind: dict[BatchId, dict[OperatorUid, int]] = {start.batch: dict(start.watermarks)}
        self.event_time = EventTime(dataflow.watermark_nodes, start.watermarks)
        """Its event time before it came to its end."""
        self._ahead: dict[OperatorUid, int] = {}
        self.event_times = EventTimes(dataflow, self._watermarks, start.partitions, start.batch, clock)
        self._idle = IdleInputs(plan.uid, dataflow, self._watermarks, idle_chains or IdleChains(emission), clock)
        self._gate = Gate()
        self._only_time_passes = False
        self._draining = threading.Event()
        self._reading = True
        self._flush_behind: BatchId | None = None
        self._taken_behind: BatchId | None = None
        self.drained = False
        """Whether everything that was read is processed and flushed, though the input has not ended for good."""
        self._query: StreamingQuery | None = None
        self._batch_error: Exception | None = None
        self._query_known = threading.Event()
        self._queries: list[StreamingQuery] = []
        self._stopped = threading.Event()
        self.ended = False
        """Whether all input has ended and has been processed."""
        self._thread = threading.Thread(
            target=within, args=({"chain": plan.uid}, self._run), name=f"chain-{plan.uid}", daemon=True
        )

    @property
    def queries(self) -> Sequence[StreamingQuery]:
        """The queries of this epoch, the last one possibly running; the flush is a query of its own."""
        return tuple(self._queries)

    @property
    def last_emitted(self) -> BatchId:
        """The last emitted batch, NO_BATCH before the first."""
        return self._emission.last_emitted(self.uid)

    @property
    def replaying(self) -> tuple[int, int] | None:
        """How many of its pinned batches have been emitted, and how many there are; None once all have."""
        pinned, emitted = len(self._start.pinned), self.last_emitted - self._start.batch
        return (emitted, pinned) if pinned and emitted < pinned else None

    def watermarks_now(self) -> Mapping[OperatorUid, int]:
        """Return the inputs' current watermarks, or those before the flush; none before the query runs."""
        if self._flush_behind is not None:
            return self._watermarks_behind[self._flush_behind]
        return self._watermarks.read(self._query) if self._query is not None else {}

    def waits(self) -> bool:
        """Return whether it has read all that there is, given that its sources end with what they have."""
        query, emitted = self._query, self.last_emitted
        if self.ended or self.bounded or query is None or self.replaying or not self.discoveries.are_read:
            return self.ended
        if self._taken_behind is None:
            # The batch that runs may have taken the last files.
            self._taken_behind = emitted
        return waits_for_data(query) or (emitted > self._taken_behind and self._is_asked_for_by_time(emitted))

    def source_positions(self) -> Sequence[str]:
        """Return Spark's positions in its sources, without its channels, after the last emitted batch."""
        emitted = self.last_emitted
        if emitted == NO_BATCH:
            return ()
        offsets = read_offsets(self.checkpoint, emitted).offsets(self.dataflow.directories)
        sources = zip(self.dataflow.sources, offsets, strict=True)
        return [offset for uid, (_, offset) in sources if uid not in self.dataflow.channels]

    @property
    def idle_inputs(self) -> frozenset[OperatorUid]:
        """The inputs that are idle, and do not hold the watermark back."""
        return self._idle.idle

    def advance_event_time(self, watermarks: Mapping[OperatorUid, int]) -> None:
        """Raise watermarks to the given ones, in ms since 1970, with the next batch; they never fall."""
        with self._emission.lock:
            self._ahead.update(watermarks)

    def start(self) -> None:
        """Start the query, and follow it until it ends."""
        self._thread.start()

    def drain(self) -> None:
        """Let the chain read nothing more once its channels have ended, and flush; it reports DRAINED or FINISHED.

        Call it for all chains under one hold of the emission lock, so that their event time continues from one moment.
        """
        with self._emission.lock:
            self.event_time.freeze_behind(max(self.last_emitted, self._last_pinned))
        self._draining.set()

    def stop(self, timeout: float) -> bool:
        """Stop the query; return whether it has ended within `timeout` seconds."""
        self._stopped.set()
        self._emission.wake()
        query = self._query
        if query is not None:
            stopper = threading.Thread(target=stop_query, args=(query,), name=f"stop-{self.uid}", daemon=True)
            stopper.start()
            stopper.join(timeout)
        self._thread.join(timeout)
        return self.has_left()

    def has_left(self) -> bool:
        """Return whether the chain's own thread has ended or was never started."""
        return not self._thread.is_alive()

    def is_followed_by_flush(self, batch: BatchId) -> bool:
        """Return whether the query runs the flush next, so that Spark announces the end of time behind a batch."""
        return batch == self._flush_behind

    def is_committed(self, batch: BatchId) -> bool:
        """Return whether Spark has committed a batch."""
        # Spark begins a batch only after the commit of the previous one, and deletes old entries.
        return batch < max(self.last_emitted, 0) or (self.checkpoint / "commits" / str(batch)).exists()

    def watermarks_behind(self, batch: BatchId) -> Mapping[OperatorUid, int]:
        """Return the inputs' watermarks after a committed batch. Raises KeyError if it is long past."""
        with self._emission.lock:
            if batch == self.last_emitted:
                # Spark updates them between a batch's emission and its commit: the current ones are from this batch.
                self._note_watermarks(batch)
            return self._watermarks_behind[batch]

    def _note_watermarks(self, batch: BatchId) -> None:
        if batch not in self._watermarks_behind and self._query is not None:
            self._remember_watermarks(batch, self.watermarks_now())

    def _remember_watermarks(self, batch: BatchId, watermarks: Mapping[OperatorUid, int]) -> None:
        self._watermarks_behind[batch] = dict(watermarks)
        self.event_time.note(batch, watermarks)
        for old in list(self._watermarks_behind)[:-_REMEMBERED_BATCHES]:
            del self._watermarks_behind[old]

    def _run(self) -> None:
        try:
            # A separate pool: the chains share the slots fairly, regardless of the sizes of their batches.
            self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", self.uid)
            if self._start.batch != NO_BATCH:
                wanted = self._spark.conf.get(INTERVAL, None)
                settle_intervals(self.checkpoint, DEFAULT_INTERVAL if wanted is None else int(wanted))
                # Behind a pinned batch, Spark decides from memory, as it did before.
                if self._has_state(self._start.batch) and not self._start.pinned:
                    force_batch(self.checkpoint, self._now_ms())
            self.discoveries.start(self._start.batch, self._clock)
            self._execute(by_itself=self._ends_by_itself)
            if self._stopped.is_set():
                return
            self._reading = False
            drained = self._is_drained()
            if not drained:
                check_that_all_is_read(
                    self.uid,
                    self.dataflow,
                    self.checkpoint,
                    bounded=self.bounded,
                    channels_ended=self._emission.input_ended(self.uid),
                )
            with self._emission.lock:
                # The flush runs as another query, which does not know the watermarks of this one.
                self._note_watermarks(self.last_emitted)
            self._flush()
            if self._stopped.is_set():
                return
            self._emission.committed(self.uid, self.last_emitted)
            self.ended, self.drained = not drained, drained
            self._emission.end(self.uid, self._stopped.is_set, drained=drained)
            self._listener.status_changed(self.uid, ChainStatus.DRAINED if drained else ChainStatus.FINISHED, "")
        except Exception as error:
            # After a stop, the end of the query is expected, whatever its cause.
            if self._stopped.is_set():
                return
            if isinstance(error, ReplayDiverged | WrongPinnedBatch):
                self._listener.cannot_continue(self.uid, error)
            else:
                self._listener.status_changed(self.uid, ChainStatus.FAILED, self._described(error))
        finally:
            self.discoveries.stop()

    def _described(self, error: Exception) -> str:
        reason = describe(error, self.checkpoint)
        if self.replaying is None or isinstance(error, StreamJobError):
            return reason
        return str(PinnedBatchFailed(self.uid, BatchId(self.last_emitted + 1), reason))

    @property
    def _ends_by_itself(self) -> bool:
        return self.bounded and not self.dataflow.channels

    def _execute(self, *, by_itself: bool) -> None:
        """Run the query until it ends because it has read everything, or until its input has ended."""
        writer = (
            self.dataflow.output.writeStream.option("checkpointLocation", self._start.location)
            .outputMode(self.dataflow.output_mode)
            .queryName(self.uid)
            .foreachBatch(self._process)
        )
        writer = writer.trigger(availableNow=True) if by_itself else writer.trigger(processingTime="0 seconds")
        self._query_known.clear()
        # A flush begins with nothing: it comes behind all pinned batches.
        with beginning_with(self._spark, self.uid, () if self._queries else self._start.pinned):
            self._query = writer.start()
        self._queries.append(self._query)
        self._query_known.set()
        if self._stopped.is_set():
            # `stop` was called before the query existed.
            self._query.stop()
            return
        if len(self._queries) == 1:
            # The flush is not a new start: a job that is stopping must not seem to run again.
            self._listener.status_changed(self.uid, ChainStatus.RUNNING, "")
        from pyspark.errors import StreamingQueryException

        try:
            self._await(self._query, by_itself)
        except StreamingQueryException as error:
            if not self._gate.refused:
                # Spark quotes an error in a batch after the traces of two processes.
                raise self._batch_error or error from None
        if self._gate.closed:
            drop_planned(self.checkpoint)

    def _await(self, query: StreamingQuery, by_itself: bool) -> None:
        if by_itself:
            query.awaitTermination()
            return
        # After the batch that consumed the last end of input, Spark may run more batches for due windows. It has
        # finished when it waits for data; if stopped earlier, it could lose a batch between emission and commit.
        # PySpark accepts fractions of a second, although its signature does not say so.
        while not query.awaitTermination(cast("int", self._look_seconds())):
            if self._has_read_all() and waits_for_data(query):
                query.stop()
                return
            self._pass_idle_inputs(query)

    def _pass_idle_inputs(self, query: StreamingQuery) -> None:
        # A batch that has begun reads rows, or looks after idle inputs itself.
        if self._reading and self._idle.watches and waits_for_data(query):
            self.event_times.pass_between_batches(query)
            self._idle.pass_between_batches(query)

    def _look_seconds(self) -> float:
        return _LOOK_SECONDS if self.bounded or self._draining.is_set() else _SELDOM_SECONDS

    def _has_read_all(self) -> bool:
        """Return whether there will be no more data for the chain to read."""
        if self.replaying is not None:
            return False
        with self._emission.lock:
            self._close_gate_if_over()
            return self._gate.closed or (self.bounded and self._emission.input_ended(self.uid))

    def _close_gate_if_over(self) -> None:
        """Refuse batches after the end of a loop or a drained chain; call it under the emission lock."""
        if (self._in_loop or self._draining.is_set()) and self._emission.input_ended(self.uid):
            self._gate.close_behind(self.last_emitted)

    def _close_gate_if_only_time_passes(self, batch: BatchId) -> None:
        """Let no batch begin that processing time alone asks for, once all input is read; under the emission lock.

        An operator with timers, timeouts or a time to live in processing time lets Spark run batches without end. As
        in Flink, the end of input does not wait for processing time.
        """
        if self._gate.closed or not self.bounded:
            return
        if self.dataflow.channels and not self._emission.input_ended(self.uid):
            return
        if self._is_asked_for_by_time(batch):
            self._only_time_passes = True
            self._gate.close_behind(self.last_emitted)

    def _is_asked_for_by_time(self, batch: BatchId) -> bool:
        if batch <= self._start.batch + 1:
            return False
        return brings_nothing(read_offsets(self.checkpoint, batch), read_offsets(self.checkpoint, BatchId(batch - 1)))

    def _is_drained(self) -> bool:
        if self._in_loop:
            return self._emission.is_drained(self.uid)
        if self._only_time_passes:
            return self._emission.input_drained(self.uid)
        # Bounded input may have ended before the gate was closed; it is then finished for good.
        return self._gate.closed and (self._gate.refused or not self.bounded or self._emission.input_drained(self.uid))

    def _flush(self) -> None:
        """Raise event time to its end when all input is read, so that windows, joins and timers fire."""
        last = last_committed(self.checkpoint)
        # A loop has no event time, and has ended already: it may produce nothing more.
        if last is None or self._in_loop or not self._has_state(last):
            return
        now = self._now_ms()
        if has_run_flush(self.checkpoint, self._start.batch, last):
            if not self._has_more_to_fire(last):
                return
            now = 0
        while (flush := force_flush(self.checkpoint, now)) is not None:
            if self._gate.closed:
                self._gate.open_for(flush)
            self._execute(by_itself=True)
            if self._stopped.is_set() or not self._has_more_to_fire(flush):
                return
            # A timer in processing time that sets the next one would ask for flush after flush.
            now = 0

    def _has_more_to_fire(self, flush: BatchId) -> bool:
        assert self._query is not None
        return has_more_to_fire(self.uid, self._query, flush)

    def _now_ms(self) -> int:
        return round(self._clock() * 1000)

    def _has_state(self, batch: BatchId) -> bool:
        return bool(read_commit(self.checkpoint, batch).state_ids)

    def _process(self, frame: DataFrame, number: int) -> None:
        try:
            within({"chain": self.uid}, self._process_batch, frame, BatchId(number))
        except Exception as error:
            self._batch_error = error
            raise

    def _process_batch(self, frame: DataFrame, batch: BatchId) -> None:
        self._query_known.wait()
        query = self._query
        assert query is not None
        self._emission.wait_while_held(self._stopped.is_set)
        if self._stopped.is_set():
            raise JobFailed(f"chain {self.uid!r} was stopped before its batch began")
        self._before_batch()
        if replayed := self.replaying:
            check_planned(self.uid, self._start.pinned[replayed[0]], self.checkpoint)
        with self._emission.lock:
            previous = self.last_emitted
            self._note_watermarks(previous)
            self._emission.committed(self.uid, previous)
            if self._reading and not replayed:
                self._close_gate_if_over()
                self._close_gate_if_only_time_passes(batch)
            self._gate.enter(batch)
            self._emission.begin(self.uid, batch)
            begun = self._clock()
            ahead, self._ahead = self._ahead, {}
        if self._placed is not query:
            self._watermarks.begin(query, self._start.watermarks)
        if batch == self._start.batch + 1 and self._start.watermarks:
            self._watermarks.advance(query, self._start.watermarks)
        consumed = self._consumed(batch)
        self._watermarks.advance(query, {**self._watermarks_of_channels(consumed), **ahead})
        if self.output.has_readers:
            self._emission.wait_for_room(self.uid, self._stopped.is_set)
        self._wait_for_checkpoints(batch)
        if self._placed is not query:
            self._place(query, batch)
            self._placed = query
            self._limits = self._batch_limits(query)
        computing = self._clock()
        self.event_times.begin(query)
        written = self.output.write(frame, batch, self._wait_to_publish)
        if self._reading:
            self.discoveries.check_read(batch, previous, self._stopped.is_set)
        if self._limits is not None and not replayed:
            self._limits.ran(self._clock() - computing)
        if self._reading:
            brought = self.event_times.pass_in_batch(query, self.checkpoint, batch, begun)
            if self._idle.watches:
                self._idle.pass_in_batch(query, brought, begun)
        self.event_times.note(batch)
        output = None
        if self.output.has_readers:
            output = Output(segments=written.segments, watermark_ms=self._watermarks.output(query))
        if self._reads_nothing_more(batch, previous):
            self._let_flush(query, batch)
        emitted = Batch(batch=batch, staged=written.staged, consumed=consumed, output=output)
        self._emission.emit(self.uid, emitted, self._stopped.is_set)
        if written.staged and not self._has_output and not self.replaying:
            self._has_output = True
            self._listener.has_output()

    def _wait_for_checkpoints(self, batch: BatchId) -> None:
        def over() -> bool:
            # No checkpoint but the last one comes while the job is drained, and that one waits for this batch.
            return self._stopped.is_set() or self._draining.is_set()

        def ask() -> None:
            self._listener.wants_checkpoint(f"the sinks of chain {self.uid} have published many batches since the last")

        def ask_behind_replay() -> None:
            self._listener.wants_checkpoint(f"chain {self.uid} has run again what its sinks had published")

        self.output.wait_for_room(batch, over, ask)
        if self._start.pinned and batch == self._last_pinned + 1:
            # If the first new batch fails, whoever mends the job needs a checkpoint behind all published ones.
            self._emission.wait_until_covered(self.uid, self._last_pinned, over, ask_behind_replay)

    def _wait_to_publish(self) -> None:
        if not self._emission.wait_to_publish(self.uid, self._stopped.is_set):
            raise JobFailed(f"chain {self.uid!r} was stopped before its batch was published")

    def _reads_nothing_more(self, batch: BatchId, previous: BatchId) -> bool:
        """Return whether a batch is the first one behind which there is nothing more to read."""
        if not (self._reading and self._ends_by_itself) or self._flush_behind is not None or self._draining.is_set():
            return False
        if batch < self._last_pinned:
            return False
        if not self.dataflow.watermark_nodes or batch <= self._start.batch + 1 or not self._has_state(previous):
            return False
        return is_at_the_end(self.dataflow, self.checkpoint, batch, previous)

    def _let_flush(self, query: StreamingQuery, batch: BatchId) -> None:
        """Run the flush as the query's next batch: another query would load all state again."""
        with self._emission.lock:
            self._remember_watermarks(batch, self._watermarks.preview(query))
            self._flush_behind = batch
        self._watermarks.advance(query, dict.fromkeys(self.dataflow.watermark_nodes, END_OF_TIME_MS))

    def _batch_limits(self, query: StreamingQuery) -> BatchLimits | None:
        bounds = self.dataflow.batch_bounds
        if not bounds:
            return None
        return BatchLimits(self._spark, query, self.dataflow.sources, bounds, self._batch_duration)

    def _consumed(self, batch: BatchId) -> dict[ChainUid, int]:
        """Return the chain's positions in its channels after a batch; the lowest for a channel that it reads twice."""
        if not self.dataflow.channels:
            return {}
        consumed: dict[ChainUid, int] = {}
        offsets = read_offsets(self.checkpoint, batch).offsets(self.dataflow.directories)
        for uid, (_, offset) in zip(self.dataflow.sources, offsets, strict=True):
            producer = self.dataflow.channels.get(uid)
            if producer is not None and offset != VOID_OFFSET:
                position = int(json.loads(offset)["pos"])
                consumed[producer] = min(position, consumed.get(producer, position))
        return consumed

    def _watermarks_of_channels(self, consumed: Mapping[ChainUid, int]) -> dict[OperatorUid, int]:
        at = {
            uid: self._emission.watermark_at(producer, consumed[producer])
            for uid, producer in self.dataflow.channels.items()
            if producer in consumed
        }
        return {uid: watermark for uid, watermark in at.items() if watermark is not None}
