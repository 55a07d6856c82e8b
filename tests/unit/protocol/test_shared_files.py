"""The files that a new checkpoint reuses instead of uploading them, and the keys of its uploads."""

from __future__ import annotations

import pytest
from tests.faulty_store import FaultyStore
from tests.unit.protocol.life import JobEpoch, file_ref, manifest_of, objects, sha256_of, stored

from streamjob.ids import CheckpointId, Epoch, Key
from streamjob.protocol.log.ownership import IllegalStep
from streamjob.protocol.log.registry import Location, Registry, own_key
from streamjob.snapshot import keys


def test_a_file_of_the_restored_newest_checkpoint_is_referred_to_and_not_uploaded_again(store: FaultyStore) -> None:
    first = JobEpoch(store).checkpoint("same", "old")

    second = JobEpoch(store).checkpoint("same", "new")

    assert next(first.files()).object == next(second.files()).object
    assert {keys.shared_epoch(Key(name)) for name in second.objects()} == {1, 2}


def test_after_a_fork_the_first_checkpoint_is_full(store: FaultyStore) -> None:
    first = JobEpoch(store)
    first.checkpoint("same")
    first.checkpoint("same", "more")

    fork = JobEpoch(store, wanted="checkpoints/1-1").checkpoint("same", "more")

    assert {keys.shared_epoch(Key(name)) for name in fork.objects()} == {2}


def test_retained_checkpoints_of_earlier_epochs_are_not_built_upon(store: FaultyStore) -> None:
    first = JobEpoch(store)
    first.checkpoint("old")
    first.checkpoint("new")
    second = JobEpoch(store, num_retained=3)
    second.checkpoint("new")
    second.collect()

    assert {keys.shared_epoch(Key(name)) for name in second.checkpoint("old").objects()} == {2}


def test_several_files_may_share_an_object() -> None:
    registry = Registry(Epoch(1))
    registry.begin(CheckpointId(1))
    key = registry.allocate(CheckpointId(1), sha256_of("pack"))
    registry.completed(manifest_of(1, 1, (file_ref("pa", key), file_ref("ck", key, 2))))
    registry.begin(CheckpointId(2))

    assert registry.reuse(CheckpointId(2), sha256_of("ck"), 2) == Location(key, 2)


def test_a_key_that_was_given_up_is_never_written_again(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    first = owner.checkpoint("comes back")
    owner.checkpoint("other")
    owner.collect()

    again = owner.checkpoint("comes back")

    assert not objects(first) & objects(again)
    assert next(iter(again.objects())) == next(iter(first.objects())) + "-1"


def test_keys_that_were_given_up_long_ago_and_are_forgotten_are_not_written_again_either() -> None:
    registry = Registry(Epoch(1), remembered=3)
    given_up: set[Key] = set()
    for number in range(1, 40):
        registry.begin(CheckpointId(number))
        key = registry.allocate(CheckpointId(number), sha256_of(str(number % 5)))
        assert key not in given_up
        registry.aborted(CheckpointId(number))
        given_up |= registry.condemn(())
        assert key in given_up


def test_the_same_content_has_one_key_within_a_checkpoint() -> None:
    registry = Registry(Epoch(1))
    registry.begin(CheckpointId(1))

    assert registry.allocate(CheckpointId(1), "ab" * 32) == registry.allocate(CheckpointId(1), "ab" * 32)


def test_a_pending_checkpoint_protects_what_it_was_handed(store: FaultyStore) -> None:
    owner = JobEpoch(store, num_retained=1)
    owner.checkpoint("kept")
    owner.checkpoint("dropped", "kept")
    dropped = owner.checkpoint("dropped")
    pending = owner.begin("dropped", "fresh")
    owner.collect()

    assert objects(pending) | objects(dropped) <= stored(store, "shared/")
    owner.completion = owner.complete(pending)
    owner.collect()
    assert stored(store, "shared/") == objects(pending)


def test_a_file_that_only_a_pending_checkpoint_refers_to_outlives_the_one_that_it_came_from(
    store: FaultyStore,
) -> None:
    owner = JobEpoch(store, num_retained=1)
    owner.checkpoint("shared")
    pending = owner.begin("shared")
    registry = owner.registry

    assert registry.condemn(registry.subsume([CheckpointId(1)])) == frozenset()
    registry.aborted(pending.id)
    assert registry.condemn(()) == objects(pending)


def test_objects_of_later_epochs_are_spared() -> None:
    registry = Registry(Epoch(3))
    later, own, earlier = (keys.shared_file(Epoch(epoch), "ab" * 32) for epoch in (4, 3, 2))

    assert registry.condemn([later, own, earlier, Key("shared/stranger")]) == {own, earlier}


def test_a_manifest_that_refers_to_what_nothing_protects_is_not_completed(store: FaultyStore) -> None:
    owner = JobEpoch(store)
    manifest = owner.begin("a")
    loose = manifest.model_copy(update={"chains": manifest_of(1, 1, (file_ref("x", "shared/xx/x"),)).chains})

    with pytest.raises(IllegalStep, match="nothing protects"):
        owner.complete(loose)


@pytest.mark.parametrize("misuse", ["unbegun", "twice"])
def test_checkpoints_begin_once(misuse: str) -> None:
    registry = Registry(Epoch(1))
    if misuse == "twice":
        registry.begin(CheckpointId(1))
    with pytest.raises(IllegalStep):
        registry.begin(CheckpointId(1)) if misuse == "twice" else registry.allocate(CheckpointId(1), "ab" * 32)


def test_a_uri_into_the_jobs_own_files_is_recognised() -> None:
    assert own_key("s3://bucket/ns/job/shared/ab/1-cd") == "shared/ab/1-cd"
    assert own_key("shared/ab/1-cd") == "shared/ab/1-cd"
