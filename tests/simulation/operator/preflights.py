"""The pods of preflights in the small cluster, and the nodes that they find."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.operator.runtime import START

from streamjob.errors import ExitCode
from streamjob.protocol.lifecycle import JobState
from streamjob_operator.decisions.values.actions import CreatePreflight
from streamjob_operator.decisions.values.memory import Memory
from streamjob_operator.decisions.values.observation import DriverPod, PodPhase

FOUND = "operator 'clean': SELEC is no query"
_ENDS = {"invalid": ExitCode.INVALID_INPUT, "unrestorable": ExitCode.CANNOT_RESTORE}


@dataclass
class PreflightPod:
    """The pod of a preflight. `ends` is when its process ends; None while it does not start, or if it never ends."""

    name: str
    uid: str
    number: int
    revision: str
    created: float
    behaviour: str
    started: float | None = None
    ends: float | None = None
    exit_code: int | None = None
    message: str = ""
    reason: str = ""
    is_of_an_older_runtime: bool = False

    def seen(self) -> DriverPod:
        phase = PodPhase.PENDING if self.started is None else PodPhase.RUNNING
        if self.exit_code is not None:
            phase = PodPhase.FAILED if self.exit_code else PodPhase.SUCCEEDED
        state = JobState.FAILED if self.exit_code else JobState.FINISHED
        return DriverPod(
            name=self.name,
            uid=self.uid,
            attempt=self.number,
            revision=self.revision,
            phase=phase,
            created=self.created,
            started=self.started,
            exit_code=self.exit_code,
            outcome=None if self.exit_code is None or self.is_of_an_older_runtime else state,
            reason=self.reason,
            message=self.message,
        )


@dataclass
class Preflights:
    """The pods of preflights.

    Args:
        pods: those that are there.
        made: the numbers of all that were ever made.
        exit_code: what they end with from now on, whatever they check; None: as the revision's behaviour has it.
        never_end: whether their processes hang from now on.
        no_room: whether no node has room for a pod beside the driver.
    """

    pods: list[PreflightPod] = field(default_factory=list)
    made: list[int] = field(default_factory=list)
    exit_code: int | None = None
    never_end: bool = False
    no_room: bool = False

    def create(self, action: CreatePreflight, memories: list[Memory], behaviour: str, now: float) -> None:
        """Make the pod that the controller asks for."""
        decided = [each.preflight for each in memories if each.preflight is not None]
        asked = (action.number, action.revision)
        assert any((each.number, each.revision) == asked for each in decided), "a preflight that was not stored"
        if any(pod.number == action.number for pod in self.pods):
            return
        name = f"job-preflight-{action.number}"
        pod = PreflightPod(name, f"preflight-{len(self.made)}", action.number, action.revision, now, behaviour)
        self.pods.append(pod)
        self.made.append(action.number)
        if behaviour == "no-image":
            pod.reason = "ImagePullBackOff"
        elif self.no_room:
            pod.reason, pod.message = "Unschedulable", "0/1 nodes are available: 1 Insufficient memory."
        else:
            self._start(pod, now)

    def pull_images(self, now: float) -> None:
        """Make the missing images appear."""
        for pod in self.pods:
            if pod.started is None:
                self._start(pod, now)

    def delete(self, name: str) -> None:
        """Delete a pod at once: it has nothing to save."""
        self.pods = [pod for pod in self.pods if pod.name != name]

    def step(self, now: float) -> None:
        """End the processes that are done."""
        for pod in self.pods:
            if pod.exit_code is None and pod.ends is not None and now >= pod.ends:
                own = _ENDS.get(pod.behaviour, ExitCode.OK)
                pod.exit_code = int(own if self.exit_code is None else self.exit_code)
                pod.message = FOUND if pod.exit_code else ""

    def _start(self, pod: PreflightPod, now: float) -> None:
        pod.reason, pod.message, pod.started = "", "", now
        pod.ends = None if self.never_end else now + START
