"""An upgrade, from the changed spec to the next driver; a suspension, a redeployment and a deletion begin the same way.

`asked` compares the spec with the running driver. It stops that driver only for a pod that the API server accepts.
`stopping` carries out the stop. `stopped` decides on the next step when no process is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from streamjob_operator.decisions.shared import pod_dry_run, resizing
from streamjob_operator.decisions.states import preflight, rollback, stopping, successors
from streamjob_operator.decisions.states.compatibility import incompatible
from streamjob_operator.decisions.states.driver_end import restart
from streamjob_operator.decisions.states.not_running import delete, suspend, wait_for_run
from streamjob_operator.decisions.states.rollback import rolled_back
from streamjob_operator.decisions.states.starting import asks_for_redeployment, deploy, deploy_wanted, go_on
from streamjob_operator.decisions.states.stop_mode import mode_of
from streamjob_operator.decisions.values import health
from streamjob_operator.decisions.values.actions import Emit, EnsureRevision
from streamjob_operator.decisions.values.memory import Stop
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.effect_of_changes import Change
from streamjob_operator.resources.status import LifecycleState, TriggerPurpose

_WAITS_FOR_IT = frozenset({LifecycleState.DEPLOYING, *health.RUNS})
_STOPS_FOR_IT = frozenset({LifecycleState.UPGRADING})
"""States of a job for which a successor is prepared, and of one that stops for it."""


def asked(s: Situation) -> Step | None:
    """Return the step that the spec requires for a running or starting driver; None if nothing has changed."""
    put_off = s.memory.stop
    if put_off is not None and not _is_asked_for(s, put_off.purpose):
        return Step(memory=replace(s.memory, stop=None), requeue=0)
    if s.resource.deleted:
        return _stop(s, TriggerPurpose.DELETE, "Deleting", "the StreamJob was deleted")
    if s.spec is None:
        return None
    if s.spec.suspend:
        return _stop(s, TriggerPurpose.SUSPEND, "Suspending", "the spec asks for a suspension")
    if _gets_a_schedule(s):
        return _stop(s, TriggerPurpose.SUSPEND, "Scheduling", "from now on the job runs by its schedule")
    redeploys = asks_for_redeployment(s) and not preflight.blocks(s)
    if not (redeploys or _asks_for_an_upgrade(s)):
        return None
    assert s.wanted is not None
    if s.seen.revision(s.wanted.name) is None:
        return Step(memory=s.memory, actions=(EnsureRevision(revision=s.wanted),), requeue=0)
    if redeploys:
        return _stop(s, TriggerPurpose.REDEPLOY, "Redeploying", "savepointRedeployNonce has changed")
    if s.resizes and not redeploys:
        return resizing.resize(s)
    if rollback.is_rejected(s):
        return rollback.stay(s)
    reason = "Rescaling" if s.rescales else "SpecChanged"
    return _stop(s, TriggerPurpose.UPGRADE, reason, f"{s.memory.revision} gives way to {s.wanted.name}")


def stopped(s: Situation, stop: Stop) -> Step:
    """No process of the job is left: continue with the resource's current demands."""
    if s.resource.deleted:
        return delete(s)
    if stop.purpose is TriggerPurpose.ROLLBACK:
        return rolled_back(s)
    if stop.purpose is TriggerPurpose.RESTART:
        return restart(s, s.memory.failure_reason or "RestartUnhealthyJob", s.memory.failure or "the job was not well")
    go = stopping.may_go_on(s, stop)
    if go is None:
        message = "it is not known whether the savepoint was completed"
        return s.waits("StoreUnreachable", message, requeue=s.limits.store)
    if not go:
        assert s.memory.revision is not None
        step = deploy(s, s.memory.revision, go_on(s))
        later = stopping.put_off(s, stop, "the driver ended before the savepoint was complete")
        return replace(step, memory=replace(step.memory, stop=later)) if not step.actions else step
    suspends = s.spec.suspend if s.spec is not None else stop.purpose is TriggerPurpose.SUSPEND
    if suspends:
        return suspend(s)
    if _gets_a_schedule(s):
        return wait_for_run(s)
    if stop.purpose is not TriggerPurpose.REDEPLOY and incompatible(s) is not None:
        # The compatibility check before the stop saw less state than the job has now, perhaps none.
        assert s.memory.revision is not None
        return deploy(s, s.memory.revision, go_on(s))
    return deploy_wanted(s, from_state=stop.purpose is TriggerPurpose.REDEPLOY)


def once_admitted(s: Situation, revision: str, stop: Callable[[], Step]) -> Step | None:
    """Stop a driver only for a pod that the API server takes; until then, the job runs on."""
    return pod_dry_run.try_pod(s, revision) or (stop() if pod_dry_run.is_admitted(s, revision) else None)


def forget_trial(s: Situation) -> Step | None:
    """Stop asking about pods that are no longer wanted."""
    if not s.memory.trials:
        return None
    asked_for = _pods_asked_for(s)
    kept = tuple(each for each in s.memory.trials if each.revision in asked_for)
    return None if kept == s.memory.trials else Step(memory=replace(s.memory, trials=kept), requeue=0)


def let_successor_go(s: Situation) -> Step | None:
    """Let go of a successor that will not be told to start, or that is not prepared in time."""
    successor, stop = s.memory.successor, s.memory.stop
    if successor is None:
        return None
    stops = stop is not None and stop.next_try is None
    is_meant = s.memory.lifecycle in (_STOPS_FOR_IT if stops else _WAITS_FOR_IT)
    if not is_meant or not _asks_for_a_successor(s, successor.revision):
        return Step(memory=replace(s.memory, successor=None), requeue=0)
    return None if stops else preflight.failed_successor(s) or successors.given_up(s)


def _asks_for_a_successor(s: Situation, revision: str) -> bool:
    if s.resource.deleted or s.spec is None or s.spec.suspend or not s.upgrade.warm_successor:
        return False
    if asks_for_redeployment(s) or s.resizes:
        return False
    return s.wanted is not None and s.wanted.name == revision and _asks_for_an_upgrade(s)


def _is_asked_for(s: Situation, purpose: TriggerPurpose) -> bool:
    """Whether a postponed stop is still wanted; an unusable spec withdraws nothing."""
    if s.resource.deleted or purpose is TriggerPurpose.DELETE:
        return s.resource.deleted and purpose is TriggerPurpose.DELETE
    if s.spec is None:
        return True
    if purpose is TriggerPurpose.SUSPEND:
        return s.spec.suspend or _gets_a_schedule(s)
    if purpose is TriggerPurpose.REDEPLOY:
        return asks_for_redeployment(s)
    return purpose is TriggerPurpose.UPGRADE and _asks_for_an_upgrade(s)


def _gets_a_schedule(s: Situation) -> bool:
    """Whether the driver is one that runs all the time, which the spec does not ask for any more."""
    return s.spec is not None and s.spec.schedule is not None and not s.memory.in_run


def _asks_for_an_upgrade(s: Situation) -> bool:
    if s.memory.in_run and s.memory.lifecycle in health.RUNS and s.driver_is_live:
        # A run that goes on comes to its end by itself.
        return False
    another = s.difference in (Change.SCALE, Change.UPGRADE) and not s.rolled_back
    return another and incompatible(s) is None and not preflight.blocks(s)


def _stop(s: Situation, purpose: TriggerPurpose, reason: str, message: str) -> Step | None:
    mode = mode_of(s, purpose)
    if mode is None or not stopping.is_due(s, purpose):
        return None
    event = Emit(type="Normal", reason=reason, message=message)
    if purpose in (TriggerPurpose.SUSPEND, TriggerPurpose.DELETE):
        return stopping.begin(s, purpose, event, mode=mode)
    assert s.wanted is not None
    begin = partial(stopping.begin, s, purpose, event, mode=mode)
    upgrades = purpose is TriggerPurpose.UPGRADE
    if upgrades and s.successor_is_prepared:
        # The API server has taken its pod.
        return preflight.by_successor(s, begin())
    prepares = (successors.prepare(s) if upgrades else None) or preflight.looked_at(s)
    if prepares is not None or preflight.is_open(s):
        # While a preflight is open, the driver goes on with everything else.
        return prepares
    return once_admitted(
        s,
        s.wanted.name,
        lambda: (successors.decided(s) if upgrades else None) or preflight.decided(s) or begin(),
    )


def _pods_asked_for(s: Situation) -> set[str | None]:
    """The revisions for whose pods the driver might be stopped."""
    found = {s.memory.revision} if health.unhealthy(s) is not None else set()
    if rollback.due(s) is not None:
        found.add(s.memory.stable_revision)
    usable = s.spec is not None and not s.spec.suspend and not s.resource.deleted
    if usable and s.wanted is not None and (asks_for_redeployment(s) or _asks_for_an_upgrade(s)):
        found.add(s.wanted.name)
    return found
