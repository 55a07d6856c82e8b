"""One life after another of a job without Spark, whose files are held, packed, uploaded, completed and collected."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from random import Random

from streamjob.ids import Attempt, BatchId, ChainUid, CheckpointId, Owner
from streamjob.protocol.log.ownership import Identity
from streamjob.protocol.log.records import JobId
from streamjob.snapshot.manifest import ChainState, Manifest
from streamjob.store.base import Store
from streamjob_runtime.chain.emissions.outputs import FormerOutputs, Outputs
from streamjob_runtime.checkpointing.ledger import Ledger, RestoreFrom
from streamjob_runtime.checkpointing.upload.uploader import Uploader
from streamjob_runtime.restoring.download import download
from streamjob_runtime.spark.checkpoint_dir.files import CutFiles
from streamjob_runtime.spark.checkpoint_dir.hold import Hold

JOB = JobId("tests", "job")
CHAIN = ChainUid("chain")
SMALL = 64
TARGET = 1024
NO_SINKS = FormerOutputs(Outputs({}), frozenset(), lambda uid: None)
NUM_RETAINED = 2

Files = dict[str, bytes]


class IncrementalEpoch:
    """One epoch of the job: the snapshot that it restored, and its current files.

    Args:
        number: of the life; files of different ones never have the same name.
        scratch: a directory for holds.
        random: decides which files come and go.
        lifetime: of files, in checkpoints; None for any.
    """

    def __init__(self, store: Store, number: int, scratch: Path, random: Random, lifetime: int | None = None) -> None:
        identity = Identity(job=JOB, owner=Owner(f"owner-{number}"), attempt=Attempt(0))
        self._scratch = scratch / str(number)
        self._random = random
        self._uploader = Uploader(store, threads=1)
        self.ledger = Ledger.claim(store, identity, lambda: 1.0, NUM_RETAINED)
        self.resolution = self.ledger.resolve(RestoreFrom())
        self.ledger.recover(NO_SINKS, {}, fork=False)
        self.id = self.ledger.log.last_id
        self.files = self._restore()
        self._lifetime = lifetime or random.choice([2, 10, 50, 1000])
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
        log = self.files.pop("sources/0/9.compact")
        self.files = {
            path: content
            for path, content in self.files.items()
            if path == "metadata" or self._random.random() > 1 / self._lifetime
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
        self.ledger.log.begin(self.id)
        hold = self._hold()
        refs = self._uploader.upload(
            hold,
            self.ledger.log.reusable_files(self.id, CHAIN),
            partial(self.ledger.log.allocate, self.id),
            pack_below=SMALL,
            pack_target=TARGET,
        )
        shutil.rmtree(hold.directory)
        if abort:
            self.ledger.log.aborted(self.id)
            return
        manifest = manifest_of(self.ledger, self.id, ChainState(uid=CHAIN, operators=(), batch=BatchId(1), files=refs))
        self.ledger.complete(manifest)
        self.ledger.log.claim.committed(self.id)
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
