"""Whether the API server takes the next driver's pod.

A running job is not stopped for a pod that would be rejected. A dry run comes first, and is repeated until the pod is
accepted or no longer wanted. If no job runs, the creation itself is the test.
"""

from __future__ import annotations

from dataclasses import replace

from streamjob_operator.decisions.values.actions import Emit
from streamjob_operator.decisions.values.memory import Memory, Trial
from streamjob_operator.decisions.values.observation import Admission
from streamjob_operator.decisions.values.situation import Situation, Step

POD_REJECTED = "PodRejected"
_LONGEST = 1000


def try_pod(s: Situation, revision: str) -> Step | None:
    """Return the step before a driver may be stopped for a revision's pod; None if there is none."""
    if not s.driver_is_live:
        return None
    trial = s.memory.trial(revision)
    if trial is None:
        return Step(memory=_with(s.memory, Trial(revision=revision, since=s.now, next_try=s.now)), requeue=0)
    why = rejected_since(s, revision, trial.next_try)
    return None if why is None else _rejected(s, trial, why)


def is_admitted(s: Situation, revision: str) -> bool:
    """Return whether the driver may be stopped for a pod of a revision: the API server takes it, or nothing runs."""
    if not s.driver_is_live:
        return True
    trial = s.memory.trial(revision)
    answer = None if trial is None else _answer(s, revision, trial.next_try)
    return answer is not None and answer.rejection is None


def hindered(s: Situation) -> Step | None:
    """Return the reaction to a rejection of the newest attempt's own pod; None if it may be created."""
    memory = s.memory
    assert memory.revision is not None
    known = memory.trial(memory.revision)
    trial = known or Trial(revision=memory.revision, since=s.now, next_try=memory.decided)
    why = rejected_since(s, trial.revision, trial.next_try)
    if why is not None:
        return _rejected(s, trial, why)
    if s.now < trial.next_try and trial.rejections:
        return s.waits(POD_REJECTED, rejection(trial), requeue=trial.next_try - s.now)
    return None


def rejected(s: Situation) -> Trial | None:
    """Return the trial of a pod that was rejected, that of the spec's before another one; None if none was."""
    found = [each for each in s.memory.trials if each.rejections]
    wanted = None if s.wanted is None else s.wanted.name
    return min(found, key=lambda each: each.revision != wanted, default=None)


def rejection(trial: Trial) -> str:
    """Return a message that explains the rejection."""
    return f"the API server rejects the driver pod of {trial.revision}: {trial.message}"


def lasts(s: Situation) -> bool:
    """Return whether a pod was rejected more than once, and for so long that it will not be taken by itself."""
    trial = rejected(s)
    return trial is not None and trial.rejections > 1 and s.now >= trial.since + s.limits.rejection


def rejected_since(s: Situation, revision: str, since: float) -> str | None:
    """Return why the API server has not taken a pod of a revision since then; None if it has, or was not asked."""
    answer = _answer(s, revision, since)
    return None if answer is None else answer.rejection


def _answer(s: Situation, revision: str, since: float) -> Admission | None:
    found = next((each for each in s.seen.admissions if each.revision == revision), None)
    return None if found is None or int(found.time) < since else found


def _rejected(s: Situation, trial: Trial, why: str) -> Step:
    rejections = trial.rejections + 1
    next_try = s.now + s.limits.rejection_delay(rejections)
    trial = replace(trial, rejections=rejections, next_try=next_try, message=why[:_LONGEST])
    event = Emit(type="Warning", reason=POD_REJECTED, message=rejection(trial))
    return Step(memory=_with(s.memory, trial), events=(event,), requeue=0)


def _with(memory: Memory, trial: Trial) -> Memory:
    others = tuple(each for each in memory.trials if each.revision != trial.revision)
    return replace(memory, trials=(*others, trial))
