"""A small world around the decisions: an API server with versions, pods, nodes, drivers and a store.

The controller is driven through the same narrow gates as the real one: it reads a resource, perhaps an old version of
it; it observes, as far as things answer; it stores a status on top of the version that it read; it carries out actions
one by one. It can die between any two of these, and a write can take effect without its answer arriving.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.operator import invariants
from tests.simulation.operator.objects import GRACE, Pod, Stored, awaits, decided_on, has_seen
from tests.simulation.operator.preflights import Preflights
from tests.simulation.operator.runtime import Log, Process, Start

from streamjob.snapshot.record import RecordKind
from streamjob_operator.decisions import (
    Decision,
    Limits,
    Resource,
    decide,
    wanted_successor,
    wanted_trials,
    wanted_triggers,
)
from streamjob_operator.decisions.values.actions import (
    Action,
    AddFinalizer,
    CreateDriver,
    CreatePreflight,
    CreateSnapshot,
    DeleteDriver,
    DeletePreflight,
    DeleteRevision,
    DeleteSnapshot,
    DisposeCheckpoints,
    Emit,
    EnsureRevision,
    PatchCheckpointing,
    RemoveFinalizer,
    StartJob,
    StopJob,
)
from streamjob_operator.decisions.values.memory import Memory, memory_of
from streamjob_operator.decisions.values.observation import (
    Admission,
    DriverPod,
    KnownSnapshot,
    Observation,
    PodPhase,
    Reach,
    StoredLog,
    StoreProblem,
    StoreTrouble,
)
from streamjob_operator.decisions.values.revision import Revision, revision_of
from streamjob_operator.reconciling.observing import log_as_remembered, log_of_driver
from streamjob_operator.resources.snapshot import SnapshotState
from streamjob_operator.resources.status import LifecycleState, StreamJobStatus
from streamjob_operator.resources.streamjob import StreamJobSpec

_AWAY = StoreTrouble(reason=StoreProblem.UNREACHABLE, message="timed out")
REJECTION = 'pods "job-driver" is forbidden: error looking up service account a/b: serviceaccount "b" not found'
NAME = "job"


@dataclass
class Mishap:
    """How one reconciliation goes wrong: how old a version is read, and where the controller dies.

    Args:
        stale: number of versions by which the read one is out of date.
        dies_at: 0 before the status is stored, 1 after it, 2 after the first action, …; None: it survives.
        between: seconds that pass between the observation and each write.
    """

    stale: int = 0
    dies_at: int | None = None
    between: int = 0


@dataclass
class ClusterWorld:
    """The cluster, the store and time."""

    limits: Limits = field(default_factory=Limits)
    now: float = 1_000_000
    history: list[Stored] = field(default_factory=list)
    revisions: dict[str, Revision] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    preflights: Preflights = field(default_factory=Preflights)
    processes: list[Process] = field(default_factory=list)
    log: Log = field(default_factory=Log)
    starts: list[Start] = field(default_factory=list)
    snapshots: dict[str, KnownSnapshot] = field(default_factory=dict)
    store_up: bool = True
    trouble: StoreTrouble = _AWAY
    pull: str = 'Back-off pulling image "one": not found'
    in_reach: bool = True
    api_up: bool = True
    rejects: bool = False
    rejection: Admission | None = None
    disposed: bool = False
    stop_ids: set[str] = field(default_factory=set)
    resets: list[float] = field(default_factory=list)
    events: list[Emit] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    next_fault: str | None = None
    recorded: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    taken_unseen: set[str] = field(default_factory=set)
    """Those that were taken while the store was down."""
    memories: list[Memory] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    taken_over: set[int] = field(default_factory=set)
    """The successors that were told to start."""
    _uids: int = 0

    # Actions of users.

    def apply(self, spec: dict[str, Any], *, valid: bool = True) -> None:
        """Create the resource, or change its spec."""
        if not self.history:
            self._write(Stored(version=1, generation=1, spec=spec, status={}, valid=valid))
            return
        before = self.stored
        if (spec, valid) == (before.spec, before.valid) or before.deleted:
            return
        if self._asks_for_a_reset(before.spec, spec):
            self.resets.append(self.now)
        self._write(replace(before, generation=before.generation + 1, spec=spec, valid=valid))

    def delete(self) -> None:
        """Delete the resource."""
        self._write(replace(self.stored, deleted=True))

    # Events without a cause in the model.

    def tick(self, seconds: float = 1) -> None:
        """Let time pass, a second at a time."""
        for _ in range(int(seconds)):
            self.now += 1
            for process in self.processes:
                process.step(self.now)
            for pod in list(self.pods):
                self._kubelet(pod)
            self.preflights.step(self.now)
            self.processes = [process for process in self.processes if process.alive]
            invariants.check_drivers(self)

    def kill_driver(self) -> None:
        """The newest process dies."""
        if self.pods and self.pods[-1].process is not None:
            self.pods[-1].process.kill()

    def kill_older_driver(self) -> None:
        """The oldest process dies: the running one, if a successor is prepared."""
        if self.pods and self.pods[0].process is not None:
            self.pods[0].process.kill()

    def linger(self) -> None:
        """The oldest process will not end by itself when it has stopped."""
        if self.pods and self.pods[0].process is not None:
            self.pods[0].process.lingers = True

    def evict_driver(self) -> None:
        """The newest pod is evicted, and its object is collected."""
        if self.pods:
            pod = self.pods[-1]
            if pod.process is not None and not pod.node_lost:
                pod.process.kill()
                self.pods.remove(pod)

    def pull_images(self) -> None:
        """Make the missing images appear."""
        for pod in self.pods:
            if pod.process is None:
                self._start_process(pod)
        self.preflights.pull_images(self.now)

    def lose_node(self) -> None:
        """The newest pod's node is gone from the network; its process goes on."""
        if self.pods:
            self.pods[-1].node_lost = True

    def give_node_up(self) -> None:
        """The objects of pods on lost nodes are deleted, long after, while their processes may live on."""
        self.tick(self.limits.creation + 1)
        self.pods = [pod for pod in self.pods if not pod.node_lost]

    # The controller.

    @property
    def stored(self) -> Stored:
        return self.history[-1]

    @property
    def gone(self) -> bool:
        """Whether the resource is no longer in the API server."""
        return self.stored.deleted and not self.stored.finalizer

    @property
    def status(self) -> StreamJobStatus:
        return StreamJobStatus.model_validate(self.stored.status)

    def reconcile(self, life: Mishap | None = None) -> Decision | None:
        """Do one reconciliation; return its decision, or None if there is no resource."""
        life = life or Mishap()
        if self.gone:
            return None
        read = self.history[max(0, len(self.history) - 1 - life.stale)]
        resource = self.resource(read)
        decision = decide(resource, self.observe(read), self.limits)
        invariants.check_stop(self, resource, decision)
        self.tick(life.between)
        if life.dies_at == 0:
            return decision
        if decision.status != resource.status:
            if read.version != self.stored.version:
                return decision
            self._write(replace(read, status=decision.status.to_dict()))
            self.check_status()
        if life.dies_at == 1:
            return decision
        for number, action in enumerate(decision.actions):
            self.tick(life.between)
            if not self._act(action) or life.dies_at == number + 2:
                break
        return decision

    def resource(self, read: Stored) -> Resource:
        """Return the resource as a decision gets it."""
        return Resource(
            name=NAME,
            generation=read.generation,
            deleted=read.deleted,
            spec=StreamJobSpec.model_validate(read.spec),
            problems=() if read.valid else ("job: it makes no sense",),
            status=StreamJobStatus.model_validate(read.status),
        )

    def observe(self, read: Stored) -> Observation:
        """Return what can be seen."""
        status = StreamJobStatus.model_validate(read.status)
        attempt = status.job_status.attempt
        pod = next((pod for pod in self.pods if pod.attempt == attempt), None)
        process = None if pod is None or pod.node_lost or not self.api_up else pod.process
        answers = process is not None and process.alive
        view = process.view() if process is not None and answers else None
        triggers = {}
        if process is not None and answers:
            triggers = {name: process.triggers[name] for name in wanted_triggers(status) if name in process.triggers}
        pods = tuple(self._seen(pod) for pod in self.pods)
        log = StoredLog(attempt=self.log.attempt, newest=self.log.newest)
        if not self.in_reach:
            log = (None if view is None else log_of_driver(view)) or log_as_remembered(status, pods)
        following = self._reach(wanted_successor(status) or 0)
        return Observation(
            now=self.now,
            pods=pods,
            preflights=tuple(each.seen() for each in self.preflights.pods),
            job=view,
            successor=None if following is None else following.view(),
            policy=process.policy_view() if process is not None and answers else None,
            triggers=triggers,
            log=log if self.store_up or not self.in_reach else None,
            trouble=None if self.store_up or not self.in_reach else self.trouble,
            reach=Reach.STORE if self.in_reach else Reach.NO_CREDENTIALS,
            snapshots=tuple(self.snapshots.values()),
            revisions=tuple(self.revisions.values()),
            admissions=self._admissions(status),
            finalizer=read.finalizer,
        )

    def takes(self, revision: str) -> bool:
        """Whether the API server takes the pod of a revision."""
        return not self.rejects and self._behaviour(revision) != "no-account"

    def check_status(self) -> None:
        """Check the last status; some tests replace this."""
        invariants.check_status(self)

    def _admissions(self, status: StreamJobStatus) -> tuple[Admission, ...]:
        wanted = wanted_trials(status, self.now) & self.revisions.keys()
        runs = any(pod.attempt == status.job_status.attempt for pod in self.pods)
        found = [
            Admission(revision=each, time=self.now, rejection=None if self.takes(each) else REJECTION)
            for each in sorted(wanted)
            if runs
        ]
        if self.rejection is not None and self.rejection.revision not in {each.revision for each in found}:
            found.append(self.rejection)
        return tuple(found)

    def _note_recording(self, action: CreateSnapshot) -> None:
        """A savepoint of a stop is recorded under one name, and as what the status says it is."""
        if action.path is None:
            return
        assert any(
            (action.name, action.path) == (each.name, each.path)
            for memory in self.memories
            for each in memory.recordings
        ), "a savepoint was recorded that was not stored"
        assert action.path in {each.path for each in self.log.completions} or self.disposed
        assert self.recorded.setdefault(action.name, action.path) == action.path, "a name stands for two savepoints"
        names = [name for name, path in self.recorded.items() if path == action.path]
        assert names == [action.name], "a savepoint was recorded twice"

    def _note_taken(self, old: Memory, new: Memory) -> None:
        """Note the savepoint with which a stop has come to its end."""
        stop, newest = old.stop, self.log.newest
        if stop is None or stop.next_try is not None or stop.mode != "savepoint" or newest is None:
            return
        ended = new.stop is None or new.attempt > old.attempt
        if ended and newest.kind is RecordKind.SAVEPOINT and newest.attempt == stop.attempt:
            self.taken.add(newest.path)
            if not self.store_up:
                self.taken_unseen.add(newest.path)

    def _write(self, stored: Stored) -> None:
        version = self.history[-1].version + 1 if self.history else 1
        self.history.append(replace(stored, version=version))
        memory = memory_of(StreamJobStatus.model_validate(stored.status))
        self.memories.append(memory)
        self.times.append(self.now)
        if memory.stop is not None:
            self.stop_ids.add(memory.stop.trigger_id)
        if len(self.memories) > 1:
            self._note_taken(self.memories[-2], memory)

    def _act(self, action: Action) -> bool:
        self.actions.append(action)
        match action:
            case EnsureRevision():
                self.revisions.setdefault(action.revision.name, action.revision)
            case DeleteRevision():
                self.revisions.pop(action.name, None)
            case AddFinalizer():
                if not self.stored.finalizer and not self.stored.deleted:
                    self._write(replace(self.stored, finalizer=True))
            case RemoveFinalizer():
                assert not any(pod.process and pod.process.alive and not pod.node_lost for pod in self.pods)
                self._write(replace(self.stored, finalizer=False))
            case CreateDriver():
                self._create(action)
            case CreatePreflight():
                if self._takes(action.revision):
                    self.preflights.create(action, self.memories, self._behaviour(action.revision), self.now)
            case DeletePreflight():
                self.preflights.delete(action.name)
            case DeleteDriver():
                self._delete_pod(action)
            case StartJob():
                assert any(each.attempt == action.attempt for each in self.memories), "a start that was not stored"
                process = self._reach(action.attempt)
                if process is not None:
                    self.taken_over.add(action.attempt)
                    process.start(self.now)
            case StopJob():
                assert action.trigger_id in self.stop_ids, "a stop was asked for that was not stored"
                process = self._reach(action.attempt)
                assert process is None or not process.waits, "a waiting driver was asked for its last snapshot"
                if process is not None:
                    process.savepoint_fails = self.next_fault == "savepoint fails"
                    process.crashes_behind_savepoint = self.next_fault == "crash behind savepoint"
                    self.next_fault = None
                    process.stop(action, self.now)
            case PatchCheckpointing():
                process = self._reach(action.attempt)
                if process is not None:
                    process.patch(action.changes)
            case DisposeCheckpoints():
                assert self.status.lifecycle_state is LifecycleState.DELETING
                if not self.store_up:
                    return False
                self.log = Log(attempt=action.attempt, epoch=self.log.epoch + 1)
                self.disposed = True
            case CreateSnapshot():
                self._note_recording(action)
                known = KnownSnapshot(
                    name=action.name,
                    kind=action.kind,
                    origin=action.origin,
                    created=self.now,
                    completed=self.now,
                    state=SnapshotState.COMPLETED,
                    path=action.path or f"s3://bucket/savepoints/{action.name}/manifest.json",
                )
                self.snapshots.setdefault(action.name, known)
            case DeleteSnapshot():
                self.snapshots.pop(action.name, None)
            case Emit():
                self.events.append(action)
        return True

    def _asks_for_a_reset(self, before: dict[str, Any], after: dict[str, Any]) -> bool:
        if after.get("savepointRedeployNonce") != before.get("savepointRedeployNonce"):
            return True
        runs = self.memories[-1].revision
        wanted = revision_of(NAME, StreamJobSpec.model_validate(after)).name
        rests = before.get("suspend", False) or self.memories[-1].lifecycle is LifecycleState.SUSPENDED
        return after.get("upgradeMode") == "stateless" and (rests or runs != wanted)

    def _reach(self, attempt: int) -> Process | None:
        pod = next((pod for pod in self.pods if pod.attempt == attempt and not pod.node_lost), None)
        reachable = self.api_up and pod is not None and pod.process is not None and pod.process.alive
        return pod.process if reachable and pod is not None else None

    def _create(self, action: CreateDriver) -> None:
        name = f"{NAME}-driver-{action.attempt}"
        assert any(decided_on(memory, action) for memory in self.memories), "a driver was made that was not stored"
        if any(pod.name == name for pod in self.pods):
            return
        assert not any(has_seen(memory, action.attempt) for memory in self.memories), "an attempt got a second pod"
        self._uids += 1
        if not self._takes(action.revision):
            return
        pod = Pod(name, str(self._uids), action.attempt, action.revision, created=self.now, made=action)
        self.pods.append(pod)
        if self._behaviour(action.revision) != "no-image":
            self._start_process(pod)
        invariants.check_drivers(self)

    def _takes(self, revision: str) -> bool:
        """Whether the API server takes a pod that is created; a rejection is kept."""
        takes = self.takes(revision)
        self.rejection = None if takes else Admission(revision=revision, time=self.now, rejection=REJECTION)
        return takes

    def _behaviour(self, revision: str) -> str:
        return str((self.revisions[revision].content.get("job") or {}).get("behaviour", ""))

    def _start_process(self, pod: Pod) -> None:
        pod.process = Process(pod.made, self.revisions[pod.revision], self.log, self.starts, self.now)
        pod.started = self.now
        self.processes.append(pod.process)

    def _delete_pod(self, action: DeleteDriver) -> None:
        pod = next((pod for pod in self.pods if pod.name == action.name), None)
        if pod is None or pod.deleting is not None:
            return
        resting = {LifecycleState.SUSPENDED, LifecycleState.SCHEDULED, LifecycleState.DELETING}
        assert any(
            memory.attempt > pod.attempt
            or (memory.stop is not None and memory.stop.next_try is None and memory.attempt == pod.attempt)
            or memory.lifecycle in resting
            or (memory.attempt < pod.attempt <= memory.last_attempt and not awaits(memory, pod.attempt))
            for memory in self.memories
        ), "a driver was deleted that was meant to run"
        pod.grace = GRACE if action.grace is None else action.grace
        pod.deleting = self.now + pod.grace
        if pod.process is not None and not pod.node_lost:
            pod.process.terminate()

    def _kubelet(self, pod: Pod) -> None:
        if pod.node_lost or pod.deleting is None:
            return
        if self.now >= pod.deleting and pod.process is not None:
            pod.process.kill()
        if pod.process is None or not pod.process.alive:
            self.pods.remove(pod)

    def _seen(self, pod: Pod) -> DriverPod:
        process = pod.process
        phase, code, outcome, completion = PodPhase.RUNNING, None, None, None
        reason, message = "", ""
        if process is None:
            phase, reason, message = PodPhase.PENDING, "ImagePullBackOff", self.pull
        elif not process.alive and not pod.node_lost:
            code = process.exit_code
            phase = PodPhase.SUCCEEDED if code == 0 else PodPhase.FAILED
            silent = code == 137 or pod.silent_end
            outcome, completion = (None, None) if silent else (process.state, process.last)
        return DriverPod(
            name=pod.name,
            uid=pod.uid,
            attempt=pod.attempt,
            revision=pod.revision,
            phase=phase,
            created=pod.created,
            started=pod.started,
            deleting=pod.deleting,
            exit_code=code,
            outcome=outcome,
            completion=completion,
            reason=reason,
            message=message,
        )
