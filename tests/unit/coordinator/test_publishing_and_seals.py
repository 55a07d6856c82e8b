"""Batches are published before they are emitted, and none behind the cut of a snapshot that stops the job."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.coordinator.test_cuts import A, B, batch, checkpoint, cuts

from streamjob.ids import NO_BATCH, BatchId, ChainUid
from streamjob.protocol.emissions.cuts import Emissions, EmissionSealed
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock


def test_a_stopping_snapshot_cuts_all_chains_behind_the_batch_that_is_being_published() -> None:
    job = Emissions([A, B])
    assert job.publish(A)
    assert cuts(job.trigger(checkpoint(1), seal=True)) == {}
    job.emit(B, batch(0))

    found = cuts(job.emit(A, batch(0, sink="f0")))
    assert {chain: cut.batch for chain, cut in found.items()} == {A: 0, B: 0}
    assert found[A].committables == {"sink": ("f0",)}
    with pytest.raises(EmissionSealed):
        job.emit(B, batch(1))


def test_a_stopping_snapshot_waits_for_each_batch_that_is_being_published() -> None:
    job = Emissions([A, B])
    assert job.publish(A)
    assert job.publish(B)
    job.trigger(checkpoint(1), seal=True)
    assert job.emit(A, batch(0)).cuts == ()
    assert not job.publish(A)
    assert cuts(job.emit(B, batch(0))).keys() == {A, B}


def test_both_sinks_of_a_batch_may_publish_it_though_a_snapshot_waits() -> None:
    job = Emissions([A])
    assert job.publish(A)
    job.trigger(checkpoint(1), seal=True)
    assert job.publish(A)


def test_nothing_is_published_behind_the_cut_of_a_stopping_snapshot_unless_it_fails() -> None:
    job = Emissions([A])
    job.trigger(checkpoint(1), seal=True)
    assert not job.publish(A)
    job.abort(checkpoint(1))
    assert job.publish(A)


def test_a_stopping_snapshot_that_fails_while_it_waits_cuts_nothing() -> None:
    job = Emissions([A])
    assert job.publish(A)
    job.trigger(checkpoint(1), seal=True)
    job.abort(checkpoint(1))
    assert job.emit(A, batch(0)).cuts == ()
    assert cuts(job.trigger(checkpoint(2)))[A].batch == 0


def test_a_stopping_snapshot_that_becomes_unaligned_while_it_waits_cuts_all_chains_at_once() -> None:
    job = Emissions([A, B], [(A, B)])
    assert job.publish(A)
    job.trigger(checkpoint(1), seal=True)
    assert job.switch(checkpoint(1)).cuts == ()
    found = cuts(job.emit(A, batch(0)))
    assert {chain: cut.unaligned for chain, cut in found.items()} == {A: True, B: True}


def test_a_stopping_snapshot_waits_until_all_that_was_published_has_run_again() -> None:
    job = Emissions([A])
    job.restore(A, BatchId(3))
    job.run_again(A, BatchId(5))
    job.trigger(checkpoint(1), seal=True)
    assert job.emit(A, batch(4)).cuts == ()
    assert cuts(job.emit(A, batch(5)))[A].batch == 5


def test_a_checkpoint_that_does_not_stop_the_job_waits_for_no_batch() -> None:
    job = Emissions([A])
    assert job.publish(A)
    assert cuts(job.trigger(checkpoint(1)))[A].batch == NO_BATCH
    assert job.publish(A)


def test_nothing_is_published_before_a_first_checkpoint_has_completed() -> None:
    job = Emissions([A])
    job.await_base()
    job.trigger(checkpoint(1))
    assert not job.publish(A)
    job.complete(checkpoint(1))
    assert job.publish(A)


def test_a_completed_checkpoint_covers_the_batches_up_to_its_cut() -> None:
    job = Emissions([A, B])
    job.restore(B, BatchId(3))
    job.emit(A, batch(0))
    job.trigger(checkpoint(1))
    job.emit(A, batch(1))
    assert (job.last_covered(A), job.last_covered(B)) == (NO_BATCH, 3)
    job.complete(checkpoint(1))
    assert (job.last_covered(A), job.last_covered(B)) == (0, 3)


steps = st.lists(st.tuples(st.sampled_from(["publish", "emit", "seal", "cut", "complete", "abort"]), st.booleans()))


@given(steps)
def test_a_stopping_snapshot_covers_all_that_was_published_whatever_happens(steps: list[tuple[str, bool]]) -> None:
    job = Emissions([A, B])
    emitted = {A: -1, B: -1}
    published = dict(emitted)
    cut_at: dict[ChainUid, int] = {}
    under_way: tuple[int, bool] | None = None
    last, stopped = 0, False
    for step, first in steps:
        chain = A if first else B
        effects = None
        if step == "publish" and job.publish(chain):
            published[chain] = emitted[chain] + 1
        elif step == "emit" and not job.is_sealed(chain):
            emitted[chain] += 1
            effects = job.emit(chain, batch(emitted[chain]))
        elif step in ("seal", "cut") and under_way is None and not stopped:
            last += 1
            under_way, cut_at = (last, step == "seal"), {}
            effects = job.trigger(checkpoint(last), seal=step == "seal")
        elif step == "complete" and under_way is not None and cut_at.keys() == {A, B}:
            job.complete(checkpoint(last))
            stopped, under_way = under_way[1], None
        elif step == "abort" and under_way is not None:
            job.abort(checkpoint(last))
            under_way = None
        for cut in effects.cuts if effects is not None else ():
            cut_at[cut.chain] = cut.batch
        if cut_at and (stopped or (under_way is not None and under_way[1])):
            assert all(published[each] <= batch for each, batch in cut_at.items())


def test_a_batch_waits_until_the_stopping_snapshot_has_failed_and_a_stop_ends_its_waiting() -> None:
    lock = EmissionLock(Emissions([A]))
    lock.trigger(checkpoint(1), seal=True, unaligned=False)
    assert not lock.wait_to_publish(A, lambda: True)
    went_on = threading.Event()

    def publish() -> None:
        assert lock.wait_to_publish(A, lambda: False)
        went_on.set()

    threading.Thread(target=publish, daemon=True).start()
    assert not went_on.wait(0.2)
    lock.abort(checkpoint(1))
    assert went_on.wait(10)


def test_a_batch_asks_for_a_checkpoint_until_one_covers_the_batch_before_it() -> None:
    lock = EmissionLock(Emissions([A]))
    lock.emit(A, batch(0))
    asked: list[str] = []

    def ask() -> None:
        asked.append("checkpoint")
        lock.trigger(checkpoint(1), seal=False, unaligned=False)
        lock.complete(checkpoint(1))

    lock.wait_until_covered(A, BatchId(0), lambda: False, ask)
    assert asked == ["checkpoint"]
    lock.wait_until_covered(A, BatchId(0), lambda: False, ask)
    assert asked == ["checkpoint"]
