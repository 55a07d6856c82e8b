"""Stored snapshots deleted by hand: what may go, what stays, and what a job that still runs can do."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.unit.stored.job import Job, Run, damage, lines, sha256

from streamjob.errors import Superseded
from streamjob.ids import CheckpointId, Epoch, Key
from streamjob.protocol.log.claiming import Marker
from streamjob.protocol.manifests.stored_manifests import decode_manifest, encode_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import FileRef
from streamjob.store import LocalStore
from streamjob.stored.deletion import discard_savepoint


def test_the_newest_completion_is_never_deleted(job: Job, run: Run) -> None:
    before = job.objects()
    result = run("delete", job.location, 3, "--fence", "--with-older")

    assert result.exit_code == 2
    assert "restarts from it" in result.stderr
    assert job.objects() == before


def test_a_checkpoint_is_not_deleted_from_under_its_job(job: Job, run: Run) -> None:
    before = job.objects()
    result = run("delete", job.location, 1)

    assert result.exit_code == 2
    assert "--fence" in result.stderr
    assert job.objects() == before


def test_a_checkpoint_is_not_deleted_before_older_ones(job: Job, run: Run) -> None:
    before = job.objects()
    result = run("delete", job.location, 2, "--fence")

    assert result.exit_code == 2
    assert "older checkpoints than 2 are retained: 1" in result.stderr
    assert job.objects() == before


def test_deleting_a_checkpoint_takes_its_own_files_and_leaves_the_others_whole(job: Job, run: Run) -> None:
    own = job.own_object(1)
    result = run("delete", job.location, 1, "--fence", "--json")

    assert lines(result) == [{"deleted": [1], "objects": 6}]
    assert not own.exists()
    assert [each["id"] for each in lines(run("list", job.location, "--json"))] == [2, 3]
    assert run("verify", job.location).exit_code == 0


def test_older_checkpoints_are_deleted_with_it_when_asked_for(job: Job, run: Run) -> None:
    assert run("delete", job.location, 2, "--fence", "--with-older").exit_code == 0
    assert [each["id"] for each in lines(run("list", job.location, "--json"))] == [3]
    assert run("verify", job.location).exit_code == 0
    left = Counter(key.partition("/")[0] for key in job.objects())
    assert left == {"checkpoints": 1, "log": 3, "log-copies": 3, "shared": 2}


def test_a_job_that_still_ran_completes_nothing_after_the_deletion(job: Job, run: Run) -> None:
    run("delete", job.location, 1, "--fence")
    with pytest.raises(Superseded):
        job.complete(4)


def test_a_job_goes_on_after_the_deletion_with_ids_above_the_old_ones(job: Job, run: Run) -> None:
    run("delete", job.location, 2, "--fence", "--with-older")
    job.claim_log()

    assert job.claim.newest is not None
    assert (job.claim.newest.id, job.claim.epoch) == (3, 4)
    job.complete(4)
    assert [each["id"] for each in lines(run("list", job.location, "--json"))] == [3, 4]


def test_a_deletion_stops_at_a_manifest_that_cannot_be_read(job: Job, run: Run) -> None:
    damage(job.path("checkpoints/1-3/manifest.json"), b"{")
    kept = {key for key in job.objects() if not key.startswith("log")}
    result = run("delete", job.location, 1, "--fence")

    assert result.exit_code == 5
    assert "nothing is deleted" in result.stderr
    assert {key for key in job.objects() if not key.startswith("log")} == kept


def test_a_deletion_stops_at_a_newest_savepoint_of_the_job_that_cannot_be_read(job: Job, run: Run) -> None:
    job.savepoint(4, b"state", "savepoints/that-is-gone")
    result = run("delete", job.location, 1, "--fence")

    assert result.exit_code == 5
    assert "nothing is deleted: savepoint 4 is retained" in result.stderr


def test_a_checkpoint_whose_manifest_is_damaged_can_be_deleted(job: Job, run: Run) -> None:
    damage(job.path("checkpoints/1-1/manifest.json"), b"{")

    assert run("delete", job.location, 1, "--fence").exit_code == 0
    assert run("verify", job.location).exit_code == 0


def test_files_that_only_a_later_epoch_needs_are_spared(job: Job, run: Run) -> None:
    shared = job.upload(**{"state/own": b"again"})
    job.complete(4, *shared)
    job.claim_log()
    job.complete(5, *shared)

    assert run("delete", job.location, 4, "--fence", "--with-older").exit_code == 0
    assert run("verify", job.location).exit_code == 0


def test_a_savepoint_is_deleted_with_its_directory_and_without_fencing(job: Job, run: Run) -> None:
    directory = job.savepoint(4, b"state")
    job.complete(5)
    before = job.objects()

    assert lines(run("delete", job.location, 4, "--json")) == [{"deleted": [4], "objects": 2}]
    assert not (directory / "manifest.json").exists()
    assert not (directory / "files").exists()
    assert job.objects() == before
    job.complete(6)


def test_a_savepoint_that_is_the_newest_completion_stays(job: Job, run: Run) -> None:
    directory = job.savepoint(4, b"state")
    result = run("delete", job.location, 4)

    assert result.exit_code == 2
    assert (directory / "manifest.json").exists()


def test_a_copy_of_a_savepoint_is_deleted_by_its_own_place(job: Job, run: Run, tmp_path: Path) -> None:
    directory = job.savepoint(4, b"state")
    copy = shutil.copytree(directory, tmp_path / "copy")

    assert lines(run("delete", copy, "--json")) == [{"deleted": [4], "objects": 2}]
    assert not list(copy.iterdir())
    assert (directory / "manifest.json").exists()


def test_a_claimed_copy_is_not_deleted(job: Job, run: Run, tmp_path: Path) -> None:
    copy = shutil.copytree(job.savepoint(4, b"state"), tmp_path / "copy")
    (copy / "claimed.json").write_bytes(CLAIM)

    assert "another job has claimed" in run("delete", copy).stderr
    assert (copy / "manifest.json").exists()


def test_a_checkpoint_is_not_deleted_by_its_own_place(job: Job, run: Run) -> None:
    manifest = job.store.uri + keys.manifest(Epoch(1), CheckpointId(1))
    result = run("delete", manifest)

    assert result.exit_code == 2
    assert "only its job's log shows" in result.stderr
    assert "say which one by its id" in run("delete", job.location).stderr


def test_what_a_failed_savepoint_wrote_is_deleted_whole(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "savepoint")
    for key in ("files/a", "files/b", "manifest.json"):
        store.put(Key(key), b"x")

    discard_savepoint(store)

    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_savepoint_stays_the_newest_completion_when_all_checkpoints_are_deleted(job: Job, run: Run) -> None:
    job.savepoint(4, b"state")

    assert run("delete", job.location, 3, "--fence", "--with-older").exit_code == 0
    assert [(each["id"], each["newest"]) for each in lines(run("list", job.location, "--json"))] == [(4, True)]
    job.claim_log()
    assert job.claim.last_id == 4


def test_a_savepoint_whose_files_another_checkpoint_refers_to_stays(job: Job, run: Run) -> None:
    directory = job.savepoint(4, b"state")
    claimed = FileRef(path="s", object=f"file://{directory}/files/1", length=5, sha256=sha256(b"state"))
    job.complete(5, claimed)
    result = run("delete", job.location, 4)

    assert result.exit_code == 2
    assert "refers to files of savepoint 4" in result.stderr
    assert run("verify", job.location).exit_code == 0


CLAIM = Marker(kind="claim", job="arrivals", namespace="default", root="file:///elsewhere/").encoded()


def test_a_checkpoint_that_another_job_has_claimed_is_not_deleted(job: Job, run: Run) -> None:
    job.store.put(Key(keys.claim_marker(keys.manifest(Epoch(1), CheckpointId(1)))), CLAIM)
    before = {key for key in job.objects() if not key.startswith("log")}
    result = run("delete", job.location, 1, "--fence")

    assert result.exit_code == 2
    assert "another job has claimed checkpoints/1-1/manifest.json" in result.stderr
    assert {key for key in job.objects() if not key.startswith("log")} == before


def test_files_of_a_checkpoint_that_another_job_has_claimed_are_spared(job: Job, run: Run) -> None:
    """The log may have forgotten it long ago."""
    claimed, own = keys.manifest(Epoch(0), CheckpointId(9)), job.own_object(1)
    manifest = decode_manifest("manifest.json", job.store.get(keys.manifest(Epoch(1), CheckpointId(1))))
    job.store.put(claimed, encode_manifest(manifest.model_copy(update={"epoch": 0, "id": 9})))
    job.store.put(Key(keys.claim_marker(claimed)), CLAIM)

    assert run("delete", job.location, 1, "--fence").exit_code == 0
    assert own.exists()
    assert keys.manifest(Epoch(1), CheckpointId(1)) not in job.objects()


def test_a_savepoint_that_another_job_has_claimed_is_not_deleted(job: Job, run: Run) -> None:
    directory = job.savepoint(4, b"state")
    job.complete(5)
    (directory / "claimed.json").write_bytes(CLAIM)
    result = run("delete", job.location, 4)

    assert result.exit_code == 2
    assert "another job has claimed" in result.stderr
    assert (directory / "manifest.json").exists()
    (directory / "claimed.json").unlink()
    assert run("delete", job.location, 4).exit_code == 0
    assert not list(directory.iterdir())
