"""A job that completes snapshots without Spark, for tests of what is stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from typer.testing import Result

from streamjob.ids import Attempt, BatchId, ChainUid, CheckpointId, Epoch, Key, OperatorUid, Owner
from streamjob.protocol.log.ownership import Claim, Completion, Identity, claim_log, complete
from streamjob.protocol.log.records import JobId
from streamjob.protocol.manifests.stored_manifests import NamedManifest, encode_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChainState, FileRef, InputState, Manifest, SinkState, SourceState
from streamjob.snapshot.record import RecordKind
from streamjob.store import LocalStore
from streamjob.store.effects import drive

JOB = JobId("default", "departures")
Run = Callable[..., Result]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Job:
    """A job that completes checkpoints without Spark: each file of a checkpoint is an object, small ones a pack."""

    location: Path
    job: JobId = JOB
    time: float = 1_800_000_000.0
    claims: list[Claim] = field(default_factory=list)
    graph: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = LocalStore(self.location / self.job.namespace / self.job.name)
        self.claim_log()

    @property
    def claim(self) -> Claim:
        return self.claims[-1]

    def claim_log(self, attempt: int = 1) -> None:
        identity = Identity(job=self.job, owner=Owner(f"owner-{len(self.claims)}"), attempt=Attempt(attempt))
        claim = drive(self.store, claim_log(identity, self.time))
        if claim.uncommitted is not None and claim.uncommitted.id is not None:
            claim.committed(claim.uncommitted.id)
        self.claims.append(claim)

    def upload(self, **files: bytes) -> tuple[FileRef, ...]:
        """Upload files as one pack, in this order."""
        pack = b"".join(files.values())
        key = keys.shared_file(self.claim.epoch, sha256(pack))
        self.store.put(key, pack)
        refs, offset = [], 0
        for path, content in files.items():
            refs.append(FileRef(path=path, object=key, offset=offset, length=len(content), sha256=sha256(content)))
            offset += len(content)
        return tuple(refs)

    def manifest(self, number: int, kind: str, files: tuple[FileRef, ...]) -> Manifest:
        chain = ChainState(
            uid=ChainUid("report"),
            operators=(OperatorUid("delays"),),
            batch=BatchId(7),
            watermark=1_357_000_000_000,
            inputs=(InputState(uid=OperatorUid("flights"), watermark_ms=1_357_000_000_000),),
            files=files,
        )
        return Manifest.model_validate(
            {
                "job": self.job.name,
                "namespace": self.job.namespace,
                "id": number,
                "epoch": self.claim.epoch,
                "kind": kind,
                "triggered": self.time - 1.5,
                "completed": self.time,
                "graph": self.graph,
                "chains": (chain,),
                "sources": (SourceState(uid=OperatorUid("flights"), position={"offset": 12}),),
                "sinks": (SinkState(uid=OperatorUid("out"), committables=("a", "b")),),
            }
        )

    def complete(
        self, number: int, *files: FileRef, kind: RecordKind = RecordKind.CHECKPOINT, **changes: Any
    ) -> Completion:
        """Complete a checkpoint; `changes` are of the manifest."""
        key = keys.manifest(self.claim.epoch, CheckpointId(number))
        content = encode_manifest(self.manifest(number, kind.value, files).model_copy(update=changes))
        self.store.put(key, content)
        return self._record(kind, number, key, content)

    def savepoint(self, number: int, content: bytes, place: str | None = None) -> Path:
        """Take a savepoint in a directory of its own, next to the jobs; `place` is that directory's URI in the log."""
        directory = self.location / "savepoints" / f"{self.job.name}-{number}-abc"
        store = LocalStore(directory)
        store.put(Key("files/1"), content)
        file = FileRef(path="state", object="files/1", length=len(content), sha256=sha256(content))
        manifest = encode_manifest(self.manifest(number, "savepoint", (file,)))
        store.put(Key("manifest.json"), manifest)
        named = f"{place}/manifest.json" if place else f"{store.uri}manifest.json"
        self._record(RecordKind.SAVEPOINT, number, named, manifest)
        return directory

    def _record(self, kind: RecordKind, number: int, place: str, content: bytes) -> Completion:
        manifest = NamedManifest.of(place, content)
        done = drive(self.store, complete(self.claim, kind, CheckpointId(number), manifest, self.time))
        self.claim.committed(CheckpointId(number))
        return done

    def objects(self) -> set[str]:
        return {entry.key for entry in self.store.list("")}

    def path(self, key: str) -> Path:
        """Return the file with a key."""
        return self.location / self.job.namespace / self.job.name / key

    def own_object(self, number: int) -> Path:
        """Return the file of the last object that a checkpoint of epoch 1 refers to."""
        manifest = json.loads(self.store.get(keys.manifest(Epoch(1), CheckpointId(number))))
        return self.path(manifest["chains"][0]["files"][-1]["object"])


def lines(result: Result) -> list[dict[str, Any]]:
    """Return the objects that a command printed."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def damage(path: Path, content: bytes | None) -> None:
    """Replace a file, or remove it."""
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
