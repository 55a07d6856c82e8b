"""Takes over a driver that runs on without its StreamJob, as a ReplicaSet takes over pods that it finds."""

from __future__ import annotations

from streamjob_operator.decisions.states.starting import deploy, latest
from streamjob_operator.decisions.values.actions import AdoptDriver, Emit
from streamjob_operator.decisions.values.observation import DriverPod, Reach
from streamjob_operator.decisions.values.situation import Situation, Step


def adopt(s: Situation) -> Step | None:
    """Return the next step to take over the driver that a deleted StreamJob of this name has left.

    The driver goes on as it is, so it must be the only one, run what the spec asks for, and hold the job's log. For
    any other, return None: a new driver continues from its newest checkpoint, and fences it off.
    """
    pod = _left(s)
    if pod is None or s.wanted is None:
        return None
    if pod not in s.seen.unowned:
        message = f"driver {pod.name}, which ran on without its StreamJob, is taken over"
        event = Emit(type="Normal", reason="Adopted", message=message)
        return deploy(s, s.wanted.name, latest(s), event=event, running=pod)
    action = AdoptDriver(name=pod.name, uid=pod.uid, attempt=pod.attempt, revision=s.wanted)
    return Step(memory=s.memory, actions=(action,), requeue=0)


def _left(s: Situation) -> DriverPod | None:
    spec = s.spec
    if spec is None or s.wanted is None or s.memory.attempt or s.wanted.instances:
        # Executors and their driver find each other by names that contain the uid of the StreamJob.
        return None
    if spec.initial_savepoint_path is not None or spec.initial_snapshot_ref is not None:
        return None
    running = [pod for pod in (*s.seen.pods, *s.seen.unowned) if not pod.ended]
    if len(running) != 1 or running[0].deleting is not None or running[0].revision != s.wanted.name:
        return None
    if s.log is None:
        return running[0] if s.seen.reach is not Reach.STORE else None
    return running[0] if s.log.attempt in (None, running[0].attempt) else None
