"""Owners that know nothing of each other share one log, one store and one sink; the store fails in every way.

Each owner lives a life: it claims, restores, commits, checkpoints and deletes. The schedule says who takes the next
step, what goes wrong with it, who dies, and when late writes and deletions take effect. A life that is not scheduled
sleeps, between any two effects, for as long as it takes. A visitor, an owner of another job, claims their checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tests.properties.observer import JOB, Effect, ObservedStore
from tests.properties.owners import Habits, Life, live, visit
from tests.simulated_store import Outcome

from streamjob.ids import LogSeq, Owner
from streamjob.protocol.log.claiming import CreateOutside
from streamjob.protocol.log.committing import Abort, Commit
from streamjob.protocol.log.records import LogDamaged, read
from streamjob.protocol.log.repair import plan_repair, repair
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import StoreError
from streamjob.store.effects import Delete, List, PutIfAbsent

WANTED: tuple[Literal["latest", "oldest", "none"], ...] = ("latest",) * 8 + ("oldest", "none")


@dataclass
class Actor:
    """A life at the point where its next effect is wanted and not yet performed."""

    life: Life
    wanted: Effect | None = None
    ended: bool = False

    def __post_init__(self) -> None:
        self._resume(None, None)

    def step(self, world: ObservedStore, outcome: Outcome) -> None:
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

    In an outage, later effects end in the same way. An owner whose life has ended is restarted first, like a pod.
    """

    actor: int
    steps: int
    until: type[Any] | None
    outcome: Outcome | None
    outage: int


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
    asks_again=st.integers(0, 2),
)
DAMAGES = ("missing", "altered", "cut short", "replaced")
VISITOR = 3
OUTAGES = (1,) * 7 + (10, 12, 23)
"""In calls; ten are what completing a checkpoint tries before its outcome is unknown."""
actors = st.integers(0, VISITOR)
bursts = st.builds(
    Burst,
    actor=actors,
    steps=st.integers(1, 12) | st.integers(40, 300),
    until=st.sampled_from([None, None, PutIfAbsent, PutIfAbsent, Delete, Delete, Commit, Abort, List]),
    outcome=st.sampled_from([None, None, *Outcome]),
    outage=st.sampled_from(OUTAGES),
)
rebirths = st.builds(Rebirth, actor=st.integers(0, VISITOR - 1), attempts=st.integers(0, 1), habits=habits)
lands = st.builds(Land, number=st.integers(0, 5), count=st.integers(1, 4))
schedules = st.lists(st.one_of(bursts, bursts, bursts, rebirths, lands), min_size=12, max_size=60)


def play(schedule: list[Burst | Rebirth | Land]) -> ObservedStore:
    world = ObservedStore()
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
            case Burst(actor, steps, until, outcome, outage):
                if lives[actor].ended:
                    lives[actor] = send_visitor() if actor == VISITOR else bear(Habits())
                for _ in range(steps):
                    if until is not None and isinstance(lives[actor].wanted, until):
                        break
                    if until is PutIfAbsent and isinstance(lives[actor].wanted, CreateOutside):
                        break
                    lives[actor].step(world, Outcome.DONE)
                if outcome is not None:
                    for _ in range(outage):
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
            asks_again=random.randrange(3),
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
        outcome = random.choice([None, None, None, *Outcome])
        return Burst(actor, steps, until, outcome, random.choice(OUTAGES))

    return [move() for _ in range(random.randint(20, 120))]


def check(world: ObservedStore) -> None:
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


@pytest.mark.slow
@settings(max_examples=settings().max_examples, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_long_histories_of_many_epochs_keep_the_invariants(seed: int) -> None:
    check(play(random_schedule(Random(seed))))


@settings(max_examples=min(settings().max_examples, 25), deadline=None)
@given(seed=st.integers(0, 2**32), which=st.integers(0, 100), how=st.sampled_from(DAMAGES), copies=st.booleans())
def test_behind_a_damaged_record_nobody_starts_and_nothing_is_deleted(
    seed: int, which: int, how: str, copies: bool
) -> None:
    world = play(random_schedule(Random(seed)))
    whole, view = dict(world.store.objects), world.store.run(read(JOB))
    if not copies:
        for record in view.records[:-1]:
            world.store.objects.pop(keys.record_copy(record.seq), None)
    damaged = view.records[which % len(view.records)]
    spoil(world, damaged, how)
    before = dict(world.store.objects)

    successor = Actor(live(world, 1_000_000, 1_000_000, Habits()))
    with pytest.raises(LogDamaged):
        run_to_end(successor, world)
    assert world.store.objects == before

    plan = world.store.run(plan_repair(JOB))
    world.store.run(repair(plan, Owner("repair"), 0.0))
    repaired = world.store.run(read(JOB))
    kept = {key: content for key, content in before.items() if not key.startswith("log")}
    assert {key: world.store.objects.get(key) for key in kept} == kept
    if keys.record_copy(damaged.seq) in before:
        event("put back from the copy")
        assert (repaired.records, world.store.objects.keys() <= whole.keys()) == (view.records, True)
    else:
        event("gone on from what is intact")
        lost = None if not damaged.completes else damaged.manifest
        intact = [record.manifest for record in view.completions if record.manifest not in (lost, None)]
        assert [record.manifest for record in repaired.completions] == intact
        assert repaired.epoch > view.epoch
        assert repaired.last_id >= view.last_id


def run_to_end(actor: Actor, world: ObservedStore) -> None:
    while not actor.ended:
        actor.step(world, Outcome.DONE)


def spoil(world: ObservedStore, record: LogRecord, how: str) -> None:
    key = keys.log_record(record.seq)
    content = world.store.objects.pop(key)
    match how:
        case "altered":
            world.store.objects[key] = content.replace(b"owner", b"Owner", 1)
        case "cut short":
            world.store.objects[key] = content[: len(content) // 2]
        case "replaced":
            world.store.objects[key] = world.store.objects.get(keys.log_record(LogSeq(record.seq - 1)), b"{}")
