"""Snapshots that another job starts from and owns from then on: exactly one of it and the former owner wins."""

from __future__ import annotations

import pytest
from tests.faulty_store import Fault, FaultyStore, ScriptedFaults
from tests.unit.protocol.life import JobEpoch, key_of, manifest_of, objects, once, spoil, stored

from streamjob.errors import ExitCode
from streamjob.ids import Key
from streamjob.protocol.log.claiming import CannotClaim, CreateOutside, Marker, claim_snapshot
from streamjob.protocol.log.deleting_garbage import CannotCollect, Collected
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import ClaimMode
from streamjob.protocol.manifests.stored_manifests import SnapshotMissing, encode_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import AccessDenied, StoreUnavailable
from streamjob.store.effects import Program, StoreEffect, drive
from streamjob.testing.memory_store import MemoryStore

OTHER = JobId("tests", "other")


def claim_for(store: FaultyStore, manifest: Manifest, job: JobId = OTHER, root: str = "memory:///other/") -> None:
    """Claim a checkpoint by its absolute URI, as a job with another root does."""

    def create(effect: object) -> bool:
        assert isinstance(effect, CreateOutside)
        return store.put_if_absent(Key(effect.uri.removeprefix(store.uri)), effect.content)

    drive(store, claim_snapshot(store.uri + key_of(manifest), job, root), perform=create)


def marker_of(manifest: Manifest) -> Key:
    return Key(keys.claim_marker(key_of(manifest)))


def test_a_checkpoint_that_another_job_has_claimed_is_spared_with_its_files_in_all_epochs(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    claimed = owner.checkpoint("claimed", "shared")
    claim_for(store, claimed)
    owner.checkpoint("shared", "b")
    owner.collect()
    owner.checkpoint("c")
    owner.collect()
    later = JobEpoch(store, num_retained=1)
    kept = later.checkpoint("d")
    later.collect()

    assert stored(store, "shared/") == objects(claimed, kept)
    assert stored(store, "checkpoints/") == {key_of(claimed), marker_of(claimed), key_of(kept)}


def test_of_a_claimer_and_an_owner_that_deletes_exactly_one_wins_whenever_the_claimer_comes() -> None:
    outcomes = []
    for steps in range(20):
        store = FaultyStore(MemoryStore())
        owner = JobEpoch(store, num_retained=1)
        wanted = owner.checkpoint("wanted")
        owner.collect()
        owner.checkpoint("b")
        program = owner.collector.collect(owner.completion, 1)
        effect: StoreEffect | None = next(program)
        for _ in range(steps):
            effect = _step(store, program, effect)
        try:
            claim_for(store, wanted)
        except (CannotClaim, SnapshotMissing):
            outcomes.append("owner")
        else:
            outcomes.append("claimer")
        while effect is not None:
            effect = _step(store, program, effect)

        is_there = key_of(wanted) in stored(store, "checkpoints/")
        assert is_there == (objects(wanted) <= stored(store, "shared/")) == (outcomes[-1] == "claimer")
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {"claimer", "owner"}


def _step(store: FaultyStore, program: Program[Collected], effect: StoreEffect | None) -> StoreEffect | None:
    """Perform an effect and return the next; None at the end."""
    if effect is None:
        return None
    try:
        return program.send(drive(store, once(effect)))
    except StopIteration:
        return None


def test_a_claimer_whose_marker_is_late_notices_that_the_snapshot_is_gone(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    wanted = owner.checkpoint("a")
    owner.checkpoint("b")
    owner.collect()

    with pytest.raises(CannotClaim, match="was deleted by its job") as raised:
        claim_for(store, wanted)
    assert raised.value.exit_code is ExitCode.CANNOT_RESTORE
    later = JobEpoch(store, num_retained=1)
    kept = later.checkpoint("c")
    later.collect()
    assert stored(store, "checkpoints/") == {key_of(kept)}, "a marker without a manifest is garbage"


def test_the_marker_of_an_owner_that_died_does_not_stop_the_next_one_from_deleting(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    doomed = owner.checkpoint("a")
    owner.checkpoint("b")
    store.plan = ScriptedFaults([Fault.BEFORE], verbs=["delete"])
    with pytest.raises(StoreUnavailable):
        owner.collect()
    assert marker_of(doomed) in stored(store, "checkpoints/")
    with pytest.raises(CannotClaim, match="is being deleted"):
        claim_for(store, doomed)
    later = JobEpoch(store, num_retained=1)
    kept = later.checkpoint("c")
    later.collect()

    assert stored(store, "checkpoints/") == {key_of(kept)}
    assert stored(store, "shared/") == objects(kept)


def test_a_snapshot_has_one_claimer_which_may_claim_it_again(store: FaultyStore) -> None:
    claimed = JobEpoch(store).checkpoint("a")
    claim_for(store, claimed)
    claim_for(store, claimed)

    with pytest.raises(CannotClaim, match="claimed by job tests/other at memory:///other/ already") as raised:
        claim_for(store, claimed, JobId("tests", "third"))
    assert "--claim-mode no-claim" in raised.value.fix
    with pytest.raises(CannotClaim):
        claim_for(store, claimed, root="memory:///another-place/")


def test_a_snapshot_in_a_place_that_cannot_be_written_to_is_claimed_once_it_can(store: FaultyStore) -> None:
    claimed = JobEpoch(store).checkpoint("a")
    plan = store.plan

    def refuse(verb: str, key: str) -> None:
        if verb == "put_if_absent":
            raise AccessDenied("the bucket is read-only", "allow s3:PutObject")

    store.plan = refuse
    with pytest.raises(AccessDenied, match="cannot be marked as claimed: the bucket is read-only") as raised:
        claim_for(store, claimed)
    assert raised.value.fix.startswith("allow s3:PutObject; or start with --claim-mode no-claim")
    store.plan = plan

    claim_for(store, claimed)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"formatVersion": 2, "kind": "deletion"}'])
def test_a_marker_that_cannot_be_read_is_nobodys_to_pass_over(store: FaultyStore, content: bytes) -> None:
    owner = JobEpoch(store, num_retained=1)
    marked = owner.checkpoint("a")
    store.put(marker_of(marked), content)
    with pytest.raises(CannotClaim, match="is not a valid marker"):
        claim_for(store, marked)
    owner.checkpoint("b")
    owner.collect()

    assert key_of(marked) in stored(store, "checkpoints/")
    assert objects(marked) <= stored(store, "shared/")


def test_nothing_is_deleted_while_a_claimed_manifest_cannot_be_read(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    claimed = owner.checkpoint("a")
    claim_for(store, claimed)
    spoil(store, claimed, "manifest corrupt")
    owner.checkpoint("b")
    store.calls.clear()

    with pytest.raises(CannotCollect, match="another job has claimed"):
        owner.collect()
    assert "delete" not in store.calls
    store.delete([marker_of(claimed)])
    owner.collect()
    assert key_of(claimed) not in stored(store, "checkpoints/")


@pytest.mark.parametrize("fault", list(Fault))
def test_a_marker_of_unknown_outcome_is_asked_for_again(store: FaultyStore, fault: Fault) -> None:
    owner = JobEpoch(store, num_retained=1)
    owner.checkpoint("a")
    kept = owner.checkpoint("b")
    store.plan = ScriptedFaults([fault], verbs=["put_if_absent"])
    with pytest.raises(StoreUnavailable):
        owner.collect()
    assert len(stored(store, "shared/")) == 2
    owner.collect()

    assert stored(store, "shared/") == objects(kept)
    assert stored(store, "checkpoints/") == {key_of(kept)}


def test_only_snapshots_that_the_jobs_own_log_does_not_name_are_to_be_claimed(store: FaultyStore) -> None:
    JobEpoch(store).checkpoint("a")
    store.put(Key("elsewhere/old-77-x"), encode_manifest(manifest_of(4, 77, kind="savepoint")))
    life = JobEpoch(store)

    assert not life.resolution.to_be_claimed
    assert life.resolve("s3://savepoints/old-77-x").to_be_claimed
    life.mode = ClaimMode.NO_CLAIM
    assert not life.resolve("s3://savepoints/old-77-x").to_be_claimed
    assert not life.resolve("none").to_be_claimed


def test_a_marker_says_who_and_what_for() -> None:
    content = Marker(kind="claim", job="other", namespace="tests", root="memory:///other/").encoded()

    assert content == (
        b'{"formatVersion":1,"kind":"claim","job":"other","namespace":"tests","root":"memory:///other/"}'
    )
