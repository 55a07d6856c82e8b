"""The starting point of a job, and the errors of unusable snapshots."""

from __future__ import annotations

import pytest
from tests.faulty_store import FaultyStore
from tests.unit.protocol.life import JobEpoch, file_ref, key_of, manifest_of, spoil, without_recovery

from streamjob.errors import ExitCode, Superseded
from streamjob.ids import CheckpointId, Key
from streamjob.protocol.log import offering
from streamjob.protocol.log.ownership import unless_superseded
from streamjob.protocol.log.restore import ClaimMode, LatestUnusable, NoSnapshot, NotCompleted, resolve, unusable
from streamjob.protocol.manifests.stored_manifests import (
    SnapshotCorrupt,
    SnapshotMissing,
    UnknownManifestVersion,
    decode_manifest,
    encode_manifest,
)
from streamjob.snapshot.sealing import sealed
from streamjob.store import hashing
from streamjob.store.effects import drive
from streamjob.testing.memory_store import MemoryStore


def test_latest_of_an_empty_log_is_a_fresh_start(store: FaultyStore) -> None:
    resolution = JobEpoch(store).resolution

    assert (resolution.manifest, resolution.fork, resolution.last_id) == (None, False, 0)


def test_a_required_snapshot_that_is_not_there_is_an_error(store: FaultyStore) -> None:
    with pytest.raises(NoSnapshot) as raised:
        JobEpoch(store).resolve(require=True)
    assert raised.value.exit_code is ExitCode.CANNOT_RESTORE


def test_latest_is_the_newest_completion_below_the_claim(store: FaultyStore) -> None:
    first = JobEpoch(store)
    first.checkpoint("a")
    newest = first.checkpoint("b")

    resolution = JobEpoch(store).resolution

    assert (resolution.manifest, resolution.fork, resolution.reusable, resolution.last_id) == (newest, False, True, 2)


def test_a_checkpoint_that_the_log_does_not_name_does_not_exist(store: FaultyStore) -> None:
    first = JobEpoch(store)
    named = first.checkpoint("a")
    unnamed = manifest_of(1, 9)
    store.put(key_of(unnamed), encode_manifest(unnamed))
    second = JobEpoch(store)

    assert second.resolution.manifest == named
    with pytest.raises(NotCompleted, match="checkpoints/1-9"):
        second.resolve(store.uri + "checkpoints/1-9")


@pytest.mark.parametrize("form", ["checkpoints/1-1", "checkpoints/1-1/", "checkpoints/1-1/manifest.json", "URI"])
def test_an_older_checkpoint_is_a_fork_that_refers_to_none_of_its_files(store: FaultyStore, form: str) -> None:
    first = JobEpoch(store)
    older = first.checkpoint("a")
    first.checkpoint("b")

    resolution = JobEpoch(store).resolve(store.uri + "checkpoints/1-1" if form == "URI" else form)

    assert (resolution.manifest, resolution.fork, resolution.reusable, resolution.last_id) == (older, True, False, 2)


def test_none_on_a_log_with_completions_is_a_fork(store: FaultyStore) -> None:
    JobEpoch(store).checkpoint("a")

    resolution = JobEpoch(store).resolve("none")

    assert (resolution.manifest, resolution.fork, resolution.last_id) == (None, True, 1)


def test_the_newest_checkpoint_by_name_is_no_fork(store: FaultyStore) -> None:
    JobEpoch(store).checkpoint("a")

    assert not JobEpoch(store).resolve("checkpoints/1-1").fork


def test_a_snapshot_from_elsewhere_is_read_and_its_files_are_not_referred_to(store: FaultyStore) -> None:
    store.put(Key("elsewhere/old-77-x"), encode_manifest(manifest_of(4, 77, kind="savepoint")))

    resolution = JobEpoch(store).resolve("s3://savepoints/old-77-x")

    assert (resolution.fork, resolution.reusable, resolution.record) == (False, False, None)
    assert resolution.last_id == 77, "sinks remember ids"


def test_a_savepoint_in_the_log_is_what_latest_restores_and_its_files_are_not_referred_to(store: FaultyStore) -> None:
    first = JobEpoch(store)
    first.checkpoint("a")
    savepoint = first.savepoint("s3://savepoints/job-2-x/manifest.json")

    resolution = without_recovery(store).resolve()

    assert (resolution.manifest, resolution.fork, resolution.reusable) == (savepoint, False, False)


def test_no_claim_refers_to_no_file_of_the_snapshot(store: FaultyStore) -> None:
    JobEpoch(store).checkpoint("a")

    assert not JobEpoch(store, mode=ClaimMode.NO_CLAIM).resolution.reusable


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"new": 1}, "new is an unknown field"), ({"epoch": 2}, "holds the manifest of checkpoint 2-1")],
)
def test_a_manifest_that_says_more_than_this_version_knows_or_is_another_ones_is_refused(
    changes: dict[str, object], words: str
) -> None:
    content = sealed({**manifest_of(1, 1).stored_fields(), **changes})

    with pytest.raises(SnapshotCorrupt, match=words):
        decode_manifest("checkpoints/1-1/manifest.json", content)


SPOILT = ["manifest missing", "manifest corrupt", "file missing", "file truncated", "unknown version"]


@pytest.mark.parametrize("how", [*SPOILT, "another's manifest"])
def test_an_unusable_newest_checkpoint_is_an_error_that_names_a_whole_older_one(store: FaultyStore, how: str) -> None:
    first = JobEpoch(store)
    first.checkpoint("a")
    spoil(store, first.checkpoint("b"), how)

    with pytest.raises(LatestUnusable, match="checkpoint 2") as raised:
        without_recovery(store).resolve()
    assert "checkpoint 1 is whole: start with --from checkpoints/1-1/manifest.json" in raised.value.fix


def test_an_older_checkpoint_that_is_not_whole_either_is_not_proposed(store: FaultyStore) -> None:
    first = JobEpoch(store)
    spoil(store, first.checkpoint("a"), "file missing")
    spoil(store, first.checkpoint("b"), "file missing")

    with pytest.raises(LatestUnusable) as raised:
        without_recovery(store).resolve()
    assert raised.value.fix.startswith("run `streamjob snapshots verify` first")
    assert "no older completion is whole" in raised.value.fix


def test_an_older_checkpoint_with_an_altered_byte_is_not_proposed(store: FaultyStore) -> None:
    first = JobEpoch(store, num_retained=3)
    first.checkpoint("a")
    spoil(store, first.checkpoint("b"), "file altered")
    spoil(store, first.checkpoint("c"), "file missing")

    with pytest.raises(LatestUnusable) as raised:
        without_recovery(store).resolve()
    assert "checkpoint 1 is whole: start with --from checkpoints/1-1/manifest.json" in raised.value.fix


def test_an_older_checkpoint_that_shares_the_damaged_file_is_not_proposed(store: FaultyStore) -> None:
    first = JobEpoch(store)
    first.checkpoint("a")
    newest = first.checkpoint("a", "b")
    spoil(store, newest, "file altered")
    reader = without_recovery(store)
    assert reader.claim.below.newest is not None
    program = unusable(reader.claim.below, reader.claim.below.newest, ["a file is damaged"])

    assert "no older completion is whole" in drive(store, program).fix


def test_the_offer_of_a_savepoint_reads_the_files_that_it_carries(store: FaultyStore) -> None:
    content = "a" * 20
    place = "s3://savepoints/job-2-x/manifest.json"
    savepoints, file = MemoryStore("s3://savepoints/"), Key("job-2-x/files/1")
    savepoints.put(file, content.encode())
    first = JobEpoch(store)
    spoil(store, first.checkpoint("a"), "file missing")
    manifest = manifest_of(1, 2, (file_ref("a" * 10, "files/1"), file_ref("a" * 5, "files/1", 15)), "savepoint")
    savepoints.put(Key("job-2-x/manifest.json"), encode_manifest(manifest))
    first.registry.begin(CheckpointId(2))
    first.complete(manifest, place)
    first.last = CheckpointId(2)
    spoil(store, first.checkpoint("b"), "file missing")
    reader = without_recovery(store)

    def offered() -> str:
        program = resolve(reader.claim.below, root=store.uri)
        with pytest.raises(LatestUnusable) as raised:
            drive(store, program, find=lambda uri: (savepoints, Key(uri.removeprefix(savepoints.uri))))
        return raised.value.fix

    assert f"savepoint 2 is whole: start with --from {place}" in offered()
    savepoints.put(file, (content[:-1] + "b").encode())
    assert "no older completion is whole" in offered()


def test_the_search_for_a_whole_checkpoint_reads_pieces_and_says_how_far_it_is(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offering, "_BATCH_PARTS", 1)
    monkeypatch.setattr(hashing, "_PIECE", 1000)
    first = JobEpoch(store)
    first.checkpoint("a" * 100_000, "b" * 50_000)
    spoil(store, first.checkpoint("c"), "file missing")
    reader = without_recovery(store)
    read: list[int] = []
    get_range = store.get_range

    def counted(key: Key, offset: int, length: int) -> bytes:
        read.append(length)
        return get_range(key, offset, length)

    monkeypatch.setattr(store, "get_range", counted)
    notes: list[str] = []

    with pytest.raises(LatestUnusable, match="is unusable") as raised:
        drive(store, resolve(reader.claim.below, root=store.uri), progress=notes.append)
    assert "checkpoint 1 is whole" in raised.value.fix
    assert (max(read), sum(read)) == (1000, 150_000)
    assert notes == [
        "Verifying checkpoint 1, to offer it: 0.0 of 0.1 MB",
        "Verifying checkpoint 1, to offer it: 0.1 of 0.1 MB",
    ]


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
    first = JobEpoch(store)
    first.checkpoint("a")
    spoil(store, first.checkpoint("b"), how)
    first.checkpoint("c")

    with pytest.raises(error, match="checkpoints/1-2"):
        JobEpoch(store).resolve("checkpoints/1-2")


def test_what_a_superseded_owner_misses_is_no_damage(store: FaultyStore) -> None:
    first = JobEpoch(store)
    spoil(store, first.checkpoint("a"), "manifest missing")
    reader = without_recovery(store)
    program = resolve(reader.claim.below, root=store.uri)
    with pytest.raises(LatestUnusable):
        drive(store, unless_superseded(reader.claim, resolve(reader.claim.below, root=store.uri)))
    without_recovery(store)

    with pytest.raises(Superseded):
        drive(store, unless_superseded(reader.claim, program))
