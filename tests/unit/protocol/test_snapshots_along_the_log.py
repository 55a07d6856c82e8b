"""Restoring, reusing, retaining, publishing and deleting: what follows from what the log names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.protocol.life import (
    JOB,
    SINK,
    Life,
    file_ref,
    key_of,
    manifest_of,
    objects,
    once,
    sha256_of,
    spoil,
    stored,
)

from streamjob.errors import ExitCode, Superseded
from streamjob.ids import Attempt, CheckpointId, Epoch, Key, LogSeq, Owner
from streamjob.protocol.collector import CannotCollect, Collected, Collector
from streamjob.protocol.completing import complete_snapshot
from streamjob.protocol.log import encode_record
from streamjob.protocol.manifests import (
    SnapshotCorrupt,
    SnapshotMissing,
    UnknownManifestVersion,
    encode_manifest,
)
from streamjob.protocol.ownership import Claim, Identity, IllegalStep, claim, unless_superseded
from streamjob.protocol.publishing import Abort, Commit, Recovered, publish, recover
from streamjob.protocol.registry import Location, Registry, own_key
from streamjob.protocol.restore import ClaimMode, LatestUnusable, NoSnapshot, NotCompleted, resolve
from streamjob.protocol.retention import subsumed
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import StoreUnavailable
from streamjob.store.effects import Delete, Program, StoreEffect, drive
from streamjob.testing.memory_store import Fault, FaultyStore, MemoryStore, ScriptedFaults


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore())


# Restoring


def test_latest_of_an_empty_log_is_a_fresh_start(store: FaultyStore) -> None:
    resolution = Life(store).resolution

    assert (resolution.manifest, resolution.fork, resolution.last_id) == (None, False, 0)


def test_a_required_snapshot_that_is_not_there_is_an_error(store: FaultyStore) -> None:
    with pytest.raises(NoSnapshot) as raised:
        Life(store).resolve(require=True)
    assert raised.value.exit_code is ExitCode.CANNOT_RESTORE


def test_latest_is_the_newest_completion_below_the_claim(store: FaultyStore) -> None:
    first = Life(store)
    first.checkpoint("a")
    newest = first.checkpoint("b")

    resolution = Life(store).resolution

    assert (resolution.manifest, resolution.fork, resolution.reusable, resolution.last_id) == (newest, False, True, 2)


def test_a_checkpoint_that_the_log_does_not_name_does_not_exist(store: FaultyStore) -> None:
    first = Life(store)
    named = first.checkpoint("a")
    unnamed = manifest_of(1, 9)
    store.put(key_of(unnamed), encode_manifest(unnamed))
    second = Life(store)

    assert second.resolution.manifest == named
    with pytest.raises(NotCompleted, match="checkpoints/1-9"):
        second.resolve(store.uri + "checkpoints/1-9")


@pytest.mark.parametrize("form", ["checkpoints/1-1", "checkpoints/1-1/", "checkpoints/1-1/manifest.json", "URI"])
def test_an_older_checkpoint_is_a_fork_that_refers_to_none_of_its_files(store: FaultyStore, form: str) -> None:
    first = Life(store)
    older = first.checkpoint("a")
    first.checkpoint("b")

    resolution = Life(store).resolve(store.uri + "checkpoints/1-1" if form == "URI" else form)

    assert (resolution.manifest, resolution.fork, resolution.reusable, resolution.last_id) == (older, True, False, 2)


def test_none_on_a_log_with_completions_is_a_fork(store: FaultyStore) -> None:
    Life(store).checkpoint("a")

    resolution = Life(store).resolve("none")

    assert (resolution.manifest, resolution.fork, resolution.last_id) == (None, True, 1)


def test_the_newest_checkpoint_by_name_is_no_fork(store: FaultyStore) -> None:
    Life(store).checkpoint("a")

    assert not Life(store).resolve("checkpoints/1-1").fork


def test_a_snapshot_from_elsewhere_is_read_and_its_files_are_not_referred_to(store: FaultyStore) -> None:
    store.put(Key("elsewhere/old-77-x"), encode_manifest(manifest_of(4, 77, kind="savepoint")))

    resolution = Life(store).resolve("s3://savepoints/old-77-x")

    assert (resolution.fork, resolution.reusable, resolution.record) == (False, False, None)
    assert resolution.last_id == 77, "sinks remember ids"


def test_a_savepoint_in_the_log_is_what_latest_restores_and_its_files_are_not_referred_to(store: FaultyStore) -> None:
    first = Life(store)
    first.checkpoint("a")
    savepoint = first.savepoint("s3://savepoints/job-2-x/manifest.json")

    resolution = Life.resolve(_without_recovery(store))

    assert (resolution.manifest, resolution.fork, resolution.reusable) == (savepoint, False, False)


def _without_recovery(store: FaultyStore) -> Life:
    owner = Life.__new__(Life)
    owner.store, owner.mode = store, ClaimMode.CLAIM
    owner.held = drive(store, claim(Identity(job=JOB, owner=Owner("reader"), attempt=Attempt(0)), 1.0))
    return owner


def test_no_claim_refers_to_no_file_of_the_snapshot(store: FaultyStore) -> None:
    Life(store).checkpoint("a")

    assert not Life(store, mode=ClaimMode.NO_CLAIM).resolution.reusable


SPOILT = ["manifest missing", "manifest corrupt", "file missing", "file truncated", "unknown version"]


@pytest.mark.parametrize("how", [*SPOILT, "another's manifest"])
def test_an_unusable_newest_checkpoint_is_an_error_that_names_a_whole_older_one(store: FaultyStore, how: str) -> None:
    first = Life(store)
    first.checkpoint("a")
    spoil(store, first.checkpoint("b"), how)

    with pytest.raises(LatestUnusable, match="checkpoint 2") as raised:
        _without_recovery(store).resolve()
    assert "checkpoint 1 is whole: start with --from checkpoints/1-1/manifest.json" in raised.value.fix


def test_an_older_checkpoint_that_is_not_whole_either_is_not_proposed(store: FaultyStore) -> None:
    first = Life(store)
    spoil(store, first.checkpoint("a"), "file missing")
    spoil(store, first.checkpoint("b"), "file missing")

    with pytest.raises(LatestUnusable) as raised:
        _without_recovery(store).resolve()
    assert "no older completion is whole" in raised.value.fix


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("manifest missing", SnapshotMissing),
        ("manifest corrupt", SnapshotCorrupt),
        ("unknown version", UnknownManifestVersion),
        ("another's manifest", SnapshotCorrupt),
    ],
)
def test_an_unusable_older_checkpoint_that_was_asked_for_is_an_error(
    store: FaultyStore, how: str, error: type[Exception]
) -> None:
    first = Life(store)
    first.checkpoint("a")
    spoil(store, first.checkpoint("b"), how)
    first.checkpoint("c")

    with pytest.raises(error, match="checkpoints/1-2"):
        Life(store).resolve("checkpoints/1-2")


def test_what_a_superseded_owner_misses_is_no_damage(store: FaultyStore) -> None:
    first = Life(store)
    spoil(store, first.checkpoint("a"), "manifest missing")
    reader = _without_recovery(store)
    program = resolve(reader.held.below, root=store.uri)
    with pytest.raises(LatestUnusable):
        drive(store, unless_superseded(reader.held, resolve(reader.held.below, root=store.uri)))
    _without_recovery(store)

    with pytest.raises(Superseded):
        drive(store, unless_superseded(reader.held, program))


# Reusing


def test_a_file_of_the_restored_newest_checkpoint_is_referred_to_and_not_uploaded_again(store: FaultyStore) -> None:
    first = Life(store).checkpoint("same", "old")

    second = Life(store).checkpoint("same", "new")

    assert next(first.files()).object == next(second.files()).object
    assert {keys.shared_epoch(Key(name)) for name in second.objects()} == {1, 2}


def test_after_a_fork_the_first_checkpoint_is_full(store: FaultyStore) -> None:
    first = Life(store)
    first.checkpoint("same")
    first.checkpoint("same", "more")

    fork = Life(store, wanted="checkpoints/1-1").checkpoint("same", "more")

    assert {keys.shared_epoch(Key(name)) for name in fork.objects()} == {2}


def test_retained_checkpoints_of_earlier_epochs_are_not_built_upon(store: FaultyStore) -> None:
    first = Life(store)
    first.checkpoint("old")
    first.checkpoint("new")
    second = Life(store, num_retained=3)
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
    owner = Life(store, num_retained=1)
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
    owner = Life(store, num_retained=1)
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
    owner = Life(store, num_retained=1)
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
    owner = Life(store)
    manifest = owner.begin("a")
    loose = manifest.model_copy(update={"chains": manifest_of(1, 1, (file_ref("x", "shared/xx/x"),)).chains})

    with pytest.raises(IllegalStep, match="nothing protects"):
        owner.complete(loose)


@pytest.mark.parametrize("misuse", ["unbegun", "twice"])
def test_checkpoints_beginonce(misuse: str) -> None:
    registry = Registry(Epoch(1))
    if misuse == "twice":
        registry.begin(CheckpointId(1))
    with pytest.raises(IllegalStep):
        registry.begin(CheckpointId(1)) if misuse == "twice" else registry.allocate(CheckpointId(1), "ab" * 32)


def test_a_uri_into_the_jobs_own_files_is_recognised() -> None:
    assert own_key("s3://bucket/ns/job/shared/ab/1-cd") == "shared/ab/1-cd"
    assert own_key("shared/ab/1-cd") == "shared/ab/1-cd"


# Retaining


def checkpoint_records(count: int) -> Iterator[LogRecord]:
    for number in range(1, count + 1):
        yield LogRecord(
            seq=LogSeq(number),
            kind=RecordKind.CHECKPOINT,
            epoch=Epoch(1),
            owner=Owner("o"),
            attempt=Attempt(0),
            id=CheckpointId(number),
            manifest=f"checkpoints/1-{number}/manifest.json",
            time=0.0,
        )


@pytest.mark.parametrize(("count", "num_retained", "dropped"), [(0, 1, []), (2, 3, []), (4, 3, [1]), (4, 1, [1, 2, 3])])
def test_the_newest_checkpoints_are_retained(count: int, num_retained: int, dropped: list[int]) -> None:
    assert [record.id for record in subsumed(list(checkpoint_records(count)), num_retained)] == dropped


def test_manifests_are_deleted_before_their_files(store: FaultyStore) -> None:
    owner = Life(store, num_retained=1)
    first = owner.checkpoint("a")
    owner.checkpoint("b")
    store.plan = ScriptedFaults([None, Fault.BEFORE], verbs=["delete"])
    with pytest.raises(StoreUnavailable):
        owner.collect()

    assert key_of(first) not in stored(store, "checkpoints/")
    assert objects(first) <= stored(store, "shared/")


def test_at_least_one_checkpoint_is_retained() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        subsumed(list(checkpoint_records(2)), 0)


def test_savepoints_neither_count_nor_are_deleted(store: FaultyStore) -> None:
    owner = Life(store, num_retained=1)
    kept = owner.checkpoint("a")
    owner.savepoint("s3://savepoints/job-2-x/manifest.json")
    owner.savepoint("s3://savepoints/job-3-x/manifest.json")

    assert owner.collect().subsumed == ()
    assert stored(store, "shared/") == objects(kept)
    assert stored(store, "elsewhere/") == {"elsewhere/job-2-x", "elsewhere/job-3-x"}


# Deleting


def test_a_subsumed_checkpoint_goes_with_the_files_that_only_it_refers_to(store: FaultyStore) -> None:
    owner = Life(store)
    first = owner.checkpoint("own", "shared")
    second, third = owner.checkpoint("shared", "b"), owner.checkpoint("shared", "c")

    collected = owner.collect()

    assert [record.id for record in collected.subsumed] == [first.id]
    assert stored(store, "shared/") == objects(second, third)
    assert stored(store, "checkpoints/") == {key_of(second), key_of(third)}


def test_the_first_collection_sweeps_what_crashed_epochs_left(store: FaultyStore) -> None:
    crashed = Life(store)
    crashed.checkpoint("a")
    begun = crashed.begin("uploaded")
    store.put(key_of(begun), encode_manifest(begun))
    owner = Life(store, num_retained=1)
    kept = owner.checkpoint("b")

    assert owner.collect().swept
    assert stored(store, "shared/") == objects(kept)
    assert stored(store, "checkpoints/") == {key_of(kept)}


def test_only_the_first_collection_of_an_epoch_lists_the_store(store: FaultyStore) -> None:
    owner = Life(store, num_retained=1)
    owner.checkpoint("a")
    owner.collect()
    owner.checkpoint("b")
    owner.collect()
    owner.checkpoint("c")
    store.calls.clear()

    assert not owner.collect().swept
    assert dict(store.calls) == {"list": 1, "put_if_absent": 1, "delete": 2}


def test_files_of_an_aborted_checkpoint_are_deleted_in_the_same_epoch(store: FaultyStore) -> None:
    owner = Life(store, num_retained=1)
    owner.checkpoint("a")
    owner.collect()
    aborted = owner.begin("b")
    store.put(key_of(aborted), encode_manifest(aborted))
    owner.registry.aborted(aborted.id)
    kept = owner.checkpoint("c")
    owner.collect()

    assert stored(store, "shared/") == objects(kept)
    assert stored(store, "checkpoints/") == {key_of(kept)}


def test_a_manifest_that_is_about_to_be_completed_is_not_swept(store: FaultyStore) -> None:
    owner = Life(store)
    owner.checkpoint("a")
    pending = owner.begin("b")
    store.put(key_of(pending), encode_manifest(pending))
    owner.collect()

    assert key_of(pending) in stored(store, "checkpoints/")


@pytest.mark.parametrize("how", ["manifest missing", "manifest corrupt", "unknown version"])
def test_a_retained_manifest_that_cannot_be_read_stops_deletion_until_it_is_subsumed(
    store: FaultyStore, how: str
) -> None:
    first = Life(store)
    spoilt = first.checkpoint("a")
    first.checkpoint("b")
    owner = Life(store, num_retained=3)
    spoil(store, spoilt, how)
    owner.checkpoint("c")
    store.calls.clear()

    with pytest.raises(CannotCollect, match="checkpoint 1 is retained"):
        owner.collect()
    assert "delete" not in store.calls
    owner.checkpoint("d")
    assert owner.collect().swept
    assert key_of(spoilt) not in stored(store, "checkpoints/")


def test_nothing_is_deleted_once_the_log_is_lost(store: FaultyStore) -> None:
    owner = Life(store, num_retained=1)
    owner.checkpoint("a")
    owner.checkpoint("b")
    _without_recovery(store)
    store.calls.clear()

    with pytest.raises(Superseded):
        owner.collect()
    assert "delete" not in store.calls


def test_deletion_that_a_stopped_owner_resumes_spares_all_that_its_successor_builds_on(store: FaultyStore) -> None:
    stopped = Life(store, num_retained=1)
    stopped.checkpoint("a", "kept")
    stopped.checkpoint("b", "kept")
    program = stopped.collector.collect(stopped.completion, 1)
    pending = next(program)
    while not isinstance(pending, Delete):
        pending = program.send(drive(store, once(pending)))
    successor = Life(store)
    kept = successor.checkpoint("a", "b", "kept")

    assert drive(store, _resumed(program, pending)).files
    assert objects(kept) <= stored(store, "shared/")


def _resumed(program: Program[Collected], effect: StoreEffect) -> Program[Collected]:
    """Go on with a program that was stopped before an effect."""
    try:
        while True:
            effect = program.send((yield effect))
    except StopIteration as end:
        result: Collected = end.value
    return result


@pytest.mark.parametrize("fault", list(Fault))
def test_a_failed_deletion_is_made_up_for_in_the_next_collection(store: FaultyStore, fault: Fault) -> None:
    owner = Life(store, num_retained=1)
    owner.checkpoint("a")
    owner.checkpoint("b")
    store.plan = ScriptedFaults([fault], verbs=["delete"])
    with pytest.raises(StoreUnavailable):
        owner.collect()
    kept = owner.checkpoint("c")
    owner.collect()

    assert stored(store, "shared/") == objects(kept)
    assert stored(store, "checkpoints/") == {key_of(kept)}


def test_files_stay_as_long_as_their_manifest_could_not_be_deleted(store: FaultyStore) -> None:
    owner = Life(store, num_retained=1)
    first = owner.checkpoint("a")
    owner.checkpoint("b")
    store.plan = ScriptedFaults([Fault.BEFORE], verbs=["delete"])
    with pytest.raises(StoreUnavailable):
        owner.collect()

    assert objects(first) <= stored(store, "shared/")


def test_the_log_is_pruned_up_to_the_oldest_retained_checkpoint(store: FaultyStore) -> None:
    first = Life(store)
    for content in "abc":
        first.checkpoint(content)
    second = Life(store, num_retained=2)
    second.checkpoint("d")
    second.collect()
    # Records 0 and 4 are the claims; checkpoints 3 and 4 are retained.
    assert stored(store, "log/") == {keys.log_record(LogSeq(seq)) for seq in (3, 4, 5)}
    second.checkpoint("e")
    second.checkpoint("f")
    second.collect()

    assert stored(store, "log/") == {keys.log_record(LogSeq(seq)) for seq in (6, 7)}
    third = Life(store)
    assert (third.held.epoch, third.held.last_seq, third.resolution.last_id) == (3, 8, 6)


def test_an_epoch_that_lasts_keeps_the_records_of_its_retained_checkpoints_and_no_others(store: FaultyStore) -> None:
    owner = Life(store, num_retained=2)
    for number in range(50):
        owner.checkpoint(str(number))
        owner.collect()

    assert len(stored(store, "log/")) == 2
    assert Life(store, num_retained=2).held.below.epoch == 1


def test_what_was_not_pruned_is_pruned_with_the_next_checkpoint(store: FaultyStore) -> None:
    owner = Life(store, num_retained=1)
    owner.checkpoint("a")
    owner.collect()
    owner.checkpoint("b")
    store.plan = ScriptedFaults([None, Fault.BEFORE], verbs=["delete"])
    with pytest.raises(StoreUnavailable):
        owner.collect()
    owner.checkpoint("c")
    owner.collect()

    assert stored(store, "log/") == {keys.log_record(LogSeq(3))}


def pruned(store: FaultyStore) -> Life:
    """Return the owner of epoch 2, whose claim has number 2; only records 4 and above are left."""
    Life(store).checkpoint("a")
    owner = Life(store, num_retained=1)
    owner.checkpoint("b")
    owner.checkpoint("c")
    owner.collect()
    return owner


def completion_by(held: Claim, seq: int, number: int, **changes: object) -> LogRecord:
    place = f"checkpoints/{held.epoch}-{number}/manifest.json"
    fields = {"seq": LogSeq(seq), "kind": RecordKind.CHECKPOINT, "id": CheckpointId(number), "manifest": place}
    return held.record.model_copy(update=fields | changes)


@pytest.mark.parametrize("seq", [2, 3])
@pytest.mark.parametrize(
    "who",
    [
        "completer of the epoch before",
        "completer of the epoch before in the same process",
        "claimer of the same epoch",
        "claimer of the next epoch",
    ],
)
def test_what_is_written_late_where_the_claim_was_pruned_does_not_count(store: FaultyStore, seq: int, who: str) -> None:
    owner = pruned(store)
    sleeper = owner.held.record.model_copy(update={"seq": LogSeq(seq), "owner": Owner("sleeper")})
    if who == "completer of the epoch before":
        sleeper = completion_by(owner.held, seq, 9, epoch=Epoch(1), owner=Owner("sleeper"))
    if who == "completer of the epoch before in the same process":
        sleeper = completion_by(owner.held, seq, 9, epoch=Epoch(1))
    if who == "claimer of the next epoch":
        sleeper = sleeper.model_copy(update={"epoch": Epoch(3)})
    store.put(keys.log_record(LogSeq(seq)), encode_record(sleeper))

    below = Life(store).held.below
    assert [record.seq for record in below.records] == [4]
    assert below.epoch == 2


def test_the_claim_that_comes_back_late_changes_nothing(store: FaultyStore) -> None:
    owner = Life(store, num_retained=1)
    owner.checkpoint("a")
    owner.collect()
    assert stored(store, "log/") == {keys.log_record(LogSeq(1))}
    store.put(keys.log_record(LogSeq(0)), encode_record(owner.held.record))

    below = Life(store).held.below
    assert [record.seq for record in below.records] == [0, 1]
    assert (below.epoch, below.last_id) == (1, 1)


def test_a_collector_needs_the_registry_of_its_epoch(store: FaultyStore) -> None:
    owner = Life(store)
    owner.checkpoint("a")

    with pytest.raises(IllegalStep):
        drive(store, Collector(Registry(Epoch(7))).collect(owner.completion, 1))


# Publishing


def test_a_completion_is_published_once_the_log_names_it(store: FaultyStore) -> None:
    owner = Life(store)
    owner.sink.clear()
    owner.checkpoint("a")

    assert owner.sink == [Commit(SINK, CheckpointId(1), (1,))]
    assert owner.held.unpublished is None


def test_a_claimer_publishes_the_newest_completion_again_and_then_aborts_what_earlier_epochs_staged(
    store: FaultyStore,
) -> None:
    first = Life(store)
    first.checkpoint("a")
    first.checkpoint("b")

    second = Life(store)

    assert second.sink == [Commit(SINK, CheckpointId(2), (2,)), Abort(SINK, Epoch(2))]
    assert second.recovered == Recovered(CheckpointId(2))


def test_a_publication_that_fails_may_be_repeated_and_nothing_is_completed_before(store: FaultyStore) -> None:
    owner = Life(store)
    manifest = owner.begin("a")
    completion = drive(store, complete_snapshot(owner.held, owner.registry, manifest, 2.0))

    def fail(effect: Commit) -> None:
        raise OSError("the sink is away")

    with pytest.raises(OSError, match="away"):
        drive(store, publish(completion, manifest), perform=fail)
    with pytest.raises(IllegalStep, match="not yet published"):
        owner.checkpoint("b")
    drive(store, publish(completion, manifest), perform=owner.sink.append)
    assert owner.held.unpublished is None


def test_a_fork_from_an_unreadable_newest_completion_says_that_its_output_is_given_up(store: FaultyStore) -> None:
    first = Life(store)
    first.checkpoint("a")
    spoil(store, first.checkpoint("b"), "manifest missing")

    fork = Life(store, wanted="checkpoints/1-1")

    assert fork.recovered.checkpoint is None
    assert "checkpoints/1-2" in str(fork.recovered.unpublishable)
    assert fork.sink == [Abort(SINK, Epoch(2))]


def test_without_a_fork_an_unreadable_newest_completion_is_an_error(store: FaultyStore) -> None:
    first = Life(store)
    spoil(store, first.checkpoint("a"), "manifest missing")

    with pytest.raises(SnapshotMissing):
        drive(store, recover(_without_recovery(store).held, [SINK]), perform=lambda effect: None)


def test_a_finished_job_is_published_again(store: FaultyStore) -> None:
    first = Life(store)
    final = first.begin("a").model_copy(update={"kind": "final"})
    first.complete(final)

    second = Life(store)

    assert second.held.finished
    assert second.sink[0] == Commit(SINK, CheckpointId(1), (1,))
