"""Executor pods of the small world: they start, join their driver, and leave it."""

from __future__ import annotations

from dataclasses import dataclass, field

from streamjob.client.models import ExecutorsView, ExecutorView
from streamjob_operator.decisions.values.actions import EnsureExecutors
from streamjob_operator.decisions.values.observation import ExecutorPod, ExecutorSet, PodPhase

STARTS = 20.0
"""Seconds until the process of a pod runs."""
JOINS = 10.0
"""Seconds until it takes part."""
_TEMPLATE = "template"


@dataclass
class ExecutorPods:
    """The set of a job's executors, and its pods.

    Args:
        room: pods for which there are nodes.
        quota: pods that a quota allows.
    """

    room: int = 1000
    quota: int = 1000
    found: ExecutorSet | None = None
    created: list[float] = field(default_factory=list)

    def ensure(self, action: EnsureExecutors, now: float) -> None:
        """Make the set have a number of pods."""
        forbidden = "pods are forbidden: exceeded quota" if action.instances > self.quota else ""
        self.found = ExecutorSet(
            revision=action.revision, replicas=action.instances, template=_TEMPLATE, message=forbidden
        )
        made = min(action.instances, self.quota)
        self.created = [*self.created[:made], *[now] * (made - len(self.created))]

    def pods(self, now: float) -> tuple[ExecutorPod, ...]:
        """Return the pods, as their node reports them."""
        return tuple(self._pod(number, since, now) for number, since in enumerate(self.created))

    def taking_part(self, now: float) -> int:
        """Return how many take part in the job."""
        return sum(now >= since + STARTS + JOINS for since in self.created[: self.room])

    def view(self, cores: int, now: float) -> ExecutorsView:
        """Return the driver's view."""
        live = tuple(
            ExecutorView(id=str(n), name=f"job-executor-{n}", host="h", cores=cores, state_stores=1, state_bytes=1)
            for n in range(self.taking_part(now))
        )
        return ExecutorsView(wanted=max(1, len(self.created)), executors=live)

    def _pod(self, number: int, since: float, now: float) -> ExecutorPod:
        name = f"job-executor-{number}"
        if number >= self.room:
            said = "0/1 nodes are available: 1 Insufficient cpu"
            return ExecutorPod(
                name=name,
                template=_TEMPLATE,
                phase=PodPhase.PENDING,
                created=since,
                reason="Unschedulable",
                message=said,
            )
        return ExecutorPod(
            name=name, template=_TEMPLATE, phase=PodPhase.RUNNING, created=since, ready=now >= since + STARTS
        )
