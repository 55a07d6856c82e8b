"""Invariants of the coordinator for any events in any order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.ids import BatchId, ChainUid, CheckpointId, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.coordinator import Coordinator
from streamjob.protocol.coordination.failures import AbortReason
from streamjob.protocol.coordination.statistics import StatisticsTracker
from streamjob.protocol.coordination.triggers import SnapshotKind, Triggers, TriggerState, TriggerStatus
from streamjob.snapshot.manifest import ChainState

CHAINS = (ChainUid("a"), ChainUid("b"))
POLICIES = st.builds(
    LiveCheckpointingPolicy,
    interval=st.sampled_from([None, 1.0, 10.0]),
    timeout=st.sampled_from([2.0, 20.0]),
    min_pause=st.sampled_from([0.0, 5.0]),
    tolerable_failed_checkpoints=st.integers(0, 3),
)
IDS = st.integers(1, 12).map(CheckpointId)
TRIGGERS = st.sampled_from([TriggerId(f"t{number}") for number in range(6)])
NOW = st.just(0.0)


def acknowledgement(chain: ChainUid) -> m.ChainAcknowledgement:
    return m.ChainAcknowledgement(state=ChainState(uid=chain, operators=(), batch=BatchId(0)))


EVENTS = st.one_of(
    st.builds(m.Tick, now=NOW),
    st.builds(
        m.TriggerRequested,
        now=NOW,
        trigger_id=TRIGGERS,
        kind=st.sampled_from([SnapshotKind.CHECKPOINT, SnapshotKind.SAVEPOINT]),
    ),
    st.builds(m.StopRequested, now=NOW, trigger_id=TRIGGERS, savepoint=st.booleans(), drain=st.booleans()),
    st.builds(m.RestartRequested, now=NOW),
    st.builds(m.ChainAcknowledged, now=NOW, id=IDS, acknowledgement=st.sampled_from(CHAINS).map(acknowledgement)),
    st.builds(m.ChainDeclined, now=NOW, id=IDS, chain=st.sampled_from(CHAINS)),
    st.builds(m.CompletionSucceeded, now=NOW, id=IDS, uri=st.just("uri")),
    st.builds(m.CompletionFailed, now=NOW, id=IDS, failure=st.sampled_from(m.CompletionFailure)),
    st.builds(m.OutputCommitted, now=NOW, id=IDS),
    st.builds(m.CommitFailed, now=NOW, id=IDS),
    st.builds(m.PolicyChanged, now=NOW, policy=POLICIES),
    st.builds(m.PeriodicHeld, now=NOW, held=st.booleans()),
    st.builds(m.ChainStateChanged, now=NOW, chain=st.sampled_from(CHAINS), status=st.sampled_from(m.ChainStatus)),
    st.builds(m.OwnershipLost, now=NOW),
)
HELPFUL = st.sampled_from(["acknowledge", "store", "publish", "run", "tick"])


class WatchedTriggers(Triggers):
    """Remembers the outcome of each request, and sees to it that there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: dict[TriggerId, TriggerState] = {}

    def resolve(self, trigger_id: TriggerId, outcome: TriggerStatus) -> None:
        assert self.outcomes.setdefault(trigger_id, outcome.state) is outcome.state, "a request has two outcomes"
        super().resolve(trigger_id, outcome)


class Watched:
    """A coordinator whose actions are checked against its earlier ones."""

    def __init__(self, policy: LiveCheckpointingPolicy) -> None:
        self.now = 0.0
        self.triggers = WatchedTriggers()
        self.statistics = StatisticsTracker()
        self.coordinator = Coordinator(
            chains=CHAINS,
            policy=policy,
            highest_id=CheckpointId(0),
            triggers=self.triggers,
            statistics=self.statistics,
        )
        self.started: list[CheckpointId] = []
        self.withdrawn: list[CheckpointId] = []
        self.under_way: CheckpointId | None = None
        self.storing: CheckpointId | None = None
        self.committing: CheckpointId | None = None
        self.acknowledged: dict[CheckpointId, set[ChainUid]] = {}
        self.wake: float | None = None
        self.over = False

    def send(self, event: m.Event) -> None:
        if isinstance(event, m.ChainAcknowledged):
            self.acknowledged.setdefault(event.id, set()).add(event.acknowledgement.chain)
        for action in self.coordinator.handle(event):
            self.check(action)

    def check(self, action: m.Action) -> None:
        assert not self.over or isinstance(action, m.AbortCheckpoint), f"{action} behind the end"
        match action:
            case m.StartCheckpoint():
                assert self.under_way is None, "two checkpoints are under way"
                assert all(action.id > earlier for earlier in self.started), "an id is used again"
                self.started.append(action.id)
                self.under_way = action.id
            case m.CompleteCheckpoint():
                assert self.under_way == action.id
                assert self.acknowledged[action.id] >= set(CHAINS) == set(action.acknowledgements)
                self.storing = action.id
            case m.AbortCheckpoint():
                assert self.under_way == action.id
                self.under_way = self.storing = None
                if action.reason is AbortReason.JOB_STOPPING:
                    self.withdrawn.append(action.id)
            case m.CommitOutput():
                assert self.storing == action.id
                self.storing, self.committing = None, action.id
            case m.WakeAt():
                self.wake = action.time
            case m.FailJob() | m.RestartJob() | m.EndJob():
                self.over = True
            case _:
                pass

    def help(self, how: str) -> None:
        """Do what an honest runtime would do next."""
        if how == "acknowledge" and self.under_way is not None:
            for chain in CHAINS:
                event = m.ChainAcknowledged(
                    now=self.now, id=self.under_way or CheckpointId(0), acknowledgement=acknowledgement(chain)
                )
                self.send(event)
        elif how == "store" and self.storing is not None:
            self.send(m.CompletionSucceeded(now=self.now, id=self.storing, uri="uri"))
        elif how == "publish" and self.committing is not None:
            committed, self.committing, self.under_way = self.committing, None, None
            self.send(m.OutputCommitted(now=self.now, id=committed))
        elif how == "run":
            for chain in CHAINS:
                self.send(m.ChainStateChanged(now=self.now, chain=chain, status=m.ChainStatus.RUNNING))
        elif how == "tick" and self.wake is not None:
            self.now = max(self.now, self.wake)
            self.wake = None
            self.send(m.Tick(now=self.now))


def follow(watched: Watched, steps: list[tuple[float, m.Event | str]]) -> None:
    for seconds, step in steps:
        watched.now += seconds
        if isinstance(step, str):
            watched.help(step)
            continue
        if isinstance(step, m.OutputCommitted) and step.id == watched.committing:
            watched.committing = watched.under_way = None
        object.__setattr__(step, "now", watched.now)
        watched.send(step)


STEPS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 3.0]), st.one_of(HELPFUL, HELPFUL, EVENTS)), min_size=1, max_size=60
)


@settings(max_examples=300, deadline=None)
@given(policy=POLICIES, steps=STEPS)
def test_no_order_of_events_breaks_the_coordinator_and_every_request_has_one_outcome(
    policy: LiveCheckpointingPolicy, steps: list[tuple[float, m.Event | str]]
) -> None:
    watched = Watched(policy)
    follow(watched, [(0.0, "run"), *steps])
    watched.send(m.EpochEnded(now=watched.now))

    asked = {step.trigger_id for _, step in steps if isinstance(step, m.TriggerRequested | m.StopRequested)}
    assert asked == set(watched.triggers.outcomes)
    assert watched.triggers.queued() == ()
    counts = watched.statistics.overview().counts
    assert (counts.in_progress, counts.total) == (0, len(watched.started) - len(watched.withdrawn))
    assert counts.completed + counts.failed == counts.total


@settings(max_examples=150, deadline=None)
@given(policy=POLICIES, steps=st.lists(st.tuples(st.sampled_from([0.0, 0.5, 3.0]), HELPFUL), max_size=40))
def test_an_honest_runtime_that_follows_the_wishes_to_wake_always_gets_to_the_next_checkpoint(
    policy: LiveCheckpointingPolicy, steps: list[tuple[float, m.Event | str]]
) -> None:
    watched = Watched(policy)
    follow(watched, [(0.0, "run"), *steps])
    before = len(watched.started)
    for _ in range(4):
        for how in ("acknowledge", "store", "publish", "tick"):
            watched.help(how)

    assert watched.over or policy.interval is None or len(watched.started) > before
