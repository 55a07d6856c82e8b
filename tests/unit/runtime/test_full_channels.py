"""Channels are bounded: who waits, until when, and how long what is in flight in a checkpoint is kept."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.job.model.spec import ChannelPolicy
from streamjob.protocol.emissions.channels import Entry, EntryKind, Segment
from streamjob.protocol.emissions.cuts import Batch, Emissions, Output
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock

A, B, C = ChainUid("a"), ChainUid("b"), ChainUid("c")
ONE = CheckpointId(1)
WITHIN = 30.0


class FakeStream:
    """Remembers the entries that were appended, how far consumers may read, and what was dropped."""

    def __init__(self) -> None:
        self.entries: list[Sequence[Segment]] = []
        self.frontiers: dict[str, int] = {}
        self.dropped = 0

    def extend(self, index: int, entries: Sequence[Sequence[Segment]]) -> None:
        assert index == len(self.entries)
        self.entries.extend(entries)

    def serve(self, consumer: str, frontier: int, max_records: int) -> None:
        self.frontiers[consumer] = frontier

    def drop(self, below: int) -> None:
        self.dropped = below


class Channels:
    """Chain a, whose stream b and c read, with a channel that holds 20 bytes."""

    def __init__(self, emissions: Emissions | None = None, **policy: Any) -> None:
        given = emissions or Emissions([A, B, C], [(A, B), (A, C)])
        self.emission = EmissionLock(given, ChannelPolicy(**({"capacity_bytes": 20} | policy)))
        self.stream = FakeStream()
        self.emission.open_channels(cast("Any", {A: self.stream}))

    def write(self, name: str, *, records: int = 1, length: int = 10) -> None:
        segment = Segment(name=name, records=records, length=length)
        self._emit(A, output=Output(segments=(segment,)))

    def read(self, chain: ChainUid, position: int) -> None:
        self._emit(chain, consumed={A: position})

    def _emit(self, chain: ChainUid, **fields: Any) -> None:
        batch = BatchId(self.emission.last_emitted(chain) + 1)
        self.emission.emit(chain, Batch(batch=batch, **fields))
        self.emission.committed(chain, batch)

    def waits(self, *until: Callable[[], None]) -> int:
        """Let a wait for room while others do one thing after the other; return how many were done by then."""
        done: list[Callable[[], None]] = []
        left = list(until)
        threads: list[threading.Thread] = []

        def look() -> bool:
            # a holds the lock here, which another thread gets only once a waits.
            if threads and threads[-1].is_alive():
                return False
            if not left:
                return True
            done.append(left.pop(0))
            threads.append(threading.Thread(target=done[-1]))
            threads[-1].start()
            return False

        self.emission.wait_for_room(A, look)
        for thread in threads:
            thread.join(WITHIN)
        return len(done)


def test_a_full_channel_blocks_its_producer_until_the_slowest_reader_has_read() -> None:
    channels = Channels()
    channels.write("x")
    assert channels.waits(lambda: channels.read(B, 1)) == 0
    channels.write("y")

    assert channels.waits(lambda: channels.read(B, 2), lambda: channels.read(C, 1), lambda: channels.read(C, 2)) == 2
    assert channels.emission.blocked_seconds(A) > 0


def test_a_channel_may_be_full_of_records() -> None:
    channels = Channels(capacity_records=5)
    channels.write("x", records=5, length=1)

    assert channels.waits(lambda: channels.read(B, 1), lambda: channels.read(C, 1), lambda: channels.read(C, 1)) == 2


def test_a_producer_whose_job_is_over_waits_no_longer() -> None:
    channels = Channels()
    channels.write("x", length=20)

    assert channels.waits(channels.emission.wake) == 1
    assert channels.emission.backlog(A).bytes == 20


def test_a_chain_that_nobody_reads_does_not_wait() -> None:
    channels = Channels()
    channels.write("x", length=20)
    channels.emission.wait_for_room(B, lambda: pytest.fail("b has no readers"))


def test_what_was_restored_in_flight_fills_the_channel() -> None:
    """ChannelPersistenceITCase.testUpstreamBlocksAfterRecoveringState: a full channel is what blocks here."""
    emissions = Emissions([A, B], [(A, B)])
    segments = (Segment(name="x", records=1, length=20),)
    emissions.restore(B, BatchId(4), {A: 7})
    entries = [Entry(index=7, kind=EntryKind.DATA, segments=segments)]
    emissions.restore_log(A, entries, 8, False, ONE)
    channels = Channels(emissions)

    assert channels.waits(lambda: channels.read(B, 8), lambda: None) == 1


def test_barriers_and_the_end_of_input_enter_a_full_channel() -> None:
    channels = Channels()
    channels.write("x", length=20)
    channels.emission.trigger(ONE, seal=False, unaligned=False)
    channels.emission.end(A)

    assert [len(segments) for segments in channels.stream.entries] == [1, 0, 0]
    assert channels.stream.frontiers == {B: 2, C: 2}


def test_what_is_in_flight_in_a_checkpoint_is_kept_until_each_reader_has_hold_of_it() -> None:
    """ChannelStateWriterImplTest.testBuffersRecycledOnError: what is being written is not recycled"""
    channels = Channels()
    channels.write("x")
    channels.emission.trigger(ONE, seal=False, unaligned=True)
    for reader in (B, C):
        channels.read(reader, 1)
    assert channels.stream.dropped == 0

    channels.emission.unpin(ONE, B)
    assert channels.stream.dropped == 0
    channels.emission.unpin(ONE, C)
    assert channels.stream.dropped == 1


def test_an_abort_lets_go_of_what_was_in_flight() -> None:
    """ChannelStateWriterImplTest.testAbortClearsResults"""
    channels = Channels()
    channels.write("x")
    channels.emission.trigger(ONE, seal=False, unaligned=True)
    for reader in (B, C):
        channels.read(reader, 1)

    channels.emission.abort(ONE)
    assert channels.stream.dropped == 1
