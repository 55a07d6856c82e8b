"""Incremental checkpoints of a job that is killed again and again: each one that was completed comes back whole.

The job's files change, die and grow; they are held, packed, packed again, uploaded, completed and collected by what the
runtime uses, on a store in memory and with packs of a few hundred bytes. An owner dies at any call to the store.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.properties.test_registry_from_manifests import Death, deaths, healthy
from tests.unit.protocol.life import objects, stored

from streamjob.ids import Attempt, BatchId, ChainUid, CheckpointId, Key, Owner
from streamjob.protocol.log import JobId
from streamjob.protocol.manifests import decode_manifest
from streamjob.protocol.ownership import Identity
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChainState, Manifest
from streamjob.store.base import StoreError
from streamjob.testing.memory_store import FaultPlan, FaultyStore, MemoryStore
from streamjob_runtime.download import download
from streamjob_runtime.ledger import Ledger, RestoreFrom
from streamjob_runtime.spark_checkpoint import CutFiles, Hold
from streamjob_runtime.upload import Uploader, packs_of

JOB = JobId("tests", "job")
CHAIN = ChainUid("chain")
SMALL = 64
TARGET = 1024
NUM_RETAINED = 2

Files = dict[str, bytes]


class Life:
    """One epoch of the job: what it restored, and the files that it has then."""

    def __init__(self, store: FaultyStore, number: int, scratch: Path, random: Random) -> None:
        identity = Identity(job=JOB, owner=Owner(f"owner-{number}"), attempt=Attempt(0))
        self._scratch = scratch / str(number)
        self._random = random
        self._uploader = Uploader(store, threads=1)
        self.ledger = Ledger.claim(store, identity, lambda: 1.0, NUM_RETAINED)
        self.resolution = self.ledger.resolve(RestoreFrom())
        self.ledger.recover(NoSink(), {}, fork=False)
        self.id = self.ledger.last_id
        self.files = self._restore()
        self._made = number * 1_000_000

    def _restore(self) -> Files:
        manifest = self.resolution.manifest
        if manifest is None:
            return {"metadata": b"{}", "sources/0/9.compact": b"v1"}
        target = self._scratch / "restored"
        download(list(manifest.files_of(CHAIN)), self.ledger.locate(self.resolution), target, threads=1)
        return {file.relative_to(target).as_posix(): file.read_bytes() for file in target.rglob("*") if file.is_file()}

    def run(self) -> None:
        """Let some files die, make some, and let the log of the source grow."""
        lifetime = self._random.choice([2, 10, 50])
        log = self.files.pop("sources/0/9.compact")
        self.files = {
            path: content
            for path, content in self.files.items()
            if path == "metadata" or self._random.random() > 1 / lifetime
        }
        for _ in range(self._random.randint(1, 6)):
            self._made += 1
            folder = self._random.choice(["", "SSTs/"])
            size = self._random.choice([0, 3, 20, SMALL - 1, SMALL, 300])
            self.files[f"state/0/0/{folder}{self._made}_id.sst"] = self._random.randbytes(size)
        self.files[f"offsets/{self.id}"] = b"offset %d" % self._random.randrange(3)
        self.files["sources/0/9.compact"] = log + self._random.randbytes(self._random.choice([10, 40_000]))

    def checkpoint(self, *, abort: bool = False) -> None:
        """Take a checkpoint of the files, or abort it once they are uploaded."""
        self.id = CheckpointId(self.id + 1)
        self.ledger.begin(self.id)
        hold = self._hold()
        refs = self._uploader.upload(
            hold,
            self.ledger.reusable_files(self.id, CHAIN),
            partial(self.ledger.allocate, self.id),
            pack_below=SMALL,
            pack_target=TARGET,
        )
        shutil.rmtree(hold.directory)
        if abort:
            self.ledger.aborted(self.id)
            return
        manifest = manifest_of(self.ledger, self.id, ChainState(uid=CHAIN, operators=(), batch=BatchId(1), files=refs))
        event(f"packs: {len(packs_of(manifest.files(), SMALL)) // 8 * 8}+")
        self.ledger.complete(manifest)
        self.ledger.published(self.id)
        self.ledger.collect()

    def _hold(self) -> Hold:
        directory, files = self._scratch / f"hold-{self.id}", self.files
        for path, content in files.items():
            (directory / path).parent.mkdir(parents=True, exist_ok=True)
            (directory / path).write_bytes(content)
        unique = tuple(path for path in files if path.startswith("state/"))
        return Hold(directory, CutFiles(BatchId(1), unique, tuple(path for path in files if path not in unique)))

    def close(self) -> None:
        self._uploader.close()


class NoSink:
    """The job has no sinks."""

    def commit(self, *_: object) -> None:
        raise AssertionError

    def abort(self, *_: object) -> None:
        raise AssertionError


def manifest_of(ledger: Ledger, number: CheckpointId, chain: ChainState) -> Manifest:
    return Manifest(
        job=JOB.name,
        namespace=JOB.namespace,
        id=number,
        epoch=ledger.epoch,
        kind="checkpoint",
        triggered=0.0,
        completed=1.0,
        graph={},
        chains=(chain,),
    )


@contextmanager
def scratch() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp())
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


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
            life = Life(store, number, directory, random)
            restored = life.resolution.manifest
            assert restored is None or life.files == taken[restored.epoch, restored.id]
            steps, begins_to_die = random.randint(NUM_RETAINED, 25), random.randrange(10)
            try:
                for step in range(steps):
                    if step == begins_to_die:
                        store.plan = fate
                    life.run()
                    # What is completed while the owner dies, the log may come to name.
                    taken[life.ledger.epoch, life.id + 1] = dict(life.files)
                    life.checkpoint(abort=step < steps - NUM_RETAINED and random.random() < 0.1)
            except StoreError:
                event("died")
            finally:
                store.plan = healthy
                life.close()
    manifests = [decode_manifest(key, store.get(Key(key))) for key in stored(store, keys.CHECKPOINTS_PREFIX)]
    assert len(manifests) == NUM_RETAINED
    assert stored(store, keys.SHARED_PREFIX) == objects(*manifests)
