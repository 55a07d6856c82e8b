"""The state behind the emission lock: batches emitted in order, and the cuts between them."""

from __future__ import annotations

import pytest

from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId, OperatorUid
from streamjob.protocol.emissions.cuts import Batch, ChainCut, Effects, Emissions, EmissionSealed, IllegalEmission

A, B = ChainUid("a"), ChainUid("b")
SINK, OTHER_SINK = OperatorUid("sink"), OperatorUid("other")


def batch(number: int, **staged: str) -> Batch:
    return Batch(batch=BatchId(number), staged={OperatorUid(sink): committable for sink, committable in staged.items()})


def checkpoint(number: int) -> CheckpointId:
    return CheckpointId(number)


def cuts(effects: Effects) -> dict[ChainUid, ChainCut]:
    return {cut.chain: cut for cut in effects.cuts}


def test_a_cut_is_the_last_emitted_batch_at_once() -> None:
    """SubtaskCheckpointCoordinatorTest: the source's barrier follows everything that it has emitted"""
    job = Emissions([A])
    job.emit(A, batch(0, sink="f0"))
    job.emit(A, batch(1, sink="f1", other="g1"))

    cut = cuts(job.trigger(checkpoint(1)))[A]
    assert cut.batch == 1
    assert cut.committables == {SINK: ("f0", "f1"), OTHER_SINK: ("g1",)}


def test_a_chain_that_has_emitted_nothing_has_an_empty_cut() -> None:
    """No Flink test: a task always has a first record or none."""
    job = Emissions([A])

    cut = cuts(job.trigger(checkpoint(1)))[A]
    assert (cut.batch, cut.committables) == (NO_BATCH, {})


def test_what_is_emitted_behind_the_cut_does_not_change_it() -> None:
    """AlignedCheckpointsTest.testMultiChannelWithBarriers"""
    job = Emissions([A])
    job.emit(A, batch(0, sink="f0"))
    cut = cuts(job.trigger(checkpoint(1)))[A]
    assert job.emit(A, batch(1, sink="f1")).cuts == ()

    assert (cut.batch, cut.committables) == (0, {SINK: ("f0",)})


def test_the_next_checkpoint_takes_what_was_staged_since_the_last_completed_one() -> None:
    """TwoPhaseCommitSinkFunctionTest.testNotifyOfCompletedCheckpoint"""
    job = Emissions([A])
    job.emit(A, batch(0, sink="f0"))
    job.trigger(checkpoint(1))
    job.emit(A, batch(1, sink="f1"))
    job.complete(checkpoint(1))
    job.complete(checkpoint(1))

    assert cuts(job.trigger(checkpoint(2)))[A].committables == {SINK: ("f1",)}


def test_an_aborted_checkpoint_leaves_its_committables_to_the_next() -> None:
    """TwoPhaseCommitSinkFunctionTest.testSubsumedNotificationOfPreviousCheckpoint"""
    job = Emissions([A])
    job.emit(A, batch(0, sink="f0"))
    job.trigger(checkpoint(1))
    job.abort(checkpoint(1))
    job.emit(A, batch(1, sink="f1"))

    assert cuts(job.trigger(checkpoint(2)))[A].committables == {SINK: ("f0", "f1")}


def test_a_restored_chain_goes_on_behind_its_cut_with_nothing_to_commit() -> None:
    """CheckpointCoordinatorRestoringTest.testRestoreLatestCheckpointedState"""
    job = Emissions([A])
    job.restore(A, BatchId(7))
    cut = cuts(job.trigger(checkpoint(1)))[A]
    assert (cut.batch, cut.committables) == (7, {})

    job.emit(A, batch(8))
    assert job.last_emitted(A) == 8


@pytest.mark.parametrize("number", [0, 2, 7], ids=["again", "a gap", "a jump"])
def test_a_batch_out_of_order_is_illegal(number: int) -> None:
    """No Flink test: Spark might run an emitted batch again after a failed commit."""
    job = Emissions([A])
    job.emit(A, batch(0))
    with pytest.raises(IllegalEmission):
        job.emit(A, batch(number))


def test_a_commit_of_an_uncommitted_batch_is_illegal() -> None:
    """No Flink test, see above."""
    job = Emissions([A])
    with pytest.raises(IllegalEmission):
        job.committed(A, BatchId(0))


def test_a_chain_cannot_be_restored_after_it_has_emitted() -> None:
    """No Flink test."""
    job = Emissions([A])
    job.emit(A, batch(0))
    with pytest.raises(IllegalEmission):
        job.restore(A, BatchId(3))


def test_a_stopping_snapshot_seals_emission_unless_it_fails() -> None:
    """StreamTaskTest.testSavepointSuspendCompleted"""
    job = Emissions([A])
    job.emit(A, batch(0))
    job.trigger(checkpoint(1), seal=True)
    with pytest.raises(EmissionSealed):
        job.emit(A, batch(1))
    job.abort(checkpoint(1))
    job.emit(A, batch(1))

    job.trigger(checkpoint(2), seal=True)
    job.complete(checkpoint(2))
    with pytest.raises(EmissionSealed):
        job.emit(A, batch(2))


def test_all_chains_are_cut_at_one_instant() -> None:
    """CheckpointCoordinatorTest.testTriggerAndConfirmSimpleCheckpoint"""
    job = Emissions([A, B])
    job.emit(A, batch(0))

    assert {chain: cut.batch for chain, cut in cuts(job.trigger(checkpoint(1))).items()} == {A: 0, B: NO_BATCH}


def test_a_channel_between_unknown_chains_is_refused() -> None:
    """No Flink test."""
    with pytest.raises(ValueError, match="unknown chain b"):
        Emissions([A], channels=[(A, B)])


def test_a_checkpoint_is_triggered_once() -> None:
    """SubtaskCheckpointCoordinatorTest: an id never starts again"""
    job = Emissions([A])
    job.trigger(checkpoint(1))
    with pytest.raises(ValueError, match="triggered before"):
        job.trigger(checkpoint(1))
