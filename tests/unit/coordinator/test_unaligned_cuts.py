"""Unaligned and switched checkpoints: what is in flight. Docstrings name the Flink test that a test mirrors."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.graph import Graph

from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.protocol.emissions.channels import END_OF_TIME_MS, BrokenLog, Entry, EntryKind, Segment
from streamjob.protocol.emissions.cuts import EmissionSealed, IllegalEmission

A, B, C = ChainUid("a"), ChainUid("b"), ChainUid("c")


def test_an_unaligned_trigger_cuts_every_chain_at_once_with_what_is_in_flight() -> None:
    """UnalignedCheckpointsTest.testMultiChannelTrailingInflightData"""
    job = Graph("ac bc cd")
    job.emit("a", "a0", "a1", watermark=7)
    job.emit("b", "b0")
    job.emit("c", "c0", a=1)
    job.trigger(1, unaligned=True)
    job.emit("a", "a2")

    assert job.is_cut() == "abcd"
    assert (job.in_flight("ac"), job.in_flight("bc"), job.in_flight("cd")) == ("a1w7", "b0", "c0")
    assert all(job.cuts[chain].unaligned for chain in "abcd")
    assert job.cuts["c"].next_index == 1


def test_no_barrier_is_written_and_nobody_is_held() -> None:
    """AlternatingCheckpointsTest.testAllChannelsUnblockedAfterAlignmentTimeout"""
    job = Graph("ac bc")
    job.trigger(1, unaligned=True)
    job.emit("a", "a0")

    assert job.story("a") == "a0"
    assert job.frontier("ac") == 1


def test_in_flight_data_of_a_stream_with_several_readers_is_what_each_has_left() -> None:
    """No Flink test: its channels are not shared."""
    job = Graph("ab ac")
    job.emit("a", "a0", "a1")
    job.read("b", a=1)
    job.trigger(1, unaligned=True)

    assert (job.in_flight("ab"), job.in_flight("ac")) == ("a1", "a0 a1")


def test_the_end_of_input_can_be_in_flight() -> None:
    """UnalignedCheckpointsTest.testEndOfStreamWithPendingCheckpoint"""
    job = Graph("ab")
    job.emit("a", "a0")
    job.end("a")
    job.trigger(1, unaligned=True)

    assert job.in_flight("ab") == "a0 ."
    assert job.cuts["b"].ended_inputs == {A}
    assert (job.cuts["a"].ended, job.cuts["a"].next_index) == (True, 2)


def test_a_switch_cuts_the_chains_that_wait_and_keeps_the_cuts_that_are_made() -> None:
    """AlternatingCheckpointsTest.testTimeoutAlignment"""
    job = Graph("ac bc")
    job.emit("a", "a0", "a1")
    job.emit("b", "b0")
    job.trigger(1)
    job.emit("a", "a2")
    job.emit("b", "b1")
    job.read("c", a=1, b=2)
    job.switch(1)

    assert job.is_cut() == "abc"
    assert (job.in_flight("ac"), job.in_flight("bc")) == ("a1 |1", "")
    assert [job.cuts[chain].unaligned for chain in "abc"] == [False, False, True]
    assert (job.cuts["a"].next_index, job.cuts["c"].batch) == (3, 0)


def test_all_inputs_are_released_by_a_switch() -> None:
    """AlternatingCheckpointsTest.testAllChannelsUnblockedAfteralignedCheckpointTimeout"""
    job = Graph("ac bc")
    job.emit("b", "b0")
    job.trigger(1)
    job.emit("a", "a0")
    job.emit("b", "b1")
    job.read("c", a=1)
    job.switch(1)

    assert (job.frontiers["ac"], job.frontiers["bc"]) == (2, 3)
    job.read("c", a=2, b=3)
    assert job.is_cut() == "abc"


def test_a_switch_before_the_first_barrier_takes_everything_up_to_the_barriers() -> None:
    """AlternatingCheckpointsTest.testTimeoutAlignmentBeforeFirstBarrier"""
    job = Graph("ab bc")
    job.emit("a", "a0")
    job.emit("b", "b0")
    job.trigger(1)
    job.emit("a", "a1")
    job.switch(1)

    assert (job.in_flight("ab"), job.in_flight("bc")) == ("a0 |1", "b0")


def test_a_switch_on_one_side_of_a_graph_leaves_the_other_aligned() -> None:
    """AlternatingCheckpointsTest.testSwitchToUnalignedByUpstream"""
    job = Graph("ac bc de ef")
    job.emit("a", "a0")
    job.trigger(1)
    job.read("e", d=1)
    job.switch(1)

    assert job.is_cut() == "abcdef"
    assert [job.cuts[chain].unaligned for chain in "abcdef"] == [False, False, True, False, False, True]
    assert (job.in_flight("de"), job.in_flight("ef")) == ("", "|1")


def test_a_barrier_is_obsolete_after_the_switch_and_never_forwarded() -> None:
    """AlternatingCheckpointsTest.testOutOfOrderBarrier"""
    job = Graph("ab bc")
    job.trigger(1)
    job.switch(1)
    job.emit("b", "b0", a=1)
    assert job.story("b") == "b0"
    assert job.is_cut() == "abc"


def test_an_obsolete_barrier_in_front_of_the_next_one_is_passed() -> None:
    """AlternatingCheckpointsTest.testOutOfOrderBarrier"""
    job = Graph("ac bc")
    job.emit("a", "a0")
    job.trigger(1)
    job.switch(1)
    job.complete(1)
    job.emit("a", "a1")
    job.trigger(2)

    assert job.frontier("ac") == 4
    job.read("c", a=4, b=2)
    assert job.is_cut() == "abc"
    assert not job.cuts["c"].unaligned


def test_a_switch_behind_the_last_barrier_changes_nothing() -> None:
    """AlternatingCheckpointsTest.testNoActiveTimeoutAlignmentAfterLastBarrier"""
    job = Graph("ab")
    job.trigger(1)
    job.emit("a", "a0")
    job.read("b", a=1)
    before = job.cuts["b"]
    job.switch(1)

    assert job.cuts["b"] is before
    assert not before.unaligned


def test_a_switch_behind_an_abort_changes_nothing() -> None:
    """AlternatingCheckpointsTest.testNoActiveTimeoutAlignmentAfterAbort"""
    job = Graph("ab")
    job.trigger(1)
    job.abort(1)
    job.switch(1)

    assert job.is_cut() == "a"


def test_a_switch_takes_an_input_that_has_ended_behind_its_barrier() -> None:
    """AlternatingCheckpointsTest.testTimeoutAlignmentAfterReceivedEndOfPartition"""
    job = Graph("ac bc")
    job.emit("a", "a0")
    job.trigger(1)
    job.end("a")
    job.end("b")
    job.read("c", b=1)
    job.switch(1)

    assert (job.in_flight("ac"), job.in_flight("bc")) == ("a0 |1", "")
    assert job.cuts["c"].consumed == {A: 0, B: 1}


def test_a_chain_that_has_passed_its_barrier_is_never_behind_its_producers_cut() -> None:
    """No Flink test: the reader is held at the barrier, so its position cannot be past the cut."""
    job = Graph("ac bc")
    job.trigger(1)
    job.emit("a", "a0")
    with pytest.raises(IllegalEmission):
        job.read("c", a=2)


def test_a_switched_stopping_checkpoint_seals_every_chain() -> None:
    """StreamTaskTest.testSavepointSuspendCompleted, with in-flight data"""
    job = Graph("ab")
    job.emit("a", "a0")
    job.trigger(1, seal=True)
    job.switch(1)
    with pytest.raises(EmissionSealed):
        job.read("b", a=1)
    assert job.in_flight("ab") == "a0 |1"


def test_the_kind_of_checkpoint_may_change_from_one_to_the_next() -> None:
    """AlternatingCheckpointsTest.testAlternation"""
    job = Graph("ab")
    for checkpoint in range(1, 7):
        job.emit("a", f"a{checkpoint}")
        end = len(job.log["a"])
        job.trigger(checkpoint, unaligned=checkpoint % 2 == 0)
        if checkpoint % 2:
            job.read("b", a=end + 1)
        assert job.is_cut() == "ab"
        assert job.cuts["b"].unaligned is (checkpoint % 2 == 0)
        assert job.in_flight("ab") == ("" if checkpoint % 2 else f"a{checkpoint}")
        job.complete(checkpoint)


def test_the_figures_of_a_switched_chain_count_from_the_trigger() -> None:
    """AlternatingCheckpointsTest.testMetricsAlternation"""
    job = Graph("ac bc cd")
    job.trigger(1)
    job.now = 3.0
    job.read("c", a=1)
    job.now = 8.0
    job.switch(1)

    assert (job.cuts["c"].start_delay, job.cuts["c"].alignment_duration) == (3.0, 5.0)
    assert (job.cuts["d"].start_delay, job.cuts["d"].alignment_duration) == (8.0, 0.0)
    job.complete(1)
    job.now = 9.0
    job.trigger(2, unaligned=True)
    assert (job.cuts["c"].start_delay, job.cuts["c"].alignment_duration) == (0.0, 0.0)


def data(index: int, name: str, watermark: int | None = None) -> Entry:
    segments = (Segment(name=name, records=1, length=10),)
    return Entry(index=index, kind=EntryKind.DATA, segments=segments, watermark_ms=watermark)


def barrier(index: int, checkpoint: int) -> Entry:
    return Entry(index=index, kind=EntryKind.BARRIER, barrier=CheckpointId(checkpoint))


def restored() -> Graph:
    """Return a graph after checkpoint 5: c still has to read a4 and the obsolete barrier, and nothing of b."""
    job = Graph("ac bc")
    job.job.restore(A, BatchId(9))
    job.job.restore_log(A, [data(4, "a4", 40), barrier(5, 5)], 6, False, CheckpointId(5), watermark_ms=30)
    job.job.restore_log(B, [], 3, True, CheckpointId(5))
    job.job.restore(C, BatchId(2), {A: 4, B: 3})
    return job


def test_restored_in_flight_entries_are_read_first_and_their_barrier_is_passed() -> None:
    """SequentialChannelStateReaderImplTest.testReadPermutedState"""
    job = restored()

    assert job.frontier("ac") == 6
    assert job.job.backlog(A, C).records == 1
    assert [job.job.watermark_at(A, position) for position in (4, 5, 6)] == [30, 40, 40]


def test_a_next_checkpoint_before_restored_entries_are_drained_holds_what_is_left() -> None:
    """UnalignedCheckpointITCase: failures during recovery"""
    job = restored()
    job.log["a"] = [data(index, "gone") for index in range(6)]
    job.emit("a", "a6")
    job.trigger(6, unaligned=True)
    assert job.in_flight("ac") == "a4w40 |5 a6w40"
    job.complete(6)

    job.read("c", a=5)
    job.trigger(7)
    job.switch(7)
    assert job.in_flight("ac") == "|5 a6w40 |7"
    assert job.cuts["c"].ended_inputs == {B}


def test_an_aligned_checkpoint_waits_for_restored_entries() -> None:
    """RecoveredInputChannelTest.testCheckpointStartImpossible: here it may start, and its barrier follows them"""
    job = restored()
    job.log["a"] = [data(index, "gone") for index in range(6)]
    job.trigger(6)
    job.read("c", a=6)
    assert job.is_cut() == "ab"
    job.read("c", a=7)
    assert job.is_cut() == "abc"


def test_a_restored_end_is_the_end_also_when_everyone_has_consumed_it() -> None:
    """CheckpointAfterAllTasksFinishedITCase.testRestoreAfterSomeTasksFinished"""
    job = restored()

    assert job.job.watermark_at(B, 3) == END_OF_TIME_MS
    assert job.job.has_ended(B)
    assert not job.job.input_ended(C)
    with pytest.raises(IllegalEmission, match="after its end"):
        job.emit("b", "b0")


@pytest.mark.parametrize("position", [3, 6], ids=["before what is restored", "behind it"])
def test_a_reader_cannot_begin_outside_what_is_restored(position: int) -> None:
    """No Flink test."""
    job = Graph("ac")
    job.job.restore(C, BatchId(2), {A: position})
    job.job.restore_log(A, [data(4, "a4")], 5, False, CheckpointId(5))
    with pytest.raises(IllegalEmission, match=f"is to read from position {position}"):
        job.trigger(6)


@pytest.mark.parametrize(
    ("entries", "next_index", "ended"),
    [
        ([data(4, "x"), data(6, "y")], 7, False),
        ([data(4, "x")], 6, False),
        ([data(4, "x"), data(4, "y")], 5, False),
        ([Entry(index=4, kind=EntryKind.END)], 5, False),
        ([Entry(index=4, kind=EntryKind.END), data(5, "x")], 6, True),
        ([data(4, "x")], 5, True),
        ([], 0, True),
    ],
    ids=["a gap", "a gap at the end", "two of one index", "an end", "an end inside", "no end", "nothing, ended"],
)
def test_entries_that_form_no_stream_are_refused(entries: list[Entry], next_index: int, ended: bool) -> None:
    """ChannelStateCheckpointWriterTest.testRecordingOffsets: what is written is what is read"""
    job = Graph("ac")
    with pytest.raises(BrokenLog):
        job.job.restore_log(A, entries, next_index, ended, CheckpointId(5))


def test_an_entry_that_two_readers_have_left_may_be_given_twice() -> None:
    """No Flink test: its channels are not shared."""
    job = Graph("ac ab")
    job.job.restore_log(A, [data(4, "x"), data(5, "y"), data(5, "y")], 6, False, CheckpointId(5))
    for reader in (B, C):
        job.job.restore(reader, BatchId(1), {A: 5})

    assert job.frontier("ab") == job.frontier("ac") == 6


def test_the_end_of_a_drained_input_that_is_in_flight_is_none_for_who_goes_on() -> None:
    """No Flink test: a requested checkpoint may be taken while some chains are drained already."""
    job = Graph("ab")
    job.emit("a", "a0")
    job.job.end(A, drained=True)
    job.trigger(1, unaligned=True)

    cut = job.cuts["b"]
    assert [entry.kind for entry in cut.in_flight[A]] == [EntryKind.DATA, EntryKind.DATA]
    again = Graph("ab")
    again.job.restore(B, cut.batch, cut.consumed)
    again.job.restore_log(A, cut.in_flight[A], job.cuts["a"].next_index, job.cuts["a"].ended, CheckpointId(1))
    ((_, end),) = again.job.end(A).appended
    assert (end.index, end.kind) == (2, EntryKind.END)
