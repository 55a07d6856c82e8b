"""Owners that know nothing of each other share one log, one store and one sink; the store fails in every way.

Each owner lives a life: it claims, restores, publishes, checkpoints and deletes. The schedule says who takes the next
step, what goes wrong with it, who dies, and when late writes and deletions take effect. A life that is not scheduled
sleeps, between any two effects, for as long as it takes. A visitor, an owner of another job, claims their checkpoints.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any, Literal

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from streamjob.errors import CannotRestore, Superseded
from streamjob.ids import Attempt, BatchId, ChainUid, CheckpointId, Epoch, Key, LogSeq, OperatorUid, Owner
from streamjob.protocol.claiming import CreateOutside, Marker, claim_snapshot
from streamjob.protocol.collector import CannotCollect, Collector
from streamjob.protocol.completing import complete_snapshot
from streamjob.protocol.log import JOBS_OWN, JobId, follows, read
from streamjob.protocol.manifests import encode_manifest, read_manifest
from streamjob.protocol.ownership import Claim, Completion, Identity, OutcomeUnknown, claim, unless_superseded
from streamjob.protocol.publishing import Abort, Commit, SinkEffect, publish, recover
from streamjob.protocol.registry import Registry
from streamjob.protocol.restore import LATEST, Resolution, resolve
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import ChainState, FileRef, Manifest, SinkState, SourceState
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import ObjectMissing, StoreError, StoreUnavailable
from streamjob.store.effects import Delete, List, Put, PutIfAbsent, StoreEffect, get, put
from streamjob.testing.simulated_store import Outcome, SimulatedStore

JOB = JobId("tests", "job")
SINK = OperatorUid("sink")
FILES = 3


@dataclass(frozen=True)
class Stage:
    """Write a batch where no reader of the sink sees it."""

    epoch: Epoch
    start: int
    stop: int


Effect = StoreEffect | SinkEffect | Stage | CreateOutside
Life = Generator[Effect, object, None]


WANTED: tuple[Literal["latest", "oldest", "none"], ...] = ("latest",) * 8 + ("oldest", "none")


class ModelSink:
    """Renames what was staged when it is committed; remembers how often each batch became visible."""

    def __init__(self) -> None:
        self.staged: set[Stage] = set()
        self.shown: Counter[Stage] = Counter()

    def perform(self, effect: Stage | SinkEffect) -> None:
        match effect:
            case Stage():
                self.staged.add(effect)
            case Commit(_, _, committables):
                for batch in map(batch_of, committables):
                    if batch in self.staged:
                        self.staged.remove(batch)
                        self.shown[batch] += 1
            case Abort(_, before):
                self.staged = {batch for batch in self.staged if batch.epoch >= before}


@cache
def sha256_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def batch_of(committable: JsonValue) -> Stage:
    assert isinstance(committable, list)
    epoch, start, stop = committable
    assert isinstance(epoch, int) and isinstance(start, int) and isinstance(stop, int)  # noqa: PT018
    return Stage(Epoch(epoch), start, stop)


def contents(position: int) -> dict[str, bytes]:
    """The job's state after `position` batches: of its files some change, some stay, and some come back."""
    return {f"f{n}": b"%d:%d" % (n, (position // (n + 1)) % 2) for n in range(FILES)}


class World:
    """The store, the sink, and what an all-seeing observer knows of them."""

    def __init__(self) -> None:
        self.store = SimulatedStore()
        self.sink = ModelSink()
        self.num_retained = 3
        self.log: list[LogRecord] = []
        self.manifests: dict[tuple[Epoch, CheckpointId], Manifest] = {}
        self.encoded: dict[tuple[Epoch, CheckpointId], bytes] = {}
        self.bytes: dict[str, bytes] = {}
        self.forked = False
        self.strays = 0
        self.strays_at_the_edge = 0
        self.claimed: list[LogRecord] = []
        self.completed = 0

    def perform(self, effect: Effect, outcome: Outcome) -> object:
        if isinstance(effect, Stage | SinkEffect):
            self._perform_in_sink(effect, outcome)
            return None
        if isinstance(effect, CreateOutside):
            effect = PutIfAbsent(Key(effect.uri.removeprefix(self.store.root)), effect.content)
        before = len(self.store.objects)
        try:
            return self.store.perform(effect, outcome)
        finally:
            self._observe(effect, grown=len(self.store.objects) > before)

    def land(self, number: int) -> None:
        if self.store.late:
            before = len(self.store.objects)
            effect = self.store.land(number)
            self._observe(effect, grown=len(self.store.objects) > before)

    def _perform_in_sink(self, effect: Stage | SinkEffect, outcome: Outcome) -> None:
        if outcome in (Outcome.DONE, Outcome.REPLY_LOST):
            self.sink.perform(effect)
            self.check_sink()
        if outcome is not Outcome.DONE:
            raise StoreUnavailable("the sink got no answer")

    def _observe(self, effect: StoreEffect, *, grown: bool) -> None:
        match effect:
            case PutIfAbsent(key, content) if grown and keys.log_seq(key) is not None:
                self._observe_record(LogRecord.model_validate_json(content))
                self.check_restorable()
            case Put(key, _) if keys.shared_epoch(key) is not None:
                assert key not in self.bytes or self.store.objects.get(key, self.bytes[key]) == self.bytes[key]
            case Delete():
                self.check_restorable()
                self.check_readers()

    def _observe_record(self, record: LogRecord) -> None:
        assert record.seq <= len(self.log), "a record left a gap in the log"
        if record.seq < len(self.log):
            self.strays += 1
            self.strays_at_the_edge += keys.log_record(LogSeq(record.seq + 1)) in self.store.objects
            self.check_readers()
            return
        assert not self.log or follows(self.log[-1], record), "an epoch wrote above a later claim"
        if record.completes:
            self.check_published(self.completions[-1:])
            finished = bool(self.completions) and self.completions[-1].kind is RecordKind.FINAL
            assert not finished or self.forked, "something was completed after the final checkpoint"
        self.log.append(record)

    def check_readers(self) -> None:
        """Whoever reads the log now sees its end as it was written; where a claim was written, maybe another one."""
        if not self.log:
            return
        seen = self.store.run(read(JOB)).records
        assert seen[-1] == self.log[-1]
        for record in seen:
            written = self.log[record.seq]
            both_claim = record.kind is RecordKind.CLAIM and written.kind is RecordKind.CLAIM
            assert record == written or (both_claim and record.epoch == written.epoch), f"{record} is a stray"
        own = [record for record in self.completions if record.kind in JOBS_OWN]
        assert set(own[-self.num_retained :]) <= set(seen), "a retained checkpoint is not in the log any more"

    @property
    def completions(self) -> list[LogRecord]:
        return [record for record in self.log if record.completes]

    def manifest_of(self, record: LogRecord) -> Manifest:
        assert record.id is not None
        return self.manifests[record.epoch, record.id]

    def retained(self) -> list[LogRecord]:
        """The newest checkpoints, as many as every owner retains, and all savepoints."""
        own = [record for record in self.completions if record.kind in JOBS_OWN]
        savepoints = [record for record in self.completions if record.kind is RecordKind.SAVEPOINT]
        return own[-self.num_retained :] + savepoints

    def check_restorable(self) -> None:
        """What is retained is there, and what else has a manifest is whole, too."""
        for record in self.completions:
            if Key(str(record.manifest)) not in self.store.objects:
                assert record not in self.retained(), f"retained {record.kind} {record.id} is gone"
                assert record not in self.claimed, f"claimed {record.kind} {record.id} is gone"
                continue
            manifest = self.manifest_of(record)
            assert self.store.objects.get(Key(str(record.manifest))) == self.encoded[record.epoch, manifest.id]
            for file in manifest.files():
                stored = self.store.objects.get(Key(file.object))
                assert stored is not None, f"{file.object} of {record.kind} {record.id} is gone"
                assert sha256_of(stored) == file.sha256

    def check_published(self, completions: list[LogRecord]) -> None:
        for record in completions:
            for committable in self.manifest_of(record).sinks[0].committables:
                assert self.sink.shown[batch_of(committable)] == 1, f"{committable} of {record.id} is not published"

    def check_sink(self) -> None:
        named = {batch_of(c) for record in self.completions for c in self.manifest_of(record).sinks[0].committables}
        for batch, times in self.sink.shown.items():
            assert times == 1, f"{batch} was published {times} times"
            assert batch in named, f"{batch} is published, and the log does not name it"

    def check_complete_output(self) -> None:
        """Everything up to the last cut is visible, without a gap and without an overlap."""
        if self.completions and not self.forked:
            end = position_of(self.manifest_of(self.completions[-1]))
            rows = sorted(row for batch in self.sink.shown for row in range(batch.start, batch.stop))
            assert rows == list(range(end))

    def check_no_garbage(self, claimed: LogSeq) -> None:
        """Nothing is left but what retained checkpoints and savepoints need, and the end of the log."""
        own = [record for record in self.retained() if record.kind in JOBS_OWN]
        needed = {str(record.manifest) for record in own}
        needed |= {name for record in own for name in self.manifest_of(record).objects()}
        lowest = own[0].seq if own else claimed
        needed |= {keys.log_record(record.seq) for record in self.log if record.seq >= lowest}
        for key in self.store.objects:
            manifest = keys.marked_manifest(key)
            if manifest is None or manifest not in self.store.objects:
                continue
            needed.add(key)
            if Marker.model_validate_json(self.store.objects[key]).kind == "claim":
                needed |= {manifest, *self.store.run(read_manifest(manifest)).objects()}
        assert {key for key in self.store.objects if not key.startswith("savepoints/")} == needed
        assert not self.sink.staged


def position_of(manifest: Manifest) -> int:
    position = manifest.sources[0].position
    assert isinstance(position, int)
    return position


@dataclass
class Habits:
    """How an owner lives: what it starts from, and what it takes at its n-th checkpoint."""

    wanted: Literal["latest", "oldest", "none"] = "latest"
    num_retained: int = 3
    checkpoints: int = 6
    turns: int = 0b0110
    savepoint_at: int | None = None
    final_at: int | None = None


def live(world: World, owner: int, attempt: int, habits: Habits) -> Life:
    identity = Identity(job=JOB, owner=Owner(f"owner-{owner}"), attempt=Attempt(attempt))
    try:
        held = yield from claim(identity, float(owner), checkpoints=habits.num_retained)
    except (Superseded, StoreError):
        return
    try:
        yield from unless_superseded(held, run_epoch(world, held, habits))
    except Superseded:
        assert world.log[-1].epoch > held.epoch, "an owner gave way to nobody"
    except StoreError:
        return


def visit(world: World, visitor: int) -> Life:
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


def run_epoch(world: World, held: Claim, habits: Habits) -> Life:
    assert set(held.below.completions) <= set(world.log), "a stray record counts for a reader"
    wanted: str = habits.wanted
    own = [record for record in held.below.completions if record.kind in JOBS_OWN]
    if wanted == "oldest":
        wanted = str(own[0].manifest) if own else LATEST
    try:
        resolution = yield from resolve(held.below, wanted, root=world.store.root)
    except CannotRestore:
        if habits.wanted == "oldest" and len(own) > 1:
            return
        raise
    world.forked |= resolution.fork
    yield from recover(held, [SINK], fork=resolution.fork)
    if held.finished and not resolution.fork:
        return
    if resolution.manifest is not None:
        for file in resolution.manifest.files():
            try:
                yield from get(Key(file.object))
            except ObjectMissing as error:
                if resolution.fork:
                    return
                raise CannotRestore(str(error)) from error
    run = EpochRun(world, held, resolution, habits)
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
    """What an owner does once it has restored."""

    def __init__(self, world: World, held: Claim, resolution: Resolution, habits: Habits) -> None:
        self.world = world
        self.held = held
        self.habits = habits
        self.registry = resolution.registry(held)
        self.collector = Collector(self.registry)
        self.position = 0 if resolution.manifest is None else position_of(resolution.manifest)
        self.last_id = resolution.last_id
        self.staged: list[JsonValue] = []
        self.unknown = False

    def checkpoint(self, number: int) -> Generator[Effect, object, Completion | None]:
        if self.held.finished or self.unknown:
            return None
        self.last_id = CheckpointId(self.last_id + 1)
        batch = Stage(self.held.epoch, self.position, self.position + 1 + number % 2)
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
            files = yield from upload(self.world, self.registry, self.held, kind, self.last_id, self.position)
            manifest = describe(self.held, kind, self.last_id, self.position, files, self.staged)
            self.world.manifests[self.held.epoch, self.last_id] = manifest
            self.world.encoded[self.held.epoch, self.last_id] = encode_manifest(manifest)
            place = None
            if kind is RecordKind.SAVEPOINT:
                place = f"savepoints/{self.held.epoch}-{self.last_id}/manifest.json"
                yield from put(Key(place), encode_manifest(manifest))
            completion = yield from complete_snapshot(
                self.held, self.registry, manifest, float(self.last_id), savepoint_uri=place
            )
        except OutcomeUnknown:
            self.unknown = True
            return None
        except StoreUnavailable:
            self.registry.aborted(self.last_id)
            return None
        assert self.world.log[completion.record.seq] == completion.record, "a stray record passed for a completion"
        self.world.completed += 1
        self.staged = []
        yield from publish(completion, manifest)
        return completion

    def collect(self, completion: Completion) -> Life:
        try:
            yield from self.collector.collect(completion, self.habits.num_retained)
        except CannotCollect:
            event("a collection was refused")
        except StoreUnavailable:
            event("a collection failed")


def upload(
    world: World, registry: Registry, held: Claim, kind: RecordKind, checkpoint: CheckpointId, position: int
) -> Generator[Effect, object, list[FileRef]]:
    files = []
    for path, content in contents(position).items():
        sha256 = sha256_of(content)
        if kind is RecordKind.SAVEPOINT:
            key = Key(f"savepoints/{held.epoch}-{checkpoint}/files/{path}")
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
    held: Claim,
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
        epoch=held.epoch,
        kind=literal,
        triggered=0.0,
        completed=1.0,
        graph={},
        chains=(ChainState(uid=ChainUid("c"), operators=(), batch=BatchId(position), files=tuple(files)),),
        sources=(SourceState(uid=OperatorUid("source"), position=position),),
        sinks=(SinkState(uid=SINK, committables=tuple(committables)),),
    )


@dataclass
class Actor:
    """A life at the point where its next effect is wanted and not yet performed."""

    life: Life
    wanted: Effect | None = None
    ended: bool = False

    def __post_init__(self) -> None:
        self._resume(None, None)

    def step(self, world: World, outcome: Outcome) -> None:
        if self.ended or self.wanted is None:
            return
        try:
            reply = world.perform(self.wanted, outcome)
        except StoreError as error:
            self._resume(None, error)
        else:
            self._resume(reply, None)

    def _resume(self, reply: object, error: Exception | None) -> None:
        try:
            self.wanted = self.life.send(reply) if error is None else self.life.throw(error)
        except StopIteration:
            self.ended = True


@dataclass(frozen=True)
class Burst:
    """One owner takes some steps, or fewer if it wants a certain effect before; that one ends as told, or has to wait.

    An owner whose life has ended is born again first, as pods are.
    """

    actor: int
    steps: int
    until: type[Any] | None
    outcome: Outcome | None


@dataclass(frozen=True)
class Rebirth:
    """An owner dies where it stands, and another takes its place; `attempts` is how far the attempt moves."""

    actor: int
    attempts: int
    habits: Habits


@dataclass(frozen=True)
class Land:
    """Late effects take effect."""

    number: int
    count: int


habits = st.builds(
    Habits,
    wanted=st.sampled_from(WANTED),
    num_retained=st.integers(1, 3),
    checkpoints=st.integers(1, 8),
    turns=st.integers(0, 2**16 - 1),
    savepoint_at=st.none() | st.integers(0, 3),
    final_at=st.sampled_from([None] * 7 + [0, 3]),
)
VISITOR = 3
actors = st.integers(0, VISITOR)
bursts = st.builds(
    Burst,
    actor=actors,
    steps=st.integers(1, 12) | st.integers(40, 300),
    until=st.sampled_from([None, None, PutIfAbsent, PutIfAbsent, Delete, Delete, Commit, Abort, List]),
    outcome=st.sampled_from([None, None, *Outcome]),
)
rebirths = st.builds(Rebirth, actor=st.integers(0, VISITOR - 1), attempts=st.integers(0, 1), habits=habits)
lands = st.builds(Land, number=st.integers(0, 5), count=st.integers(1, 4))
schedules = st.lists(st.one_of(bursts, bursts, bursts, rebirths, lands), min_size=12, max_size=60)


def play(schedule: list[Burst | Rebirth | Land]) -> World:
    world = World()
    born = 0
    visitors = 0
    attempt = 0

    def bear(habits: Habits) -> Actor:
        nonlocal born
        born += 1
        world.num_retained = min(world.num_retained, habits.num_retained)
        return Actor(live(world, born, attempt, habits))

    def send_visitor() -> Actor:
        nonlocal visitors
        visitors += 1
        return Actor(visit(world, visitors))

    lives = [bear(Habits()) for _ in range(VISITOR)]
    lives.append(send_visitor())
    for move in schedule:
        match move:
            case Burst(actor, steps, until, outcome):
                if lives[actor].ended:
                    lives[actor] = send_visitor() if actor == VISITOR else bear(Habits())
                for _ in range(steps):
                    if until is not None and isinstance(lives[actor].wanted, until):
                        break
                    if until is PutIfAbsent and isinstance(lives[actor].wanted, CreateOutside):
                        break
                    lives[actor].step(world, Outcome.DONE)
                if outcome is not None:
                    lives[actor].step(world, outcome)
            case Rebirth(actor, attempts, habits):
                lives[actor].life.close()
                attempt += attempts
                lives[actor] = bear(habits)
            case Land(number, count):
                for _ in range(count):
                    world.land(number)
    for doomed in lives:
        doomed.life.close()
    while world.store.late:
        world.land(0)
    was_finished = bool(world.completions) and world.completions[-1].kind is RecordKind.FINAL
    before = world.completed
    # An earlier owner may have retained fewer checkpoints: deletion begins when those that are missing are subsumed.
    last = bear(Habits(checkpoints=4, num_retained=3))
    while not last.ended:
        last.step(world, Outcome.DONE)
    assert was_finished or world.completed == before + 4, "a healthy owner of a healthy store did not complete"
    world.num_retained = 3
    return world


def random_schedule(random: Random) -> list[Burst | Rebirth | Land]:
    """Longer than hypothesis draws them, with owners that fall asleep right before what matters."""

    retained_by_all = random.choice([2, 3, None])

    def habits() -> Habits:
        return Habits(
            wanted=random.choice(WANTED),
            num_retained=retained_by_all or random.randint(1, 3),
            checkpoints=random.randint(1, 8),
            turns=random.getrandbits(16),
            savepoint_at=random.choice([None, None, 0, 1, 2]),
        )

    def move() -> Burst | Rebirth | Land:
        actor = random.randrange(VISITOR + 1)
        lot = random.random()
        if lot < 0.12 and actor != VISITOR:
            return Rebirth(actor, random.randrange(2), habits())
        if lot < 0.25:
            return Land(random.randrange(6), random.randint(1, 4))
        steps = random.choice([random.randint(1, 12), random.randint(40, 300)])
        until = random.choice([None, PutIfAbsent, PutIfAbsent, Delete, Delete, Commit, Abort, List])
        return Burst(actor, steps, until, random.choice([None, None, None, *Outcome]))

    return [move() for _ in range(random.randint(20, 120))]


def check(world: World) -> None:
    world.check_published(world.completions)
    world.check_complete_output()
    claims = [record for record in world.log if record.kind is RecordKind.CLAIM]
    event(f"completed {min(world.completed // 10 * 10, 50)}+")
    event(f"strays {min(world.strays, 3)}")
    event(f"strays right below the log {min(world.strays_at_the_edge, 3)}")
    event(f"claimed by another job {min(len(world.claimed), 3)}")
    event(f"claims {min(len(claims) // 5 * 5, 20)}+")
    if not any(record.kind is RecordKind.FINAL for record in world.completions):
        world.check_no_garbage(claims[-1].seq)


@settings(
    max_examples=settings().max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(schedule=schedules)
def test_whatever_happens_the_log_is_linear_checkpoints_are_whole_and_output_is_exactly_once(
    schedule: list[Burst | Rebirth | Land],
) -> None:
    check(play(schedule))


@settings(max_examples=settings().max_examples, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_long_histories_of_many_epochs_keep_the_invariants(seed: int) -> None:
    check(play(random_schedule(Random(seed))))
