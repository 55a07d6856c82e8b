"""Measures a chain across the epochs of a process: its work, its rates, and its time under backpressure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from streamjob.client.models import BatchTimesView
from streamjob.ids import BatchId, OperatorUid
from streamjob_runtime.chain.chain import Chain
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.chain.event_time.event_times import PartitionTime, StrayTimes
from streamjob_runtime.chain.query_status import waits_for_data
from streamjob_runtime.chain.sources.discovered_files import UnreadFiles
from streamjob_runtime.kafka.positions import TopicPartition
from streamjob_runtime.monitoring.arrivals import Arrivals
from streamjob_runtime.monitoring.batch_times import BatchWindow
from streamjob_runtime.monitoring.planned_records import planned_records
from streamjob_runtime.monitoring.query_progress import BatchProgress, Positions, ProgressReader, Rate, StateProgress
from streamjob_runtime.monitoring.silence import Silence


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFigures:
    """Figures of a chain at one moment; totals since the start of the process, rates over the last ten seconds.

    Args:
        records_in: records read from sources and other chains.
        from_sources: records read from sources.
        records_out: records written; None if it was unknown for a batch.
        waited: seconds of waiting for readers.
        in_rate: records read per second.
        from_sources_rate: records read from sources per second.
        out_rate: records written per second.
        backpressured: fraction of the time spent waiting for readers, 0 to 1.
        watermarks: its inputs' watermarks, in ms since 1970.
        idle: the inputs that have been silent for their idleTimeout.
        last_batch_ms: duration of its last batch, in ms.
        batches: number of its batches.
        batch_seconds: their durations, added up.
        positions: its positions in the partitions of its sources.
        idle_seconds: for how long an input has brought no row, see `Silence`.
        unknown_seconds: seconds since the chain has looked for rows: it runs or plans a batch.
        dropped_late: for each stateful operator with a watermark, Spark's name for it and the number of late rows that
            it dropped.
        not_decoded: records and rows that could not be decoded or computed, by source and operator.
        strays: the rows of each input that were late, or far ahead of the clock.
        partition_times: the partitions that count for the watermark of an input whose partitions have one.
        timeless: rows that were dropped without an event time, by source and operator.
        read: records read from each input.
        states: its stateful operators after the last batch, by Spark's numbers; empty before the first.
        lag_seconds: seconds since the arrival of the first unread record or file of a source, where that is known.
        unread: the unread files of its sources in buckets, at this moment.
        record_bytes: mean size of the records in the files that such a source has read, in bytes.
        busy: fraction of the time in batches, without waiting for readers, 0 to 1.
        times: where the time of its last batches goes; None before the first.
        running_seconds: for how long its running batch has run; None between two batches.
        running_records: the number of records that this batch reads; None if that is not known.
    """

    records_in: int = 0
    from_sources: int = 0
    records_out: int | None = 0
    waited: float = 0.0
    in_rate: float = 0.0
    from_sources_rate: float = 0.0
    out_rate: float = 0.0
    backpressured: float = 0.0
    watermarks: Mapping[OperatorUid, int] = field(default_factory=dict)
    idle: frozenset[OperatorUid] = frozenset()
    last_batch_ms: int | None = None
    batches: int = 0
    batch_seconds: float = 0.0
    positions: Mapping[OperatorUid, Positions] = field(default_factory=dict)
    idle_seconds: Mapping[OperatorUid, float] = field(default_factory=dict)
    unknown_seconds: float = 0.0
    dropped_late: Sequence[tuple[str, int]] = ()
    not_decoded: Mapping[OperatorUid, int] = field(default_factory=dict)
    strays: Mapping[OperatorUid, StrayTimes] = field(default_factory=dict)
    partition_times: Mapping[OperatorUid, Mapping[TopicPartition, PartitionTime]] = field(default_factory=dict)
    timeless: Mapping[OperatorUid, int] = field(default_factory=dict)
    read: Mapping[OperatorUid, int] = field(default_factory=dict)
    states: Sequence[StateProgress] = ()
    lag_seconds: Mapping[OperatorUid, float] = field(default_factory=dict)
    unread: Mapping[OperatorUid, UnreadFiles] = field(default_factory=dict)
    record_bytes: Mapping[OperatorUid, float] = field(default_factory=dict)
    busy: float = 0.0
    times: BatchTimesView | None = None
    running_seconds: float | None = None
    running_records: int | None = None


class ChainMeter:
    """Measures a chain; one thread calls it about once a second, while any thread may read `figures`."""

    def __init__(self) -> None:
        self.figures = ChainFigures()
        self._life: tuple[Chain, EmissionLock] | None = None
        self._progress = ProgressReader()
        self._out_before: int | None = 0
        self._strays_before: dict[OperatorUid, StrayTimes] = {}
        self._waited_before = 0.0
        self._silence = Silence()
        self._read: dict[OperatorUid, int] = {}
        self._sized: dict[OperatorUid, tuple[int, int]] = {}
        self._states: tuple[StateProgress, ...] = ()
        self._in, self._from_sources, self._out, self._waits, self._works = Rate(), Rate(), Rate(), Rate(), Rate()
        self._ended_seconds = self._busy_seconds = 0.0
        self._running: tuple[BatchId, float, int | None] | None = None
        self._window = BatchWindow()
        self._arrivals: dict[OperatorUid, Arrivals] = {}

    def observe(
        self,
        chain: Chain,
        emission: EmissionLock,
        now: float,
        in_sinks: Mapping[OperatorUid, float] | None = None,
        begun: Mapping[OperatorUid, Positions] | None = None,
    ) -> list[BatchProgress]:
        """Observe the chain in the running epoch.

        Args:
            chain: the chain; a new object if an epoch has begun since.
            emission: knows how long the chain has waited.
            now: monotonic time in seconds.
            in_sinks: total seconds that batches have spent in each of the chain's sinks.
            begun: where sources continue in this epoch, until a batch has told it.

        Returns:
            The batches that have ended since the last observation.
        """
        self._begin(chain, emission, in_sinks or {})
        batches = self._progress.new_batches(chain.queries)
        before = self.figures
        self._note_work(chain, emission, batches, now)
        self._note_reads(chain, batches, now)
        waited = self._waited_before + emission.blocked_seconds(chain.uid)
        times = self._window.note(batches, waited, in_sinks or {})
        figures = replace(
            before,
            records_in=before.records_in + sum(batch.rows_in for batch in batches),
            from_sources=before.from_sources + sum(batch.rows_in - batch.rows_from_chains for batch in batches),
            records_out=_sum(self._out_before, chain.output.rows),
            waited=waited,
            watermarks=dict(chain.watermarks_now()),
            idle=chain.idle_inputs,
            strays=_with(self._strays_before, chain.event_times.strays),
            partition_times=chain.event_times.partition_times(),
            last_batch_ms=batches[-1].duration_ms if batches else before.last_batch_ms,
            batches=before.batches + len(batches),
            batch_seconds=before.batch_seconds + sum(batch.duration_ms for batch in batches) / 1000,
            positions=self._positions(chain) or _of_sources(chain, begun or {}) or before.positions,
            dropped_late=_added(before.dropped_late, [batch.dropped_late for batch in batches]),
            not_decoded=_summed(before.not_decoded, [batch.not_decoded for batch in batches]),
            timeless=_summed(before.timeless, [batch.timeless for batch in batches]),
            times=times or before.times,
            unread=_unread(chain),
        )
        self._note(now, figures)
        return batches

    def rest(self, now: float) -> None:
        """Record that the chain does not run in this epoch; its rates drop to 0."""
        self._running = None
        self._note(now, replace(self.figures, idle=frozenset(), partition_times={}, unread={}))

    def _note_reads(self, chain: Chain, batches: Sequence[BatchProgress], now: float) -> None:
        uids = _numbered(chain)
        self._silence.note(uids.values(), now)
        for batch in batches:
            self._states = batch.states or self._states
            brought = {
                uids[number]: rows for number, rows in enumerate(batch.rows_by_source) if rows and number in uids
            }
            self._silence.read(brought.keys(), now - batch.duration_ms / 1000, now)
            for uid, rows in brought.items():
                self._read[uid] = self._read.get(uid, 0) + rows
            # After a restart, the files of the first batch are those of an old plan: nobody counts their bytes.
            for number, size in enumerate(batch.bytes_by_source):
                if size and number in uids:
                    sized, rows = self._sized.get(uids[number], (0, 0))
                    self._sized[uids[number]] = sized + size, rows + batch.rows_by_source[number]
        # A batch with its own report was not planned for nothing.
        if not batches and chain.queries and self._running is None and waits_for_data(chain.queries[-1]):
            self._silence.waits(now)

    def _note_work(self, chain: Chain, emission: EmissionLock, batches: Sequence[BatchProgress], now: float) -> None:
        """Add up the time in batches, including that of the running one, which Spark reports when it has ended."""
        self._ended_seconds += sum(batch.duration_ms for batch in batches) / 1000
        number = emission.running(chain.uid)
        if number is None:
            self._running = None
        elif self._running is None or self._running[0] != number:
            self._running = number, now, planned_records(chain.checkpoint, number, chain.dataflow.directories)
        since = now if self._running is None else self._running[1]
        self._busy_seconds = max(self._busy_seconds, self._ended_seconds + now - since)

    def _positions(self, chain: Chain) -> dict[OperatorUid, Positions]:
        if not self._progress.positions:
            return {}
        uids = _numbered(chain)
        found = enumerate(self._progress.positions)
        return {
            uids[number]: each for number, each in found if each.read or each.files_changed or each.messages_refused
        }

    def _lags(
        self, positions: Mapping[OperatorUid, Positions], unread: Mapping[OperatorUid, UnreadFiles], now: float
    ) -> Mapping[OperatorUid, float]:
        found = {
            uid: 0.0 if each.oldest_ms is None else max(0.0, now - each.oldest_ms / 1000)
            for uid, each in unread.items()
        }
        for uid, each in positions.items():
            arrivals = self._arrivals.setdefault(uid, Arrivals())
            if each.planned is not None and each.latest:
                arrivals.note(each.planned, sum(each.latest.values()))
            # A partition that is new in the topic has no position yet.
            lag = arrivals.lag(sum(each.read.get(partition, 0) for partition in each.latest), now)
            if lag is not None:
                found[uid] = lag
        return found

    def _begin(self, chain: Chain, emission: EmissionLock, in_sinks: Mapping[OperatorUid, float]) -> None:
        if self._life is not None and self._life[0] is chain:
            return
        if self._life is not None:
            former, its_emission = self._life
            self._out_before = _sum(self._out_before, former.output.rows)
            self._strays_before = _with(self._strays_before, former.event_times.strays)
            self._waited_before += its_emission.blocked_seconds(former.uid)
        self._life, self._progress, self._silence = (chain, emission), ProgressReader(), Silence()
        # A batch that was cut short never ends: its time counts, although no report has it.
        self._running, self._ended_seconds, self._window = None, self._busy_seconds, BatchWindow()
        self._window.begin(self._waited_before, in_sinks)

    def _note(self, now: float, figures: ChainFigures) -> None:
        """Show figures with the rates, and what else depends on the time."""
        self._in.note(now, figures.records_in)
        self._from_sources.note(now, figures.from_sources)
        self._out.note(now, figures.records_out or 0)
        self._waits.note(now, figures.waited)
        self._works.note(now, self._busy_seconds)
        backpressured = min(1.0, self._waits.per_second)
        # A single assignment, so that concurrent readers see consistent figures.
        self.figures = replace(
            figures,
            in_rate=self._in.per_second,
            from_sources_rate=self._from_sources.per_second,
            out_rate=self._out.per_second,
            backpressured=backpressured,
            idle_seconds=self._silence.seconds(),
            unknown_seconds=self._silence.unknown_for(now),
            read=dict(self._read),
            states=self._states,
            lag_seconds=self._lags(figures.positions, figures.unread, now),
            record_bytes={uid: size / rows for uid, (size, rows) in self._sized.items() if rows},
            # A batch that waits for room takes its time, too.
            busy=max(0.0, min(1.0, self._works.per_second) - backpressured),
            running_seconds=None if self._running is None else now - self._running[1],
            running_records=None if self._running is None else self._running[2],
        )


def _of_sources(chain: Chain, begun: Mapping[OperatorUid, Positions]) -> dict[OperatorUid, Positions]:
    return {uid: begun[uid] for uid in chain.dataflow.sources if uid in begun}


def _unread(chain: Chain) -> dict[OperatorUid, UnreadFiles]:
    """Return the unread files of sources in buckets; of one that is read twice, those of both readings."""
    # Spark's reports tell it as well, but none comes during a batch.
    found: dict[OperatorUid, UnreadFiles] = {}
    for directory, uid in _numbered(chain).items():
        files = chain.dataflow.discovered.get(uid)
        if files is not None and (one := files.unread(directory)) is not None:
            other = found.get(uid, UnreadFiles(0, 0))
            oldest = [each for each in (one.oldest_ms, other.oldest_ms) if each is not None]
            found[uid] = UnreadFiles(one.files + other.files, one.bytes + other.bytes, min(oldest, default=None))
    return found


def _numbered(chain: Chain) -> dict[int, OperatorUid]:
    """Return a chain's inputs by Spark's number in its reports."""
    # Spark reports each source once, ordered by directory.
    return dict(zip(chain.dataflow.directories, chain.dataflow.sources, strict=True))


def _with(
    before: Mapping[OperatorUid, StrayTimes], more: Mapping[OperatorUid, StrayTimes]
) -> dict[OperatorUid, StrayTimes]:
    return {uid: before.get(uid, StrayTimes()) + more.get(uid, StrayTimes()) for uid in before.keys() | more.keys()}


def _summed(
    before: Mapping[OperatorUid, int], batches: Sequence[Mapping[OperatorUid, int]]
) -> Mapping[OperatorUid, int]:
    total = dict(before)
    for batch in batches:
        for uid, records in batch.items():
            total[uid] = total.get(uid, 0) + records
    return total


def _added(
    before: Sequence[tuple[str, int]], batches: Sequence[Sequence[tuple[str, int]]]
) -> Sequence[tuple[str, int]]:
    for batch in batches:
        if [name for name, _ in batch] == [name for name, _ in before]:
            before = [(name, rows + more) for (name, rows), (_, more) in zip(before, batch, strict=True)]
        elif batch and not before:
            before = list(batch)
    return before


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
