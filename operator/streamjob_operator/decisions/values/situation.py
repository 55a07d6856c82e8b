"""The input of decisions about a StreamJob: resource, memory and observation together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from streamjob.autoscaling import Means
from streamjob.client.models import JobView, TriggerState
from streamjob.job.model.spec import CheckpointingPolicy
from streamjob.protocol.lifecycle import JobState
from streamjob.snapshot.record import RecordKind
from streamjob_operator.decisions.values.actions import Action, Emit
from streamjob_operator.decisions.values.decision import Resource
from streamjob_operator.decisions.values.memory import Memory
from streamjob_operator.decisions.values.observation import (
    Compatibility,
    DriverPod,
    Observation,
    StoredLog,
    StoreProblem,
)
from streamjob_operator.decisions.values.revision import Revision, difference, revision_of
from streamjob_operator.decisions.values.slots import slots_in, slots_of, with_memory, with_slots
from streamjob_operator.resources.conditions import ConditionType, find_condition
from streamjob_operator.resources.effect_of_changes import Change
from streamjob_operator.resources.parts import ScalingMode, Upgrade
from streamjob_operator.resources.streamjob import StreamJobSpec

TAKES_REQUESTS = frozenset({JobState.RUNNING, JobState.FINISHING})
"""States of a job in which it processes data, and takes checkpoints and savepoints."""

INCOMPATIBLE = "Incompatible"
"""Reason of StateCompatible for a spec that does not fit the state."""

_FINAL_OR_SAVEPOINT = frozenset({RecordKind.FINAL, RecordKind.SAVEPOINT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long the controller is patient; in seconds.

    Args:
        poll: until the next look while something is under way.
        patience: for a driver that does not answer, or cannot fulfil a request.
        refusal: for a running driver that still refuses a request.
        stop: for a stop that the driver says is under way, if that is longer than a checkpoint may take.
        lost: past the end of a pod's grace period, after which its node is taken for gone; the claim of the next
            attempt fences the process off.
        creation: for a decided attempt whose pod was never seen. Its pod may have come and gone, and its process may
            live on a lost node, so a later creation takes the next attempt.
        pull: for an image that a registry does not deliver, before the revision is taken for one without an image.
        retry: before the first repetition of a stop that failed; each further one takes twice as long.
        longest_retry: no repetition takes longer.
        store: until the next look at a store that does not answer.
        disposal: for a store from which the snapshots of a deleted resource cannot be deleted.
        silence: for a running driver that does not answer, before the job is no longer taken for ready.
        rejections: between two tries of a rejected pod; the last delay is repeated for ever.
        rejection: for a pod that the API server rejects, before nothing is expected to change by itself.
        successor: for a driver to be prepared before the running one stops.
        preflight: for the process of a preflight to end.
        handover: until the next look while a prepared driver waits for the running one to stop.
    """

    poll: float = 2
    patience: float = 60
    refusal: float = 300
    stop: float = 900
    lost: float = 60
    creation: float = 60
    pull: float = 30
    retry: float = 15
    longest_retry: float = 600
    store: float = 15
    disposal: float = 600
    silence: float = 60
    rejections: tuple[float, ...] = (2, 5, 10, 30, 60)
    rejection: float = 30
    successor: float = 120
    preflight: float = 300
    handover: float = 0.5

    def retry_delay(self, failures: int) -> float:
        """Return the seconds to wait after the given number of failures."""
        return min(self.retry * 2.0 ** min(max(failures - 1, 0), 30), self.longest_retry)

    def disposal_of(self, problem: StoreProblem | None) -> float:
        """Return the seconds after which a deletion is not waited for any longer, given what hinders it.

        A Secret that is missing was deleted with the resource, as a namespace is, and does not come back.
        """
        return self.patience if problem is StoreProblem.SECRET_MISSING else self.disposal

    def rejection_delay(self, rejections: int) -> float:
        """Return the seconds to wait after the given number of rejections of a pod."""
        return self.rejections[min(rejections, len(self.rejections)) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result of one reconciliation.

    Actions carry out an intent that is stored already. If the step changes the intent, the memory is stored first, and
    the next reconciliation has the actions.

    Args:
        reason: why the job waits, as one word; empty if it does not wait.
        message: the same for people.
    """

    memory: Memory
    actions: tuple[Action, ...] = ()
    events: tuple[Emit, ...] = ()
    requeue: float | None = None
    reason: str = ""
    message: str = ""


@dataclass(frozen=True)
class Situation:
    """Everything that a decision depends on."""

    resource: Resource
    memory: Memory
    seen: Observation
    limits: Limits

    def waits(self, reason: str, message: str, *actions: Action, requeue: float | None = None) -> Step:
        """Return a step that keeps the intent and says what it waits for; without `requeue`, until the next poll."""
        after = self.limits.poll if requeue is None else requeue
        return Step(memory=self.memory, actions=actions, requeue=after, reason=reason, message=message)

    @property
    def now(self) -> float:
        """The time, in whole seconds, as a status can hold it."""
        return float(int(self.seen.now))

    @property
    def spec(self) -> StreamJobSpec | None:
        """The spec, if it can be acted on."""
        return self.resource.usable

    @property
    def upgrade(self) -> Upgrade:
        """How upgrades go."""
        return Upgrade() if self.spec is None else self.spec.upgrade

    @cached_property
    def wanted(self) -> Revision | None:
        """The revision that the spec asks for; None for a spec that cannot be acted on."""
        return self.resource.wanted

    @cached_property
    def deployed(self) -> Revision | None:
        """The revision that the newest attempt runs."""
        return self.seen.revision(self.memory.revision)

    @cached_property
    def instances(self) -> int:
        """How many executor pods the deployed revision has; 0 if all tasks run in the driver's pod."""
        return 0 if self.deployed is None else self.deployed.instances

    @cached_property
    def difference(self) -> Change:
        """The greatest change between the deployed and the wanted revision."""
        if self.wanted is None or self.wanted.name == self.memory.revision:
            return Change.IGNORE
        if self.deployed is None:
            return Change.UPGRADE
        return difference(self.deployed, self.wanted)

    @cached_property
    def slots(self) -> int:
        """The task slots of the deployed revision; before the first one, of the one to run."""
        if self.deployed is not None:
            return slots_in(self.deployed.spec(), self.spec)
        return 1 if self.spec is None else slots_of(self.spec)

    @cached_property
    def rescales(self) -> bool:
        """Whether the wanted revision differs from the deployed one only in what automatic scaling decided."""
        if self.spec is None or self.spec.autoscaling.mode is not ScalingMode.ACT:
            return False
        if self.deployed is None or self.difference not in (Change.SCALE, Change.UPGRADE):
            return False
        driver = self.deployed.spec().driver
        alike = with_slots(with_memory(self.spec, driver.memory, driver.memory_overhead), self.slots)
        as_deployed = revision_of(self.resource.name, alike)
        return as_deployed.name == self.deployed.name

    @cached_property
    def resizes(self) -> bool:
        """Whether the running driver is to get other processors in place, and needs no other change."""
        scaling = self.resource.status.autoscaling
        if scaling is None or scaling.means is not Means.IN_PLACE or not self.rescales or not self.driver_is_live:
            return False
        assert self.deployed is not None
        assert self.wanted is not None
        before, after = self.deployed.spec(), self.wanted.spec()
        return slots_of(before) == slots_of(after) and (before.driver.memory, before.driver.memory_overhead) == (
            after.driver.memory,
            after.driver.memory_overhead,
        )

    @property
    def compatibility(self) -> Compatibility | None:
        """Whether the wanted revision can continue from the state; None if that was not checked.

        The result for this spec counts until a later check finds another one: a store that does not answer for a moment
        must not let an incompatible spec through.
        """
        if self.wanted is None:
            return None
        found = self.seen.compatibility
        if found is not None:
            return found if found.revision == self.wanted.name else None
        known = find_condition(self.resource.status.conditions, ConditionType.STATE_COMPATIBLE)
        if known is None or known.observed_generation != self.resource.generation or known.reason != INCOMPATIBLE:
            return None
        return Compatibility(revision=self.wanted.name, compatible=False, problems=(known.message,))

    @property
    def rolled_back(self) -> bool:
        """Whether the spec still asks for the revision that was rolled back."""
        return self.wanted is not None and self.wanted.name == self.memory.failed_revision

    @cached_property
    def pod(self) -> DriverPod | None:
        """The pod of the newest attempt, unless another one came in its place."""
        pod = self.seen.pod(self.memory.attempt)
        if pod is not None and self.memory.driver not in (None, pod.uid):
            return None
        return pod

    def is_live(self, pod: DriverPod) -> bool:
        """Return whether a pod's process may still do something that is to be waited for."""
        lost = pod.deleting is not None and self.seen.now > pod.deleting + self.limits.lost
        return not pod.ended and not lost

    @property
    def live_pods(self) -> tuple[DriverPod, ...]:
        """The pods whose processes are waited for; a successor does nothing before it is started."""
        return tuple(pod for pod in self.seen.pods if self.is_live(pod) and pod != self.successor_pod)

    @cached_property
    def successor_pod(self) -> DriverPod | None:
        """The pod of the driver that is prepared to follow the running one; None once it has ended, or is to end."""
        successor = self.memory.successor
        pod = None if successor is None or successor.failure is not None else self.seen.pod(successor.attempt)
        if successor is None or pod is None or pod.ended or pod.deleting is not None:
            return None
        return pod if successor.driver in (None, pod.uid) else None

    @cached_property
    def successor_is_prepared(self) -> bool:
        """Whether that driver is ready to continue the job."""
        report = self.seen.successor
        return self.successor_pod is not None and report is not None and report.waiting == "prepared"

    @cached_property
    def has_handed_over(self) -> bool:
        """Whether the driver has stopped with a snapshot for a successor: it only has to end, and writes nothing more.

        A stop is answered when the output of its snapshot is published.
        """
        stop = self.memory.stop
        if stop is None or stop.next_try is not None or self.successor_pod is None:
            return False
        view = self.seen.triggers.get(stop.trigger_id)
        if view is None or view.state is not TriggerState.COMPLETED or view.result is None:
            return False
        return all(pod.attempt == stop.attempt for pod in self.live_pods)

    @cached_property
    def driver_is_live(self) -> bool:
        """Whether the newest attempt has a pod that has not ended."""
        return self.pod is not None and self.is_live(self.pod)

    @cached_property
    def job(self) -> JobView | None:
        """The answer of the newest attempt's driver; None if it does not answer."""
        job = self.seen.job
        return job if job is not None and job.attempt == self.memory.attempt and self.driver_is_live else None

    @property
    def takes_requests(self) -> bool:
        """Whether the driver answers, and would take a savepoint."""
        return self.job is not None and self.job.state in TAKES_REQUESTS

    @cached_property
    def checkpointing(self) -> CheckpointingPolicy:
        """The policy that the driver was given."""
        return (
            CheckpointingPolicy() if self.deployed is None else CheckpointingPolicy.model_validate(self.deployed.policy)
        )

    @cached_property
    def location(self) -> str | None:
        """Where the job's log is."""
        revision = self.deployed or self.wanted
        return None if revision is None else revision.location

    @cached_property
    def log(self) -> StoredLog | None:
        """The job's log; None if it should be read but could not be. One that only drivers can read counts as empty."""
        readable = self.location is not None and self.location.startswith("s3://")
        return self.seen.log if readable or self.seen.log is not None else StoredLog()

    @property
    def completed_attempt(self) -> int | None:
        """The driver of the newest completion that is known of."""
        return newest_attempt(self.memory.completed_attempt, self.job, self.seen.log)

    def completed_since(self, attempt: int) -> bool:
        """Return whether a driver with that number or a higher one is known to have completed a snapshot."""
        return self.completed_attempt is not None and self.completed_attempt >= attempt

    @property
    def revision_completed(self) -> bool:
        """Whether the deployed revision is known to have completed a snapshot."""
        return self.memory.attempt > 0 and self.completed_since(self.memory.first_attempt)

    @property
    def driver_completed(self) -> bool:
        """Whether the driver answers that the job has completed a snapshot since its last start or restart."""
        last = None if self.job is None else self.job.last_checkpoint
        if self.job is None or last is None:
            return False
        source = self.job.restored_from
        return source is None or source.path != last.path

    @property
    def finished(self) -> bool:
        """Whether all work of the deployed revision is done, according to the log."""
        log = self.seen.log
        if log is None or log.newest is None or not log.finished:
            return False
        return self.memory.restore.source == "latest" or log.newest.attempt >= self.memory.restore.first_attempt

    @property
    def savepoint_is_newest(self) -> bool:
        """Whether the next start from `latest` would be from a savepoint of the newest attempt, or a final record."""
        newest = None if self.log is None else self.log.newest
        return newest is not None and newest.kind in _FINAL_OR_SAVEPOINT and newest.attempt == self.memory.attempt

    @property
    def completion_time(self) -> float | None:
        """When the newest completion that is known of was complete."""
        times = []
        if self.seen.log is not None and self.seen.log.newest is not None:
            times.append(self.seen.log.newest.time)
        if self.job is not None and self.job.last_checkpoint is not None:
            times.append(self.job.last_checkpoint.completed)
        return max(times, default=None)


def newest_attempt(known: int | None, job: JobView | None, log: StoredLog | None) -> int | None:
    """Return the driver of the newest completion, given the previous knowledge."""
    attempts = [] if known is None else [known]
    if log is not None and log.newest is not None:
        attempts.append(log.newest.attempt)
    if job is not None and job.last_checkpoint is not None:
        attempts.append(job.attempt)
    return max(attempts, default=None)
