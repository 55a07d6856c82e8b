"""Aligned checkpoints: how a barrier goes through the graph. Docstrings name the Flink test that a test mirrors."""

from __future__ import annotations

import pytest
from tests.unit.coordinator.graph import Graph

from streamjob.ids import NO_BATCH, ChainUid
from streamjob.protocol.emissions.cuts import EmissionSealed, IllegalEmission

A, B, C = ChainUid("a"), ChainUid("b"), ChainUid("c")


def test_the_barrier_stands_right_behind_the_last_emitted_batch_of_a_source() -> None:
    """SubtaskCheckpointCoordinatorTest: broadcast the barrier before the snapshot"""
    job = Graph("ab")
    job.emit("a", "x", "y")
    job.trigger(1)
    job.emit("a", "z")

    assert job.is_cut() == "a"
    assert job.of == 1
    assert job.story("a") == "x y |1 z"
    assert (job.cuts["a"].batch, job.cuts["a"].next_index) == (0, 3)


def test_a_chain_is_cut_by_the_batch_that_consumes_the_last_barrier() -> None:
    """AlignedCheckpointsTest.testMultiChannelWithBarriers"""
    job = Graph("ac bc")
    job.emit("a", "a0")
    job.emit("b", "b0")
    job.trigger(1)
    job.emit("a", "a1")
    job.emit("b", "b1")

    job.read("c", a=2)
    assert job.is_cut() == "ab"
    job.read("c", b=1)
    assert job.is_cut() == "ab"
    job.read("c", b=2)
    assert job.is_cut() == "abc"
    assert (job.cuts["c"].batch, job.cuts["c"].consumed) == (2, {A: 2, B: 2})
    assert job.cuts["c"].in_flight == {A: (), B: ()}


def test_an_input_that_delivered_its_barrier_is_held_until_the_others_have() -> None:
    """AlignedCheckpointsTest.testMultiChannelWithBarriers"""
    job = Graph("ac bc")
    job.trigger(1)
    job.emit("a", "a0", "a1")
    job.emit("b", "b0")
    assert (job.frontier("ac"), job.frontier("bc")) == (1, 1)

    job.read("c", a=1)
    assert job.frontier("ac") == 1
    with pytest.raises(IllegalEmission, match="may read up to 1"):
        job.read("c", a=2)
    job.read("c", b=1)
    assert (job.frontiers["ac"], job.frontiers["bc"]) == (3, 2)


def test_a_held_chain_does_not_hold_another_that_reads_the_same_stream() -> None:
    """No Flink test: its channels are not shared."""
    job = Graph("ac ad bd")
    job.trigger(1)
    job.emit("a", "a0")
    job.read("d", a=1)
    job.read("c", a=1)

    assert job.is_cut() == "abc"
    assert (job.frontier("ac"), job.frontier("ad")) == (2, 1)


def test_a_chain_forwards_the_barrier_behind_the_batch_at_which_it_is_cut() -> None:
    """SubtaskCheckpointCoordinatorTest.testBroadcastBarrier"""
    job = Graph("ab bc")
    job.emit("a", "a0")
    job.trigger(1)
    job.emit("b", "b0", a=1)
    job.emit("b", "b1", a=2)
    job.emit("b", "b2")
    assert job.story("b") == "b0 b1 |1 b2"

    job.read("c", b=3)
    assert job.is_cut() == "abc"
    assert job.cuts["b"].next_index == 3


def test_a_chain_without_readers_forwards_nothing() -> None:
    """No Flink test."""
    job = Graph("ab", more="d")
    job.trigger(1)
    job.read("b", a=1)

    assert job.is_cut() == "abd"
    assert (job.story("b"), job.story("d"), job.cuts["b"].next_index) == ("", "", 0)


def test_an_idle_input_delivers_its_barrier_too() -> None:
    """AlignedCheckpointsTest.testSingleChannelWithBarriers, with empty buffers"""
    job = Graph("ab")
    job.trigger(1)
    job.read("b", a=1)

    assert job.cuts["b"].batch == 0


def test_the_end_of_an_input_counts_as_its_barrier() -> None:
    """AlignedCheckpointsTest.testTriggerCheckpointsWithEndOfPartition"""
    job = Graph("ac bc")
    job.end("a")
    job.trigger(1)
    assert job.is_cut() == "ab"
    assert job.story("a") == "."
    job.read("c", b=1)
    assert job.is_cut() == "ab"
    job.read("c", a=1)

    assert job.is_cut() == "abc"
    assert job.cuts["c"].ended_inputs == {A}
    assert (job.cuts["a"].ended, job.cuts["c"].ended) == (True, False)


def test_an_input_that_ended_before_the_trigger_needs_no_barrier() -> None:
    """CheckpointAfterAllTasksFinishedITCase.testImmediateCheckpointing"""
    job = Graph("ac bc")
    job.end("a")
    job.read("c", a=1)
    job.trigger(1)
    job.read("c", b=1)

    assert job.is_cut() == "abc"


def test_a_chain_whose_inputs_have_all_ended_is_cut_at_the_trigger() -> None:
    """DefaultCheckpointPlanCalculatorTest.testComputeWithMultipleLevels"""
    job = Graph("ab bc")
    job.end("a")
    job.read("b", a=1)
    job.trigger(1)

    assert job.is_cut() == "ab"
    assert job.story("b") == "|1"


def test_a_barrier_and_the_end_behind_it_count_once() -> None:
    """AlignedCheckpointsTest.testDeduplicateChannelsWithBothBarrierAndEndOfPartition"""
    job = Graph("ac bc")
    job.trigger(1)
    job.end("a")
    job.read("c", a=1)
    assert job.is_cut() == "ab"
    job.read("c", b=1)
    assert job.is_cut() == "abc"

    assert job.cuts["c"].ended_inputs == frozenset()
    job.read("c", a=2)
    assert not job.job.input_ended(C)


def test_an_end_that_is_not_consumed_yet_is_no_barrier() -> None:
    """No Flink test: the end overtakes nothing."""
    job = Graph("ac bc")
    job.emit("a", "a0")
    job.end("a")
    job.trigger(1)
    job.read("c", a=1, b=1)
    assert job.is_cut() == "ab"

    job.read("c", a=2)
    assert job.is_cut() == "abc"


def test_a_finished_chain_is_cut_at_once_and_forwards_nothing() -> None:
    """StreamTaskFinalCheckpointsTest.testReportOperatorsFinishedInCheckpoint"""
    job = Graph("ab bc")
    job.end("a")
    job.read("b", a=1)
    job.end("b")
    job.trigger(1)

    assert job.is_cut() == "ab"
    assert job.story("b") == "."
    job.read("c", b=1)
    assert job.cuts["c"].ended_inputs == {B}
    assert not job.cuts["c"].ended


def test_an_aborted_barrier_holds_nobody_and_cuts_nobody() -> None:
    """AlignedCheckpointsTest.testMultiChannelAbortCheckpoint"""
    job = Graph("ac bc")
    job.trigger(1)
    job.emit("a", "a0")
    job.read("c", a=1)
    assert job.frontier("ac") == 1

    job.abort(1)
    assert job.frontiers["ac"] == 2
    job.read("c", a=2, b=1)
    assert job.is_cut() == "ab"


def test_a_newer_barrier_overtakes_one_that_was_given_up_in_the_middle() -> None:
    """AlignedCheckpointsTest.testMultiChannelJumpingOverCheckpoint"""
    job = Graph("ac bc")
    job.trigger(1)
    job.read("c", a=1)
    job.abort(1)
    job.emit("a", "a0")
    job.emit("b", "b0")
    job.trigger(2)
    assert (job.frontier("ac"), job.frontier("bc")) == (3, 3)

    job.read("c", a=3)
    job.read("c", b=3)
    assert job.is_cut() == "abc"
    assert job.cuts["c"].batch == 2


def test_an_aborted_barrier_is_not_forwarded_by_chains_that_it_has_not_reached() -> None:
    """AlignedCheckpointsTest.testIgnoreCancelBarrierIfCheckpointSubsumed"""
    job = Graph("ab bc")
    job.trigger(1)
    job.abort(1)
    job.trigger(2)
    job.emit("b", "b0", a=1)
    assert job.is_cut() == "a"

    job.emit("b", "b1", a=2)
    assert job.story("b") == "b0 b1 |2"


def test_abort_and_completion_of_a_checkpoint_that_is_not_under_way_change_nothing() -> None:
    """CheckpointCoordinatorTest.testHandleMessagesForNonExistingCheckpoints"""
    job = Graph("ac bc")
    job.trigger(2)
    job.abort(1)
    job.complete(1)
    job.emit("a", "a0")
    job.read("c", a=1)

    assert job.frontier("ac") == 1


def test_a_second_checkpoint_is_not_triggered_while_one_is_under_way() -> None:
    """No Flink test: one checkpoint at a time is the coordinator's rule here."""
    job = Graph("ab")
    job.trigger(2)
    with pytest.raises(ValueError, match="while 2 is under way"):
        job.trigger(3)
    job.abort(2)
    with pytest.raises(ValueError, match="triggered before"):
        job.trigger(1)


def test_checkpoints_follow_each_other_through_the_graph() -> None:
    """AlignedCheckpointsTest.testMultiChannelWithBarriers"""
    job = Graph("ac bc cd")
    for checkpoint in (1, 2, 3):
        job.emit("a", f"a{checkpoint}")
        job.trigger(checkpoint)
        job.emit("c", f"c{checkpoint}", a=2 * checkpoint, b=checkpoint)
        job.read("d", c=2 * checkpoint)
        assert job.is_cut() == "abcd"
        job.complete(checkpoint)

    assert job.story("c") == "c1 |1 c2 |2 c3 |3"


def test_a_chain_emits_up_to_its_cut_by_a_stopping_snapshot_and_nothing_behind() -> None:
    """StreamTaskTest.testSavepointSuspendCompleted"""
    job = Graph("ab")
    job.emit("a", "a0")
    job.trigger(1, seal=True)
    with pytest.raises(EmissionSealed):
        job.emit("a", "a1")
    with pytest.raises(EmissionSealed):
        job.end("a")
    job.read("b", a=1)
    job.read("b", a=2)
    with pytest.raises(EmissionSealed):
        job.read("b")
    assert job.is_cut() == "ab"


def test_the_barrier_of_a_stopping_snapshot_is_never_passed() -> None:
    """StopWithSavepointITCase: nothing is read after the savepoint"""
    job = Graph("ab bc")
    job.trigger(1, seal=True)
    job.read("b", a=1)
    job.read("c", b=1)
    assert job.is_cut() == "abc"

    job.complete(1)
    assert (job.frontier("ab"), job.frontier("bc")) == (1, 1)


def test_a_stopping_snapshot_that_fails_lets_every_chain_go_on() -> None:
    """No Flink test: there the job restarts (jobFailsIfInFlightSynchronousSavepointIsDiscarded)"""
    job = Graph("ab")
    job.trigger(1, seal=True)
    job.abort(1)
    job.emit("a", "a0")
    job.read("b", a=2)

    job.trigger(2)
    job.read("b", a=3)
    assert job.is_cut() == "ab"


@pytest.mark.parametrize(
    ("consumed", "problem"),
    [({"a": 3}, "may read up to 2"), ({"a": 0}, "it stood at 1"), ({"b": 1}, "no channel b -> c")],
    ids=["what is not there", "what it has read", "what it does not read"],
)
def test_a_chain_cannot_have_consumed(consumed: dict[str, int], problem: str) -> None:
    """No Flink test: Spark's offsets are the source's to check."""
    job = Graph("ac ab")
    job.emit("a", "a0", "a1")
    job.read("c", a=1)
    with pytest.raises(IllegalEmission, match=problem):
        job.read("c", **consumed)


def test_a_chain_does_not_end_before_its_inputs_have() -> None:
    """DefaultCheckpointPlanTest.testAbortionIfPartiallyFinishedVertexUsedUnionListState: predecessors finish first"""
    job = Graph("ab")
    with pytest.raises(IllegalEmission, match="before it has consumed the end"):
        job.end("b")
    job.end("a")
    job.read("b", a=1)
    job.end("b")
    job.end("b")
    assert job.job.has_ended(B)
    with pytest.raises(IllegalEmission, match="after its end"):
        job.read("b")


def test_output_for_readers_of_whom_there_are_none_is_illegal() -> None:
    """No Flink test."""
    job = Graph("ab")
    with pytest.raises(IllegalEmission, match="no readers"):
        job.emit("b", "b0")


def test_channels_that_form_a_cycle_are_refused() -> None:
    """No Flink test: its iterations take no part in checkpoints."""
    with pytest.raises(ValueError, match="between a, b, c form a cycle"):
        Graph("ab bc ca cd")
    with pytest.raises(ValueError, match="given twice"):
        Graph("ab ab")


def test_start_delay_and_alignment_are_measured_at_the_first_and_the_last_barrier() -> None:
    """AlternatingCheckpointsTest.testMetricsAlternation"""
    job = Graph("ac bc")
    job.now = 100.0
    job.trigger(1)
    job.now = 103.0
    job.read("c", a=1)
    job.now = 107.5
    job.read("c", b=1)

    assert [(job.cuts[chain].start_delay, job.cuts[chain].alignment_duration) for chain in "abc"] == [
        (0.0, 0.0),
        (0.0, 0.0),
        (3.0, 4.5),
    ]


def test_one_input_needs_no_alignment() -> None:
    """AlternatingCheckpointsTest.testMetricsSingleChannel"""
    job = Graph("ab")
    job.trigger(1)
    job.now = 2.0
    job.read("b", a=1)

    assert (job.cuts["b"].start_delay, job.cuts["b"].alignment_duration) == (2.0, 0.0)


def test_what_is_consumed_between_the_first_and_the_last_barrier_is_counted() -> None:
    """AlternatingCheckpointsTest.testMetricsAlternation: the bytes that are processed during the alignment."""
    job = Graph("ac bc")
    job.emit("b", "b1", "b2", "b3")
    job.emit("a", "a1")
    job.trigger(1)
    job.read("c", a=2, b=1)
    job.read("c", b=4)

    assert job.cuts["c"].processed_bytes == 20


def test_entries_that_every_reader_has_committed_are_dropped() -> None:
    """No Flink test: buffers are recycled."""
    job = Graph("ab ac")
    job.emit("a", "a0", "a1", "a2")
    job.read("b", a=3)
    job.read("c", a=2)
    assert job.dropped == {}
    job.commit("b")
    assert job.dropped == {}
    job.read("c")
    assert job.dropped == {"a": 2}
    job.read("c", a=3)
    job.commit("c")
    assert job.dropped == {"a": 3}


def test_a_barrier_whose_entry_is_dropped_still_holds_its_reader() -> None:
    """No Flink test, see above."""
    job = Graph("ac bc")
    job.trigger(1)
    job.read("c", a=1)
    job.commit("c")
    assert job.dropped == {"a": 1}

    job.emit("a", "a0")
    assert job.frontier("ac") == 1
    job.read("c", b=1)
    assert job.is_cut() == "abc"
    assert job.frontier("ac") == 2


def test_the_backlog_is_that_of_the_slowest_reader_or_of_one() -> None:
    """No Flink test: buffers in backlog are counted per subpartition."""
    job = Graph("ab ac")
    job.emit("a", "a0", "a1", "a2")
    job.trigger(1)
    job.read("b", a=2)
    job.read("c", a=3)

    def backlog(reader: str | None = None) -> tuple[int, int]:
        found = job.job.backlog(A, ChainUid(reader) if reader else None)
        return found.records, found.bytes

    assert (backlog(), backlog("b"), backlog("c")) == ((1, 10), (1, 10), (0, 0))
    found = job.job.backlog(B)
    assert (found.records, found.bytes) == (0, 0)


def test_a_cut_of_nothing_is_behind_no_batch() -> None:
    """No Flink test."""
    job = Graph("ab")
    job.trigger(1, unaligned=True)

    assert [job.cuts[chain].batch for chain in "ab"] == [NO_BATCH, NO_BATCH]
