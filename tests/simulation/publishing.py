"""A job whose sink publishes each batch: real emissions, publisher, journal and recovery, with crashes at any step.

Each process is a generator that yields between its steps, so that it may be ended there, or be suspended and go on when
its successor runs. The rows of a batch are a function of the state and of the plan: a number for each input, which has
the sum of all inputs so far.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from pydantic import JsonValue

from streamjob.errors import StreamJobError, Superseded
from streamjob.ids import NO_BATCH, BatchId, ChainUid, CheckpointId, Epoch, OperatorUid
from streamjob.journal import BatchPlan, JournalRecord, published_batch
from streamjob.protocol.emissions.cuts import Batch, Effects, Emissions
from streamjob.protocol.log.restore import LATEST
from streamjob.sink import Measured, SinkContext, Staged
from streamjob.snapshot.manifest import Manifest, SinkState
from streamjob_runtime.chain.emissions.publishing import BatchPublisher
from streamjob_runtime.job.output_recovery import claim_journals, recover_journals

CHAIN, SINK = ChainUid("chain"), OperatorUid("sink")
INPUTS = 30
MOST_IN_JOURNAL = 4

Row = tuple[int, int]


class Fenced(StreamJobError):
    """Another process publishes."""


class MustWait(Exception):
    """A batch may not be published yet."""


@dataclass
class Target:
    """What readers see, and the journal: each change is one transaction of the process that holds the token."""

    rows: list[Row] = field(default_factory=list)
    journal: dict[BatchId, JournalRecord] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)
    token: int = 0


class TargetSink:
    """The sink of one process."""

    def __init__(self, target: Target, staged: dict[str, list[Row]]) -> None:
        self._target = target
        self._all_staged = staged
        self._token = 0

    def open(self, context: SinkContext) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def _check(self) -> None:
        if self._target.token != self._token:
            raise Fenced("another process has the token", "")

    def take(self) -> None:
        """Fence off all other processes."""
        self._target.token += 1
        self._token = self._target.token

    def stage(self, batch: Any, batch_id: BatchId) -> Staged:
        if not batch:
            return Staged(None, 0)
        name = f"{self._token}-{batch_id}-{len(self._all_staged)}"
        self._all_staged[name] = list(batch)
        return Staged(name, len(batch))

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        self._check()
        for each in committables:
            if (batch := published_batch(each)) is not None:
                self._target.journal.pop(batch, None)
            elif str(each) not in self._target.committed:
                self._target.committed.add(str(each))
                self._target.rows += self._all_staged[str(each)]

    def take_journal(self) -> None:
        self.take()

    def journal(self) -> Sequence[JournalRecord]:
        return list(self._target.journal.values())

    def journal_id(self) -> str:
        return "journal"

    def drop_journal(self) -> int:
        raise AssertionError("no start names a snapshot here")

    def measure(self, batch: Any) -> Measured:
        return Measured(len(batch), hash_of(batch))

    def publish(
        self, batch: Any, record: Callable[[Measured], JournalRecord], *, always: bool = False
    ) -> JournalRecord | None:
        if not batch and not always:
            return None
        made = record(self.measure(batch))
        self._check()
        self._target.rows += batch
        assert self._target.journal.setdefault(made.batch, made) is made, f"{made.batch} is in the journal"
        return made


def hash_of(rows: Sequence[Row]) -> int:
    """Return a hash that does not depend on the order of the rows."""
    return sum(hash(row) for row in rows) % 2**64


@dataclass(frozen=True)
class State:
    """The state behind a batch."""

    batch: BatchId = NO_BATCH
    read: int = 0
    total: int = 0


class World:
    """The log of completed checkpoints, the target, and the processes that have been started."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.target = Target()
        self.staged: dict[str, list[Row]] = {}
        self.completed: list[Manifest] = []
        self.states: dict[CheckpointId, State] = {}
        self.owner = 0
        self.last_id = 0
        self.finished = False


class Process:
    """One epoch of the job."""

    def __init__(self, world: World, publishes: bool) -> None:
        self._world = world
        self._publishes = publishes
        self._sink = TargetSink(world.target, world.staged)
        self._emissions = Emissions([CHAIN])
        self._states: dict[BatchId, State] = {}
        self._cuts: dict[CheckpointId, tuple[BatchId, tuple[JsonValue, ...]]] = {}
        self._wanted = False
        self.stopped = False

    def verify(self) -> None:
        """Check the claim of the log."""
        if self._world.owner != self._epoch:
            raise Superseded("another process owns the log", "")

    def run(self) -> Iterator[None]:
        """Yield between the steps; returns when the job is stopped or has finished."""
        world = self._world
        world.owner += 1
        self._epoch = Epoch(world.owner)
        newest = world.completed[-1] if world.completed else None
        yield
        self._sink.take()
        yield
        publisher = BatchPublisher(
            SINK, self._sink, self._epoch, publishes=self._publishes, most=MOST_IN_JOURNAL if self._publishes else 10**6
        )
        ledger, outputs = cast(Any, self._ledger()), cast(Any, SimpleNamespace(publishers={SINK: publisher}))
        claim_journals(ledger, outputs)
        yield
        if newest is not None:
            self._sink.commit(newest.id, newest.sinks[0].committables)
            yield
        journals = recover_journals(
            ledger,
            outputs,
            [],
            cast(Any, None),
            cast(Any, SimpleNamespace(manifest=newest, reference=None, fork=False)),
            LATEST,
        )
        yield
        base = State() if newest is None else world.states[newest.id]
        replay = journals.replay([SINK], base.batch)
        last = max(replay.plans, default=NO_BATCH)
        publisher.replay(replay.published.get(SINK, {}), last, has_state=True)
        self._journal = "journal" if publisher.needs_journal else None
        if not journals.continued:
            self._emissions.await_base()
            self._wanted = True
        if base.batch != NO_BATCH:
            self._emissions.restore(CHAIN, base.batch)
        self._emissions.run_again(CHAIN, max(replay.plans, default=NO_BATCH))
        self._states[base.batch] = base
        running = [self._batches(publisher, base, replay.plans), self._checkpoints(publisher)]
        while not self.stopped and not world.finished:
            next(world.chance.choice(running))
            yield

    def _ledger(self) -> Any:
        return SimpleNamespace(verify=self.verify, store=SimpleNamespace(uri="log"))

    def _batches(self, publisher: BatchPublisher, state: State, plans: Mapping[BatchId, BatchPlan]) -> Iterator[None]:
        world, emissions = self._world, self._emissions
        last_pinned = max(plans, default=state.batch)
        while True:
            batch = BatchId(state.batch + 1)
            if batch in plans:
                plan = plans[batch]
            else:
                end = min(INPUTS, state.read + world.chance.choice((0, 0, 1, 2, 3)))
                plan = BatchPlan(version="v1", timestamp_ms=0, watermark_ms=0, sources=(str(end),))
            emissions.committed(CHAIN, state.batch)
            emissions.begin(CHAIN, batch)
            yield
            while batch == last_pinned + 1 and plans and emissions.last_covered(CHAIN) < last_pinned:
                self._wanted = True
                yield
            publisher.wait_for_room(batch, lambda: True, self._want)
            reads = range(state.read, int(plan.sources[0]))
            rows = [(number, state.total + sum(range(state.read, number + 1))) for number in reads]
            staged: Staged | None = None
            while staged is None:
                try:
                    staged = publisher.stage(cast(Any, rows), batch, lambda _, plan=plan: plan, self._begin)  # type: ignore[misc]
                except MustWait:
                    yield
            yield
            while emissions.is_sealed(CHAIN):
                yield
            state = State(batch, int(plan.sources[0]), state.total + sum(reads))
            self._states[batch] = state
            committables = {} if staged.committable is None else {SINK: staged.committable}
            self._note(emissions.emit(CHAIN, Batch(batch=batch, staged=committables)))
            yield

    def _want(self) -> None:
        self._wanted = True

    def _begin(self) -> None:
        if not self._emissions.publish(CHAIN):
            raise MustWait

    def _note(self, effects: Effects) -> None:
        for cut in effects.cuts:
            assert effects.checkpoint is not None
            self._cuts[effects.checkpoint] = cut.batch, cut.committables.get(SINK, ())

    def _checkpoints(self, publisher: BatchPublisher) -> Iterator[None]:
        world, emissions = self._world, self._emissions
        while True:
            while not self._wanted and world.chance.random() < 0.8:
                yield
            self._wanted, stops = False, world.chance.random() < 0.1
            world.last_id += 1
            checkpoint = CheckpointId(world.last_id)
            self._note(emissions.trigger(checkpoint, seal=stops, unaligned=world.chance.random() < 0.3))
            yield
            while checkpoint not in self._cuts and world.chance.random() < 0.95:
                yield
            if checkpoint not in self._cuts or world.chance.random() < 0.1:
                emissions.abort(checkpoint)
                self._wanted = True
                continue
            self.verify()
            batch, committables = self._cuts[checkpoint]
            world.completed.append(self._manifest(checkpoint, committables))
            world.states[checkpoint] = self._states[batch]
            yield
            emissions.complete(checkpoint)
            yield
            self._sink.commit(checkpoint, committables)
            yield
            publisher.covered(committables)
            if stops or self._states[batch].read == INPUTS:
                self.stopped, world.finished = stops, self._states[batch].read == INPUTS
            yield

    def _manifest(self, checkpoint: CheckpointId, committables: tuple[JsonValue, ...]) -> Manifest:
        return Manifest(
            job="job",
            namespace="default",
            id=checkpoint,
            epoch=self._epoch,
            kind="checkpoint",
            triggered=0,
            completed=0,
            graph={},
            sinks=(SinkState(uid=SINK, committables=committables, journal=self._journal),),
        )


def lives(seed: int) -> World:
    """Run the job until it has finished, with crashes, suspended processes, stops, and changes of `publish`."""
    world = World(seed)
    chance = world.chance
    publishes, suspended = True, list[Iterator[None]]()
    for _ in range(400):
        if world.finished:
            break
        if chance.random() < 0.2:
            publishes = not publishes
        process = Process(world, publishes)
        running, steps = process.run(), chance.choice((2, 5, 30, 100, 400))
        try:
            for _ in range(steps):
                next(running)
                if suspended and chance.random() < 0.1:
                    wake(suspended)
        except StopIteration:
            if process.stopped:
                check_stopped(world)
            continue
        except (Fenced, Superseded):
            continue
        if chance.random() < 0.5:
            suspended.append(running)
    assert world.finished, "the job has not come to its end"
    return world


def wake(suspended: list[Iterator[None]]) -> None:
    """Let a process that was suspended go on for a step; one that finds out that it has a successor ends."""
    try:
        next(suspended[0])
    except (Fenced, Superseded, StopIteration):
        suspended.pop(0)


def check_stopped(world: World) -> None:
    """Check that the snapshot of a stop covers all that was published."""
    state = world.states[world.completed[-1].id]
    assert sorted(number for number, _ in world.target.rows) == list(range(state.read))
    assert world.target.journal == {}
