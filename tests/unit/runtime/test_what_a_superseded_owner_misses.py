"""A successor deletes files that it does not need; an owner that misses them is superseded, not damaged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from streamjob.errors import CannotRestore, ExitCode, Superseded
from streamjob.ids import Attempt, BatchId, ChainUid, CheckpointId, Key, Owner
from streamjob.protocol.log.claiming import CannotClaim
from streamjob.protocol.log.ownership import Identity
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import ClaimMode
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChainState, FileRef, Manifest
from streamjob.store import LocalStore
from streamjob.store.base import Store
from streamjob.testing.memory_store import MemoryStore
from streamjob_runtime.chain.emissions.outputs import FormerOutputs, Outputs
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom

CONTENT = b"state"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NO_SINKS = FormerOutputs(Outputs({}), frozenset(), lambda uid: None)


def claimed(store: Store, owner: str, name: str = "job") -> Ledger:
    identity = Identity(job=JobId(namespace="default", name=name), owner=Owner(owner), attempt=Attempt(0))
    return Ledger.claim(store, identity, lambda: 1.0, 1)


def started(store: Store, owner: str) -> Ledger:
    ledger = claimed(store, owner)
    ledger.resolve(RestoreFrom())
    ledger.recover(NO_SINKS, {}, fork=False)
    return ledger


def checkpoint(ledger: Ledger, number: int) -> Manifest:
    """Complete, commit and collect."""
    checkpoint = CheckpointId(number)
    ledger.log.begin(checkpoint)
    key = ledger.log.allocate(checkpoint, SHA256)
    ledger.store.put(key, CONTENT)
    file = FileRef(path="f", object=key, length=len(CONTENT), sha256=SHA256)
    manifest = Manifest(
        job="job",
        namespace="default",
        id=checkpoint,
        epoch=ledger.epoch,
        kind="checkpoint",
        triggered=0.0,
        completed=1.0,
        graph={},
        chains=(ChainState(uid=ChainUid("c"), operators=(), batch=BatchId(0), files=(file,)),),
    )
    ledger.complete(manifest)
    ledger.log.claim.committed(checkpoint)
    ledger.collect()
    return manifest


def succeed(store: Store) -> None:
    """Let a successor take the log, complete a checkpoint, and delete the one before."""
    checkpoint(started(store, "successor"), 2)


READS: dict[str, Callable[[Ledger], object]] = {
    "resolve": lambda ledger: ledger.resolve(RestoreFrom()),
    "newest_manifest": lambda ledger: ledger.newest_manifest(),
    "recover": lambda ledger: ledger.recover(NO_SINKS, {}, fork=False),
}


@pytest.mark.parametrize("read", READS)
def test_reading_what_a_successor_has_deleted_ends_as_superseded(read: str) -> None:
    store = MemoryStore()
    checkpoint(started(store, "first"), 1)
    sleeper = claimed(store, "sleeper")
    succeed(store)

    with pytest.raises(Superseded) as raised:
        READS[read](sleeper)
    assert raised.value.exit_code is ExitCode.SUPERSEDED


@pytest.mark.parametrize("read", READS)
def test_what_is_missing_while_the_log_is_held_is_damage(read: str) -> None:
    store = MemoryStore()
    manifest = checkpoint(started(store, "first"), 1)
    owner = claimed(store, "second")
    store.delete([keys.manifest(manifest.epoch, manifest.id)])

    with pytest.raises(CannotRestore):
        READS[read](owner)


def test_files_that_are_gone_while_they_are_downloaded_end_as_superseded_only_behind_a_successor() -> None:
    store = MemoryStore()
    manifest = checkpoint(started(store, "first"), 1)
    sleeper = claimed(store, "sleeper")
    resolution = sleeper.resolve(RestoreFrom())
    store.delete([Key(name) for name in manifest.objects()])

    assert isinstance(sleeper.explain_unusable(resolution, "it is gone"), CannotRestore)
    claimed(store, "successor")
    with pytest.raises(Superseded):
        sleeper.explain_unusable(resolution, "it is gone")


def test_a_start_from_another_jobs_checkpoint_marks_it_once_for_all_epochs(tmp_path: Path) -> None:
    theirs, mine = LocalStore(tmp_path / "theirs"), LocalStore(tmp_path / "mine")
    former = started(theirs, "former")
    manifest = checkpoint(former, 1)
    place = theirs.uri + keys.manifest(manifest.epoch, manifest.id)
    for owner in ("one", "two"):
        assert claimed(mine, owner, "mine").resolve(RestoreFrom(snapshot=place)).manifest == manifest

    checkpoint(former, 2)
    assert {info.key for info in theirs.list("checkpoints/1-1/")} == {
        "checkpoints/1-1/claimed.json",
        "checkpoints/1-1/manifest.json",
    }
    assert {info.key for info in theirs.list("shared/")} == set(manifest.objects())
    assert not list((tmp_path / "theirs" / "checkpoints").glob("**/.tmp"))
    with pytest.raises(CannotClaim, match="claimed by job default/mine"):
        claimed(LocalStore(tmp_path / "third"), "three", "third").resolve(RestoreFrom(snapshot=place))


def test_a_start_in_no_claim_mode_leaves_no_mark(tmp_path: Path) -> None:
    theirs, mine = LocalStore(tmp_path / "theirs"), LocalStore(tmp_path / "mine")
    manifest = checkpoint(started(theirs, "former"), 1)
    place = theirs.uri + keys.manifest(manifest.epoch, manifest.id)

    claimed(mine, "one", "mine").resolve(RestoreFrom(snapshot=place, mode=ClaimMode.NO_CLAIM))

    assert {info.key for info in theirs.list("checkpoints/")} == {"checkpoints/1-1/manifest.json"}
