"""Checkpoints of a job that has run for long are restored from few objects, on every kind of store."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.properties.incremental import CHAIN, NUM_RETAINED, SMALL, TARGET, IncrementalEpoch
from tests.unit.protocol.life import objects

from streamjob.ids import Key
from streamjob.protocol.manifests.stored_manifests import decode_manifest
from streamjob.snapshot import keys
from streamjob.store import Store
from streamjob_runtime.checkpointing.upload.repacking import FAN, TIERS, packs_of

CHECKPOINTS = 70


def test_after_many_checkpoints_a_job_comes_back_from_few_packs_and_nothing_else_is_stored(
    store: Store, tmp_path: Path
) -> None:
    life = IncrementalEpoch(store, 0, tmp_path / "scratch", Random(2), lifetime=40)
    early: set[str] = set()
    for number in range(CHECKPOINTS):
        life.run()
        life.checkpoint()
        if number == CHECKPOINTS // 2:
            manifest = life.ledger.newest_manifest()
            early = set(packs_of(manifest.files(), SMALL)) if manifest else set()
    life.close()

    again = IncrementalEpoch(store, 1, tmp_path / "scratch", Random(2))
    again.close()

    assert again.files == life.files
    manifest = again.resolution.manifest
    assert manifest is not None
    packs = packs_of(manifest.files_of(CHAIN), SMALL)
    full = sum(living >= TARGET // 2 for living in packs.values())
    assert len(packs) - full <= (FAN - 1) * TIERS + 2 < CHECKPOINTS
    assert early - set(packs)
    manifests = [decode_manifest(each.key, store.get(Key(each.key))) for each in store.list(keys.CHECKPOINTS_PREFIX)]
    assert len(manifests) == NUM_RETAINED
    assert {each.key for each in store.list(keys.SHARED_PREFIX)} == objects(*manifests)
