"""Output is committed once the log names its checkpoint, by the holder of the log at that time."""

from __future__ import annotations

import pytest
from tests.faulty_store import FaultyStore
from tests.unit.protocol.life import SINK, JobEpoch, spoil, without_recovery

from streamjob.ids import CheckpointId, Epoch
from streamjob.protocol.log.committing import Abort, Commit, Recovered, SinkEffect, commit, recover
from streamjob.protocol.log.completing import complete_snapshot
from streamjob.protocol.log.ownership import IllegalStep
from streamjob.protocol.manifests.stored_manifests import SnapshotMissing
from streamjob.snapshot.manifest import SinkState
from streamjob.store.effects import drive


def committed(checkpoint: int) -> Commit:
    return Commit(CheckpointId(checkpoint), (SinkState(uid=SINK, committables=(checkpoint,)),))


def test_a_completion_is_committed_once_the_log_names_it(store: FaultyStore) -> None:
    owner = JobEpoch(store)
    owner.sink.clear()
    owner.checkpoint("a")

    assert owner.sink == [committed(1)]
    assert owner.claim.uncommitted is None


def test_a_claimer_commits_the_newest_completion_again_and_then_aborts_what_earlier_epochs_staged(
    store: FaultyStore,
) -> None:
    first = JobEpoch(store)
    first.checkpoint("a")
    first.checkpoint("b")

    second = JobEpoch(store)

    assert second.sink == [committed(2), Abort(SINK, Epoch(2))]
    assert second.recovered == Recovered(CheckpointId(2))


def test_what_a_sink_that_the_job_has_no_more_has_staged_is_discarded_too(store: FaultyStore) -> None:
    JobEpoch(store).checkpoint("a")
    effects: list[SinkEffect] = []

    drive(store, recover(without_recovery(store).claim, []), perform=effects.append)

    assert effects == [committed(1), Abort(SINK, Epoch(2))]


def test_a_commit_that_fails_may_be_repeated_and_nothing_is_completed_before(store: FaultyStore) -> None:
    owner = JobEpoch(store)
    manifest = owner.begin("a")
    drive(store, complete_snapshot(owner.claim, owner.registry, manifest, 2.0))

    def fail(effect: Commit) -> None:
        raise OSError("the sink is away")

    with pytest.raises(OSError, match="away"):
        drive(store, commit(manifest.id, manifest.sinks), perform=fail)
    with pytest.raises(IllegalStep, match="not yet committed"):
        owner.checkpoint("b")
    drive(store, commit(manifest.id, manifest.sinks), perform=owner.sink.append)
    owner.claim.committed(manifest.id)
    assert owner.claim.uncommitted is None


def test_a_fork_from_an_unreadable_newest_completion_says_that_its_output_is_given_up(store: FaultyStore) -> None:
    first = JobEpoch(store)
    first.checkpoint("a")
    spoil(store, first.checkpoint("b"), "manifest missing")

    fork = JobEpoch(store, wanted="checkpoints/1-1")

    assert fork.recovered.checkpoint is None
    assert "checkpoints/1-2" in str(fork.recovered.uncommittable)
    assert fork.sink == [Abort(SINK, Epoch(2))]


def test_without_a_fork_an_unreadable_newest_completion_is_an_error(store: FaultyStore) -> None:
    first = JobEpoch(store)
    spoil(store, first.checkpoint("a"), "manifest missing")

    with pytest.raises(SnapshotMissing):
        drive(store, recover(without_recovery(store).claim, [SINK]), perform=lambda effect: None)


def test_a_finished_job_is_committed_again(store: FaultyStore) -> None:
    first = JobEpoch(store)
    final = first.begin("a").model_copy(update={"kind": "final"})
    first.complete(final)

    second = JobEpoch(store)

    assert second.claim.finished
    assert second.sink[0] == committed(1)
