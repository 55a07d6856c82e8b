"""The life of an owner: it claims, restores, commits, checkpoints and deletes; and that of a visitor."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import event
from pydantic import JsonValue
from tests.properties.observer import JOB, SINK, Effect, ObservedStore, Stage, contents, position_of, sha256_of

from streamjob.errors import CannotRestore, Superseded
from streamjob.ids import Attempt, BatchId, ChainUid, CheckpointId, Key, OperatorUid, Owner
from streamjob.protocol.log.claiming import claim_snapshot
from streamjob.protocol.log.committing import commit, recover
from streamjob.protocol.log.completing import complete_snapshot
from streamjob.protocol.log.creating import OutcomeUnknown
from streamjob.protocol.log.deleting_garbage import CannotCollect, GarbageCollector
from streamjob.protocol.log.ownership import Claim, Completion, Identity, claim_log, unless_superseded
from streamjob.protocol.log.records import JOBS_OWN, JobId
from streamjob.protocol.log.registry import Registry
from streamjob.protocol.log.restore import LATEST, Resolution, resolve
from streamjob.protocol.manifests.stored_manifests import encode_manifest, read_manifest
from streamjob.snapshot.manifest import ChainState, FileRef, Manifest, SinkState, SourceState
from streamjob.snapshot.record import RecordKind
from streamjob.store.base import ObjectMissing, StoreError, StoreUnavailable
from streamjob.store.effects import get, put

Life = Generator[Effect, object, None]


@dataclass
class Habits:
    """An owner's behaviour: the snapshot that it starts from, and the content of its n-th checkpoint."""

    wanted: Literal["latest", "oldest", "none"] = "latest"
    num_retained: int = 3
    checkpoints: int = 6
    turns: int = 0b0110
    savepoint_at: int | None = None
    final_at: int | None = None
    asks_again: int = 1


def live(world: ObservedStore, owner: int, attempt: int, habits: Habits) -> Life:
    identity = Identity(job=JOB, owner=Owner(f"owner-{owner}"), attempt=Attempt(attempt))
    try:
        claim = yield from claim_log(
            identity, float(owner), checkpoints=habits.num_retained, num_retained=habits.num_retained
        )
    except (Superseded, StoreError):
        return
    try:
        yield from unless_superseded(claim, run_epoch(world, claim, habits))
    except Superseded:
        assert world.log[-1].epoch > claim.epoch, "an owner gave way to nobody"
    except StoreError:
        return


def visit(world: ObservedStore, visitor: int) -> Life:
    """Claim one of the last checkpoints for another job."""
    own = [record for record in world.completions if record.kind in JOBS_OWN]
    if not own:
        return
    record = own[-1 - visitor % min(len(own), 5)]
    reference = world.store.root + str(record.manifest)
    try:
        yield from read_manifest(reference)
        yield from claim_snapshot(reference, JobId("tests", f"visitor-{visitor % 2}"), "memory:///elsewhere/")
    except (CannotRestore, StoreError):
        return
    world.claimed.append(record)
    world.check_restorable()


def run_epoch(world: ObservedStore, claim: Claim, habits: Habits) -> Life:
    assert set(claim.below.completions) <= set(world.log), "a stray record counts for a reader"
    wanted: str = habits.wanted
    own = [record for record in claim.below.completions if record.kind in JOBS_OWN]
    if wanted == "oldest":
        wanted = str(own[0].manifest) if own else LATEST
    try:
        resolution = yield from resolve(claim.below, wanted, root=world.store.root)
    except CannotRestore:
        if habits.wanted == "oldest" and len(own) > 1:
            return
        raise
    world.forked |= resolution.fork
    yield from recover(claim, [SINK], fork=resolution.fork)
    if claim.finished and not resolution.fork:
        return
    if resolution.manifest is not None:
        for file in resolution.manifest.files():
            try:
                yield from get(Key(file.object))
            except ObjectMissing as error:
                if resolution.fork:
                    return
                raise CannotRestore(str(error)) from error
    run = EpochRun(world, claim, resolution, habits)
    completion: Completion | None = None
    for number in range(habits.checkpoints):
        if completion is None:
            completion = yield from run.checkpoint(number)
        else:
            completion = yield from beside(run.checkpoint(number), run.collect(completion), habits.turns)
    if completion is not None:
        yield from run.collect(completion)


def beside(
    main: Generator[Effect, object, Completion | None], side: Life, turns: int
) -> Generator[Effect, object, Completion | None]:
    """Let two programs of one owner go on side by side, in the order that the bits of `turns` say."""
    result: Completion | None = None
    wanted: dict[bool, Effect] = {}
    programs: dict[bool, Generator[Effect, object, object]] = {False: main, True: side}
    for which, program in programs.items():
        try:
            wanted[which] = next(program)
        except StopIteration as end:
            result = result if which else end.value
    turn = 0
    while wanted:
        which = bool(turns >> (turn % 16) & 1)
        turn += 1
        which = which if which in wanted else not which
        program = programs[which]
        try:
            try:
                reply = yield wanted[which]
            except StoreError as error:
                wanted[which] = program.throw(error)
            else:
                wanted[which] = program.send(reply)
        except StopIteration as end:
            del wanted[which]
            result = result if which else end.value
    return result


class EpochRun:
    """An owner's work after the restore."""

    def __init__(self, world: ObservedStore, claim: Claim, resolution: Resolution, habits: Habits) -> None:
        self.world = world
        self.claim = claim
        self.habits = habits
        self.registry = resolution.registry(claim)
        self.collector = GarbageCollector(self.registry)
        self.position = 0 if resolution.manifest is None else position_of(resolution.manifest)
        self.last_id = resolution.last_id
        self.staged: list[JsonValue] = []
        self.unknown = False

    def checkpoint(self, number: int) -> Generator[Effect, object, Completion | None]:
        if self.claim.finished or self.unknown:
            return None
        self.last_id = CheckpointId(self.last_id + 1)
        batch = Stage(self.claim.epoch, self.position, self.position + 1 + number % 2)
        yield batch
        self.staged.append([batch.epoch, batch.start, batch.stop])
        self.position = batch.stop
        kind = RecordKind.CHECKPOINT
        if number == self.habits.savepoint_at:
            kind = RecordKind.SAVEPOINT
        if number == self.habits.final_at:
            kind = RecordKind.FINAL
        self.registry.begin(self.last_id)
        try:
            files = yield from upload(self.world, self.registry, self.claim, kind, self.last_id, self.position)
            manifest = describe(self.claim, kind, self.last_id, self.position, files, self.staged)
            self.world.manifests[self.claim.epoch, self.last_id] = manifest
            self.world.encoded[self.claim.epoch, self.last_id] = encode_manifest(manifest)
            place = None
            if kind is RecordKind.SAVEPOINT:
                place = f"savepoints/{self.claim.epoch}-{self.last_id}/manifest.json"
                yield from put(Key(place), encode_manifest(manifest))
            completion = yield from self._complete(manifest, place)
        except OutcomeUnknown:
            assert self.claim.may_name(self.last_id)
            self.unknown = True
            return None
        except StoreUnavailable:
            assert not self.claim.may_name(self.last_id), "a checkpoint is given up that the log may name"
            self.registry.aborted(self.last_id)
            return None
        assert self.world.log[completion.record.seq] == completion.record, "a stray record passed for a completion"
        self.world.completed += 1
        self.staged = []
        yield from commit(manifest.id, manifest.sinks)
        self.claim.committed(manifest.id)
        return completion

    def _complete(self, manifest: Manifest, place: str | None) -> Generator[Effect, object, Completion]:
        tries = 0
        while True:
            try:
                return (
                    yield from complete_snapshot(
                        self.claim, self.registry, manifest, float(self.last_id + tries), savepoint_uri=place
                    )
                )
            except OutcomeUnknown:
                if tries == self.habits.asks_again:
                    raise
                event("an owner asked again")
                tries += 1

    def collect(self, completion: Completion) -> Life:
        try:
            yield from self.collector.collect(completion, self.habits.num_retained)
        except CannotCollect:
            event("a collection was refused")
        except StoreUnavailable:
            event("a collection failed")


def upload(
    world: ObservedStore, registry: Registry, claim: Claim, kind: RecordKind, checkpoint: CheckpointId, position: int
) -> Generator[Effect, object, list[FileRef]]:
    files = []
    for path, content in contents(position).items():
        sha256 = sha256_of(content)
        if kind is RecordKind.SAVEPOINT:
            key = Key(f"savepoints/{claim.epoch}-{checkpoint}/files/{path}")
            yield from put(key, content)
        elif (known := registry.reuse(checkpoint, sha256, len(content))) is not None:
            key = known.object
        else:
            key = registry.allocate(checkpoint, sha256)
            world.bytes[key] = content
            yield from put(key, content)
        files.append(FileRef(path=path, object=key, length=len(content), sha256=sha256))
    return files


def describe(
    claim: Claim,
    kind: RecordKind,
    checkpoint: CheckpointId,
    position: int,
    files: list[FileRef],
    committables: list[JsonValue],
) -> Manifest:
    literal: Any = kind.value
    return Manifest(
        job=JOB.name,
        namespace=JOB.namespace,
        id=checkpoint,
        epoch=claim.epoch,
        kind=literal,
        triggered=0.0,
        completed=1.0,
        graph={},
        chains=(ChainState(uid=ChainUid("c"), operators=(), batch=BatchId(position), files=tuple(files)),),
        sources=(SourceState(uid=OperatorUid("source"), position=position),),
        sinks=(SinkState(uid=SINK, committables=tuple(committables)),),
    )
