"""The retained manifests contain all that an owner knows about shared files, so a crash loses nothing of it.

Nothing else is stored about shared files: neither counters nor a list. An owner that dies anywhere, in the middle of an
upload, a completion or a deletion, is followed by one that reads the log and the retained manifests.
"""

from __future__ import annotations

from random import Random

from hypothesis import event, given
from hypothesis import strategies as st
from tests.faulty_store import FaultyStore
from tests.properties.dying import Death, deaths, healthy
from tests.unit.protocol.life import JOB, JobEpoch, key_of, objects, stored

from streamjob.errors import CannotRestore
from streamjob.ids import CheckpointId, Epoch, Key
from streamjob.protocol.log.records import read
from streamjob.protocol.log.registry import Registry
from streamjob.protocol.manifests.stored_manifests import read_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import StoreError
from streamjob.store.effects import drive
from streamjob.testing.memory_store import MemoryStore

CONTENTS = [f"content {number}" for number in range(8)]


def rebuilt(store: FaultyStore, owner: JobEpoch) -> tuple[Registry, list[Manifest]]:
    """Return a registry made of the manifests that the log says are retained, and of nothing else; and these."""
    registry = Registry(Epoch(owner.claim.epoch + 1))
    manifests = []
    for record in owner.claim.retained:
        assert record.manifest is not None
        manifest = drive(store, read_manifest(record.manifest))
        registry.adopt(manifest, reusable=record == owner.claim.newest)
        manifests.append(manifest)
    return registry, manifests


def live(owner: JobEpoch, random: Random) -> None:
    """Take some checkpoints, abort some of them, and collect garbage after most."""
    for _ in range(random.randint(1, 6)):
        contents = random.sample(CONTENTS, random.randint(0, 5))
        if random.random() < 0.2:
            owner.registry.aborted(owner.begin(*contents).id)
            continue
        owner.checkpoint(*contents)
        if random.random() < 0.8:
            owner.collect()


@given(seed=st.integers(0, 2**32), num_retained=st.integers(1, 3))
def test_a_registry_made_from_the_retained_manifests_is_the_one_that_was_lost(seed: int, num_retained: int) -> None:
    store, random = FaultyStore(MemoryStore()), Random(seed)
    for _ in range(random.randint(1, 3)):
        owner = JobEpoch(store, num_retained=num_retained)
        live(owner, random)
    owner.checkpoint(*random.sample(CONTENTS, 3))
    owner.collect()

    again, manifests = rebuilt(store, owner)

    assert again.needed() == owner.registry.needed() == stored(store, keys.SHARED_PREFIX)
    newest = manifests[-1]
    for registry, number in ((owner.registry, newest.id + 1), (again, newest.id + 1)):
        registry.begin(CheckpointId(number))
    for file in newest.files():
        place = again.reuse(CheckpointId(newest.id + 1), file.sha256, file.length)
        assert place is not None
        assert place == owner.registry.reuse(CheckpointId(newest.id + 1), file.sha256, file.length)


@given(seed=st.integers(0, 2**32), num_retained=st.integers(1, 3), fates=st.lists(deaths, min_size=1, max_size=4))
def test_wherever_owners_die_nothing_that_is_named_is_lost_and_nothing_else_stays(
    seed: int, num_retained: int, fates: list[Death]
) -> None:
    store, random = FaultyStore(MemoryStore()), Random(seed)
    for fate in fates:
        owner = JobEpoch(store, num_retained=num_retained)
        live(owner, random)
        store.plan = fate
        try:
            live(owner, random)
            event("outlived its fate")
        except StoreError:
            event(f"died at {', '.join(sorted(fate.verbs)) or 'any call'}")
        store.plan = healthy
        check_named(store)

    last = JobEpoch(store, num_retained=num_retained)
    check_named(store)
    for _ in range(num_retained):
        last.checkpoint(*random.sample(CONTENTS, 3))
        last.collect()

    _, retained = rebuilt(store, last)
    assert len(retained) == num_retained
    assert stored(store, keys.SHARED_PREFIX) == objects(*retained)
    assert stored(store, keys.CHECKPOINTS_PREFIX) == {key_of(manifest) for manifest in retained}


def check_named(store: FaultyStore) -> None:
    """Whatever the log names and has a manifest is whole, and the newest completion has one."""
    view = drive(store, read(JOB))
    present = stored(store, keys.SHARED_PREFIX)
    for record in view.completions:
        assert record.manifest is not None
        try:
            manifest = drive(store, read_manifest(record.manifest))
        except CannotRestore:
            assert record != view.newest, "the newest completion is gone"
            continue
        assert {Key(name) for name in manifest.objects()} <= present, f"{record.manifest} lacks a file"
