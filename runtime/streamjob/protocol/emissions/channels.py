"""A channel between two chains as pure values: the log of entries that a producer appends and its consumers read.

A chain with readers has one log, regardless of the number of readers. Entries have consecutive indexes that continue
across epochs. A position is the index of the next entry to read; a consumer's offsets are positions. Barriers and the
end of input are ordinary entries, so a position also tells which barriers have been passed.

Source: the channels of Flink's asynchronous barrier snapshots (Carbone et al., 2015), with whole micro-batches as
records. The log knows neither its readers nor files; `streamjob.protocol.emissions.cuts` makes the decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streamjob.ids import CheckpointId
from streamjob.snapshot.manifest import EntryKind

__all__ = ["END_OF_TIME_MS", "Backlog", "BrokenLog", "ChannelLog", "Entry", "EntryKind", "Segment"]

END_OF_TIME_MS = 253_402_300_799_000
"""9999-12-31T23:59:59Z: the watermark of an ended input, so that only the other inputs count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """An immutable file of whole records, `length` bytes long; `name` is its file name in the producer's stream."""

    name: str
    records: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a log. `barrier` is set for a BARRIER; `segments` and `watermark_ms` can be set for DATA."""

    index: int
    kind: EntryKind
    segments: tuple[Segment, ...] = ()
    watermark_ms: int | None = None
    barrier: CheckpointId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How much data has been emitted and not been consumed."""

    records: int = 0
    bytes: int = 0


class BrokenLog(ValueError):
    """Entries do not form a log: one is missing, appears twice with different content, or follows the end."""


@dataclass(frozen=True, slots=True)
class _Totals:
    """Totals of a log up to some entry, since its creation."""

    records: int
    bytes: int
    watermark_ms: int | None


class ChannelLog:
    """One producer's entries from `base` to below `next`.

    Args:
        name: the producer's name, for messages.
        entries: the initial entries, in any order; an entry may be given twice.
        next_index: the index of the next entry, right after `entries`, if there are any.
        ended: whether its last entry is the end of input, even if it is not among `entries`.
        watermark_ms: the newest watermark before `entries`, in ms since 1970.

    Raises:
        BrokenLog: the entries do not form a log that ends just before `next_index`.
    """

    def __init__(
        self,
        name: str,
        entries: Iterable[Entry] = (),
        *,
        next_index: int = 0,
        ended: bool = False,
        watermark_ms: int | None = None,
    ) -> None:
        self._name = name
        self._entries: list[Entry] = []
        self._barriers: dict[CheckpointId, int] = {}
        self._totals = _Totals(0, 0, watermark_ms)
        self._before: list[_Totals] = []
        given = self._in_order(entries, next_index, ended)
        self._base = next_index - len(given)
        self._ended = False
        for entry in given:
            self._append(entry)
        self._ended = ended

    def _in_order(self, entries: Iterable[Entry], next_index: int, ended: bool) -> list[Entry]:
        by_index: dict[int, Entry] = {}
        for entry in entries:
            if by_index.setdefault(entry.index, entry) != entry:
                raise BrokenLog(f"entry {entry.index} of {self._name}'s stream is given twice, and not the same")
        expected = range(next_index - len(by_index), next_index)
        if sorted(by_index) != list(expected) or expected.start < 0:
            raise BrokenLog(
                f"the stream of {self._name} cannot begin with the entries {sorted(by_index)} before {next_index}"
            )
        ends = [index for index, entry in by_index.items() if entry.kind is EntryKind.END]
        if ends and not (ended and ends == [next_index - 1]):
            raise BrokenLog(f"the end of {self._name}'s stream, entry {ends[0]}, is not its last entry")
        if ended and (by_index or not next_index) and not ends:
            raise BrokenLog(f"the stream of {self._name} has ended, but entry {next_index - 1} is not its end")
        return [by_index[index] for index in expected]

    @property
    def base(self) -> int:
        """The lowest remaining index."""
        return self._base

    @property
    def next(self) -> int:
        """The index of the next entry."""
        return self._base + len(self._entries)

    @property
    def ended(self) -> bool:
        """Whether the end of input has been appended; nothing follows it."""
        return self._ended

    @property
    def watermark_ms(self) -> int | None:
        """The newest watermark, in ms since 1970."""
        return self._totals.watermark_ms

    def append_data(self, segments: Sequence[Segment], watermark_ms: int | None) -> tuple[Entry, ...]:
        """Append the output of a batch: an entry for each segment, the last with the watermark after the batch.

        Without segments there is an entry only if the watermark has advanced; it never goes back. Raises BrokenLog
        after the end.
        """
        before = self._totals.watermark_ms
        newest = watermark_ms if before is None else before if watermark_ms is None else max(before, watermark_ms)
        if not segments:
            return (self._add(EntryKind.DATA, watermark_ms=newest),) if newest != before else ()
        return tuple(
            self._add(EntryKind.DATA, segments=(segment,), watermark_ms=newest if number == len(segments) else None)
            for number, segment in enumerate(segments, start=1)
        )

    def append_barrier(self, checkpoint: CheckpointId) -> Entry:
        """Append a checkpoint's barrier. Raises BrokenLog after the end."""
        return self._add(EntryKind.BARRIER, barrier=checkpoint)

    def append_end(self) -> Entry:
        """Append the end of input. Raises BrokenLog if it exists already."""
        entry = self._add(EntryKind.END)
        self._ended = True
        return entry

    def between(self, start: int, end: int) -> tuple[Entry, ...]:
        """Return the entries from `start` to below `end`. Raises BrokenLog if one of them is gone or not there yet."""
        if start < end and not self._base <= start < end <= self.next:
            raise BrokenLog(f"{self} does not hold the entries from {start} to below {end}")
        return tuple(self._entries[start - self._base : end - self._base]) if start < end else ()

    def drop_below(self, index: int) -> None:
        """Forget the entries below an index; barriers among them are still known until `forget_barriers`."""
        count = min(max(0, index - self._base), len(self._entries))
        del self._entries[:count], self._before[:count]
        self._base += count

    def backlog(self, position: int) -> Backlog:
        """Return the amount of data after a position. Raises BrokenLog for a position outside the log."""
        before = self._totals_at(position)
        return Backlog(records=self._totals.records - before.records, bytes=self._totals.bytes - before.bytes)

    def bytes_before(self, position: int) -> int:
        """Return the number of bytes emitted before a position, since the log was created.

        Raises:
            BrokenLog: the position is outside the log.
        """
        return self._totals_at(position).bytes

    def watermark_at(self, position: int) -> int | None:
        """Return the newest watermark in ms before a position, END_OF_TIME_MS after the end; None if there is none.

        Raises:
            BrokenLog: the position is outside the log.
        """
        watermark_ms = self._totals_at(position).watermark_ms
        return END_OF_TIME_MS if self._ended and position == self.next else watermark_ms

    def barrier_at(self, checkpoint: CheckpointId) -> int | None:
        """Return the index of a checkpoint's barrier; None if there is none or it is forgotten."""
        return self._barriers.get(checkpoint)

    def first_barrier_behind(self, released: CheckpointId) -> int | None:
        """Return the index of the first barrier of a checkpoint above `released`, None if there is none."""
        return min((index for checkpoint, index in self._barriers.items() if checkpoint > released), default=None)

    def forget_barriers(self, released: CheckpointId) -> None:
        """Forget the barriers up to a checkpoint's: every reader may pass them."""
        self._barriers = {checkpoint: index for checkpoint, index in self._barriers.items() if checkpoint > released}

    def __str__(self) -> str:
        return f"the stream of {self._name}, entries {self._base} to below {self.next}"

    def _add(
        self,
        kind: EntryKind,
        *,
        segments: tuple[Segment, ...] = (),
        watermark_ms: int | None = None,
        barrier: CheckpointId | None = None,
    ) -> Entry:
        entry = Entry(index=self.next, kind=kind, segments=segments, watermark_ms=watermark_ms, barrier=barrier)
        self._append(entry)
        return entry

    def _append(self, entry: Entry) -> None:
        if self._ended:
            raise BrokenLog(f"a {entry.kind} comes after the end of {self}")
        self._entries.append(entry)
        self._before.append(self._totals)
        if entry.barrier is not None:
            self._barriers[entry.barrier] = entry.index
        before = self._totals
        self._totals = _Totals(
            before.records + sum(segment.records for segment in entry.segments),
            before.bytes + sum(segment.length for segment in entry.segments),
            before.watermark_ms if entry.watermark_ms is None else entry.watermark_ms,
        )

    def _totals_at(self, position: int) -> _Totals:
        if not self._base <= position <= self.next:
            raise BrokenLog(f"position {position} is outside {self}")
        return self._totals if position == self.next else self._before[position - self._base]
