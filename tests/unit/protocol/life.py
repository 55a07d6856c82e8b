"""An epoch of a job in memory, and the store beneath it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from tests.faulty_store import FaultyStore

from streamjob.ids import Attempt, BatchId, ChainUid, CheckpointId, Epoch, Key, OperatorUid, Owner
from streamjob.protocol.log.committing import Recovered, SinkEffect, commit, recover
from streamjob.protocol.log.completing import complete_snapshot
from streamjob.protocol.log.deleting_garbage import Collected, GarbageCollector
from streamjob.protocol.log.ownership import Claim, Completion, Identity, claim_log
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import ClaimMode, Resolution, resolve
from streamjob.protocol.manifests.stored_manifests import encode_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChainState, FileRef, Manifest, SinkState
from streamjob.store.effects import Program, StoreEffect, drive

JOB = JobId("tests", "job")
SINK = OperatorUid("report")


def sha256_of(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def file_ref(content: str, key: str, offset: int = 0) -> FileRef:
    return FileRef(path="f", object=key, offset=offset, length=len(content), sha256=sha256_of(content))


def manifest_of(
    epoch: int,
    number: int,
    files: tuple[FileRef, ...] = (),
    kind: Literal["checkpoint", "savepoint", "final"] = "checkpoint",
) -> Manifest:
    return Manifest(
        job=JOB.name,
        namespace=JOB.namespace,
        id=CheckpointId(number),
        epoch=Epoch(epoch),
        kind=kind,
        triggered=0.0,
        completed=1.0,
        graph={},
        chains=(ChainState(uid=ChainUid("c"), operators=(), batch=BatchId(0), files=files),),
        sinks=(SinkState(uid=SINK, committables=(number,)),),
    )


@dataclass
class JobEpoch:
    """One epoch of the job on a store; `contents` of a checkpoint are uploaded unless the registry knows them."""

    store: FaultyStore
    wanted: str = "latest"
    num_retained: int = 2
    mode: ClaimMode = ClaimMode.CLAIM
    sink: list[SinkEffect] = field(default_factory=list)

    def __post_init__(self) -> None:
        identity = Identity(job=JOB, owner=Owner(f"owner-{id(self)}"), attempt=Attempt(0))
        self.claim: Claim = drive(self.store, claim_log(identity, 1.0, num_retained=self.num_retained))
        self.resolution: Resolution = self.resolve(self.wanted)
        self.recovered = self.recover()
        self.registry = self.resolution.registry(self.claim)
        self.collector = GarbageCollector(self.registry)
        self.last = self.resolution.last_id

    def resolve(self, wanted: str = "latest", *, require: bool = False) -> Resolution:
        program = resolve(self.claim.below, wanted, root=self.store.uri, mode=self.mode, require_snapshot=require)
        return drive(self.store, program, find=lambda uri: (self.store, Key("elsewhere/" + uri.rsplit("/", 2)[1])))

    def recover(self) -> Recovered:
        return drive(self.store, recover(self.claim, [SINK], fork=self.resolution.fork), perform=self.sink.append)

    def refer(self, number: CheckpointId, content: str) -> FileRef:
        known = self.registry.reuse(number, sha256_of(content), len(content))
        if known is not None:
            return file_ref(content, known.object, known.offset)
        key = self.registry.allocate(number, sha256_of(content))
        self.store.put(key, content.encode())
        return file_ref(content, key)

    def begin(self, *contents: str) -> Manifest:
        self.last = CheckpointId(self.last + 1)
        self.registry.begin(self.last)
        return manifest_of(self.claim.epoch, self.last, tuple(self.refer(self.last, content) for content in contents))

    def complete(self, manifest: Manifest, place: str | None = None) -> Completion:
        program = complete_snapshot(self.claim, self.registry, manifest, 2.0, savepoint_uri=place)
        completion = drive(self.store, program)
        drive(self.store, commit(manifest.id, manifest.sinks), perform=self.sink.append)
        self.claim.committed(manifest.id)
        return completion

    def checkpoint(self, *contents: str) -> Manifest:
        manifest = self.begin(*contents)
        self.completion = self.complete(manifest)
        return manifest

    def savepoint(self, place: str) -> Manifest:
        manifest = self.begin().model_copy(update={"kind": "savepoint"})
        self.store.put(Key("elsewhere/" + place.rsplit("/", 2)[1]), encode_manifest(manifest))
        self.completion = self.complete(manifest, place)
        return manifest

    def collect(self) -> Collected:
        return drive(self.store, self.collector.collect(self.completion, self.num_retained))


def without_recovery(store: FaultyStore) -> JobEpoch:
    """Claim the log, and resolve and commit nothing yet."""
    owner = JobEpoch.__new__(JobEpoch)
    owner.store, owner.mode = store, ClaimMode.CLAIM
    owner.claim = drive(store, claim_log(Identity(job=JOB, owner=Owner("reader"), attempt=Attempt(0)), 1.0))
    return owner


def stored(store: FaultyStore, prefix: str) -> set[str]:
    return {info.key for info in store.list(prefix)}


def objects(*manifests: Manifest) -> set[str]:
    return {name for manifest in manifests for name in manifest.objects()}


def key_of(manifest: Manifest) -> Key:
    return keys.manifest(manifest.epoch, manifest.id)


def spoil(store: FaultyStore, manifest: Manifest, how: str) -> None:
    key = key_of(manifest)
    match how:
        case "manifest missing":
            store.delete([key])
        case "manifest corrupt":
            store.put(key, store.get(key)[:40])
        case "file missing":
            store.delete([Key(next(manifest.files()).object)])
        case "file truncated":
            store.put(Key(next(manifest.files()).object), b"")
        case "file altered":
            file = Key(next(manifest.files()).object)
            content = store.get(file)
            store.put(file, bytes([content[0] ^ 1]) + content[1:])
        case "unknown version":
            store.put(key, b'{"formatVersion": 9}')
        case "another's manifest":
            store.put(key, encode_manifest(manifest_of(1, 1)))


def once(effect: StoreEffect) -> Program[object]:
    """Perform one effect."""
    return (yield effect)
