"""Incremental checkpoints of a job that is killed again and again: each one that was completed comes back whole.

The job's files change, die and grow, in packs of a few hundred bytes; an owner dies at any call to the store.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.faulty_store import FaultPlan, FaultyStore
from tests.properties.dying import Death, deaths, healthy
from tests.properties.incremental import NUM_RETAINED, SMALL, Files, IncrementalEpoch
from tests.unit.protocol.life import objects, stored

from streamjob.ids import Key
from streamjob.protocol.manifests.stored_manifests import decode_manifest
from streamjob.snapshot import keys
from streamjob.store.base import StoreError
from streamjob.testing.memory_store import MemoryStore
from streamjob_runtime.checkpointing.upload.repacking import packs_of


@contextmanager
def scratch() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp())
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@pytest.mark.slow
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), fates=st.lists(deaths, min_size=1, max_size=4))
def test_a_job_that_is_killed_anywhere_comes_back_with_the_files_of_its_last_checkpoint(
    seed: int, fates: list[Death]
) -> None:
    random, store = Random(seed), FaultyStore(MemoryStore())
    plans: list[FaultPlan] = [*fates, healthy]
    taken: dict[tuple[int, int], Files] = {}
    with scratch() as directory:
        for number, fate in enumerate(plans):
            life = IncrementalEpoch(store, number, directory, random)
            restored = life.resolution.manifest
            assert restored is None or life.files == taken[restored.epoch, restored.id]
            steps, begins_to_die = random.randint(NUM_RETAINED, 25), random.randrange(10)
            try:
                for step in range(steps):
                    if step == begins_to_die:
                        store.plan = fate
                    life.run()
                    # The log may still name a checkpoint whose owner dies during the completion.
                    taken[life.ledger.epoch, life.id + 1] = dict(life.files)
                    life.checkpoint(abort=step < steps - NUM_RETAINED and random.random() < 0.1)
            except StoreError:
                event("died")
            finally:
                store.plan = healthy
                life.close()
    manifests = [decode_manifest(key, store.get(Key(key))) for key in stored(store, keys.CHECKPOINTS_PREFIX)]
    assert len(manifests) == NUM_RETAINED
    event(f"packs: {max(len(packs_of(each.files(), SMALL)) for each in manifests) // 8 * 8}+")
    assert stored(store, keys.SHARED_PREFIX) == objects(*manifests)
