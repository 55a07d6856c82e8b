"""Automatic scaling of a StreamJob: takes a report of its load, decides, and records all of it in the status.

The decision itself is `streamjob.autoscaling.decide`, whose memory is in the status. So the status is all that a
controller needs to go on. In mode Act, a decision changes `status.autoscaling.parallelism`. The next reconciliation
finds that the deployed revision has another number of task slots, and restarts the job as for a changed spec.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

from streamjob.autoscaling import (
    Decision,
    LoadReport,
    Means,
    Memory,
    Rule,
    State,
    advise,
    decide,
    pack_memory,
    sentence,
    take_back,
    undo,
    unpack_memory,
)
from streamjob.client.load_report import load_of
from streamjob_operator.decisions.scaling import driver_memory
from streamjob_operator.decisions.shared import executors, pod_dry_run, resizing
from streamjob_operator.decisions.values import health
from streamjob_operator.decisions.values.actions import Emit
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.decisions.values.slots import slots_of, width_of
from streamjob_operator.resources.base import format_memory, time_of
from streamjob_operator.resources.effect_of_changes import Change
from streamjob_operator.resources.parts import Autoscaling, ScalingMode
from streamjob_operator.resources.status import RESTING, AutoscalingStatus, LastScaling, LifecycleState, TriggerPurpose
from streamjob_operator.resources.streamjob import StreamJobSpec

LOOK = 10.0
"""Seconds between two reports of a job's load."""
_UNSCHEDULABLE_SECONDS = 60.0
_EXECUTORS_SECONDS = 600.0
_HOPELESS = frozenset({"Unschedulable", "FailedCreate", "PodRejected"})
"""Reasons of missing executors that do not go away by waiting, unless somebody makes room for them."""
_KILLS = 2
"""Drivers in a row that exceed their memory before a move to more task slots is undone."""
_RESIZE_SECONDS = 30.0
_DAY = 86_400.0
_RESTS = RESTING | {LifecycleState.CREATED}
_BUSY = {
    TriggerPurpose.UPGRADE: "an upgrade",
    TriggerPurpose.SUSPEND: "a suspension",
    TriggerPurpose.DELETE: "its deletion",
    TriggerPurpose.RESTART: "a restart",
    TriggerPurpose.REDEPLOY: "a start from another snapshot",
    TriggerPurpose.ROLLBACK: "a rollback",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The result of one look at a job's load.

    Args:
        status: to be stored; None without automatic scaling.
        events: to be recorded.
        moved: whether the number of task slots to run has changed, so that it must be stored before any action.
        requeue: seconds until the next look at the latest; None if there is no need for one.
    """

    status: AutoscalingStatus | None
    events: tuple[Emit, ...] = ()
    moved: bool = False
    requeue: float | None = None


def look(s: Situation, step: Step) -> Look:
    """Return the automatic scaling after one more observation.

    Args:
        step: the step that the rest of the controller takes.
    """
    before = s.resource.status.autoscaling
    if s.resource.deleted or s.spec is None:
        return Look(status=before)
    policy = s.spec.autoscaling
    if policy.mode is ScalingMode.OFF:
        return Look(status=None)
    status, events = _in_mode(s, policy, before)
    found = (
        _taken_back(s, policy, status)
        or _memory_rejected(s, status)
        or _without_memory(s, policy, status)
        or _observed(s, step, policy, status)
    )
    return replace(found, events=(*events, *found.events), moved=_target(found.status) != _target(before))


def _target(status: AutoscalingStatus | None) -> tuple[object, ...]:
    if status is None:
        return (None,) * 4
    return status.parallelism, status.means, status.driver_memory, status.driver_memory_overhead


def after_a_kill(s: Situation) -> Look | None:
    """Return the automatic scaling once a driver was killed that exceeded its memory; None if it gets no more."""
    status = s.resource.status.autoscaling
    if s.spec is None or s.resource.deleted or s.spec.suspend or status is None or status.parallelism is None:
        return None
    if s.spec.autoscaling.mode is not ScalingMode.ACT:
        return None
    found = driver_memory.after_a_kill(s, s.spec.autoscaling, status)
    return None if found is None else Look(status=found[0], events=(found[1],), moved=True)


def _in_mode(
    s: Situation, policy: Autoscaling, before: AutoscalingStatus | None
) -> tuple[AutoscalingStatus, tuple[Emit, ...]]:
    """Return the status as the mode has it, before any observation."""
    status = before or AutoscalingStatus(mode=policy.mode)
    if policy.mode is not ScalingMode.ACT:
        return status.replaced(
            mode=policy.mode,
            parallelism=None,
            means=None,
            driver_memory=None,
            driver_memory_overhead=None,
            spec_memory=None,
            memory_use=None,
            spec_parallelism=None,
            conflict="",
        ), ()
    assert s.spec is not None
    asked = slots_of(s.spec)
    if status.parallelism is None:
        first = _within(s.spec, policy, asked) if s.memory.attempt == 0 else s.slots
        return status.replaced(mode=policy.mode, parallelism=first, spec_parallelism=asked), ()
    conflict = ""
    if status.spec_parallelism is not None and asked != status.spec_parallelism:
        conflict = (
            f"parallelism was changed from {status.spec_parallelism} to {asked}, which has no effect while "
            "autoscaling.mode is Act: remove the HorizontalPodAutoscaler or ScaledObject that scales this StreamJob, "
            "set autoscaling.min and autoscaling.max instead, or set the mode to Off"
        )
    is_news = conflict not in ("", status.conflict)
    events = (Emit(type="Warning", reason="ScaleIgnored", message=conflict),) if is_news else ()
    return status.replaced(mode=policy.mode, conflict=conflict), events


def _within(spec: StreamJobSpec, policy: Autoscaling, asked: int) -> int:
    """Return the task slots to begin with: those of whole executors, within the bounds."""
    unit = 1 if spec.executor is None else spec.executor.cores
    within = min(max(asked, policy.min), policy.max)
    up = -(-within // unit) * unit
    return up if up <= policy.max else max(within // unit, 1) * unit


def _taken_back(s: Situation, policy: Autoscaling, status: AutoscalingStatus) -> Look | None:
    """Take a change back that the cluster does not allow; None if there is none."""
    memory = unpack_memory(status.memory)
    move = memory.moves[-1] if memory.moves else None
    if status.parallelism is None or move is None or move.confirmed or move.after != status.parallelism:
        return None
    if s.resizes:
        return _in_place_failed(s, policy, status, memory)
    if s.rescales and s.driver_is_live:
        assert s.wanted is not None
        trial = s.memory.trial(s.wanted.name)
        if trial is not None and trial.rejections > 1:
            kept = take_back(memory, s.seen.now)
            return _limited(s, status, kept, s.slots, pod_dry_run.rejection(trial))
        if s.rolled_back:
            kept = undo(memory, s.slots, s.seen.now)
            why = f"the revision with {status.parallelism} task slots was rolled back: {s.memory.failure or ''}"
            return _limited(s, status, kept, s.slots, why)
    if move.means is Means.EXECUTORS:
        return _without_executors(s, status, memory)
    pod = s.pod
    waits = pod is not None and pod.reason == "Unschedulable" and s.seen.now > pod.created + _UNSCHEDULABLE_SECONDS
    ours = move.after == s.slots > move.before and move.means is Means.RESTART
    if pod is None or not waits or not ours or policy.cpu_per_slot is None or s.memory.stop is not None:
        return None
    if s.memory.lifecycle is not LifecycleState.DEPLOYING:
        return None
    why = f"no node has room for the driver with {move.after} task slots: {pod.message}"
    return _limited(s, status, undo(memory, move.before, s.seen.now), move.before, why)


def _memory_rejected(s: Situation, status: AutoscalingStatus) -> Look | None:
    """Take memory back for which the API server rejects the pod, such as by a quota; None if there is none."""
    if status.driver_memory is None or not s.rescales or not s.driver_is_live or s.deployed is None:
        return None
    assert s.wanted is not None
    trial, wanted, has = s.memory.trial(s.wanted.name), s.wanted.spec().driver, s.deployed.spec().driver
    if trial is None or trial.rejections <= 1 or status.parallelism != s.slots:
        return None
    if (wanted.memory, wanted.memory_overhead) == (has.memory, has.memory_overhead):
        return None
    kept = driver_memory.taken_back(s, status, pod_dry_run.rejection(trial))
    event = Emit(type="Warning", reason="ScalingLimited", message=kept.limit)
    return Look(status=kept.replaced(state=State.LIMITED, reason=kept.limit), events=(event,), requeue=0)


def _without_executors(s: Situation, status: AutoscalingStatus, memory: Memory) -> Look | None:
    """Undo a move to more executors than the cluster runs; None if all are ready, or may still come."""
    move, found = memory.moves[-1], s.resource.status.executors
    if move.after <= move.before or move.after != s.slots or found is None or found.ready >= found.desired:
        return None
    condition = executors.readiness(s, found)
    if condition is None or condition[0] != "False":
        return None
    waited = s.seen.now - move.time
    if waited < (_UNSCHEDULABLE_SECONDS if condition[1] in _HOPELESS else _EXECUTORS_SECONDS):
        return None
    why = f"the executors for {move.after} task slots did not start: {condition[2]}"
    return _limited(s, status, undo(memory, move.before, s.seen.now), move.before, why)


def _without_memory(s: Situation, policy: Autoscaling, status: AutoscalingStatus) -> Look | None:
    """Undo a move to more task slots than the driver's memory allows; None if there is none, or it gets more memory."""
    memory = unpack_memory(status.memory)
    move = memory.moves[-1] if memory.moves else None
    if move is None or not move.before < move.after == status.parallelism == s.slots or s.deployed is None:
        return None
    if s.memory.failure_reason != driver_memory.KILLED or s.memory.failures < _KILLS or s.memory.stop is not None:
        return None
    had = s.deployed.spec().driver.memory
    if policy.max_memory is not None and had < policy.max_memory:
        return None
    why = (
        f"{s.memory.failures} drivers in a row with {move.after} task slots exceeded their memory of "
        f"{format_memory(had)}; set autoscaling.maxMemory to a larger one"
    )
    return _limited(s, status, undo(memory, move.before, s.seen.now), move.before, why)


def _in_place_failed(s: Situation, policy: Autoscaling, status: AutoscalingStatus, memory: Memory) -> Look | None:
    """Return the way on if the node does not give the driver its processors: a restart elsewhere, or none."""
    move, pod = memory.moves[-1], s.pod
    assert pod is not None
    if resizing.is_done(s) or not (pod.resize.startswith("Infeasible") or s.seen.now > move.time + _RESIZE_SECONDS):
        return None
    why = f"the driver cannot have the processors for {move.after} task slots in place: {pod.resize or 'no answer'}"
    if Means.RESTART not in policy.means or move.after < move.before:
        return _limited(s, status, take_back(memory, s.seen.now), s.slots, why)
    by_restart = replace(memory, moves=(*memory.moves[:-1], replace(move, means=Means.RESTART, time=s.seen.now)))
    told = f"{why}. The job restarts for them"[:4000]
    changed = status.replaced(
        state=State.LIMITED, means=Means.RESTART, limit=why[:4000], reason=told, memory=pack_memory(by_restart)
    )
    event = Emit(type="Warning", reason="ScalingLimited", message=told)
    return Look(status=changed, events=(event,), requeue=0)


def _limited(s: Situation, status: AutoscalingStatus, memory: Memory, slots: int, why: str) -> Look:
    told = f"Back to {slots} task slots: {why}"[:4000]
    changed = status.replaced(
        state=State.LIMITED,
        parallelism=slots,
        recommended=slots,
        reason=told,
        limit=why[:4000],
        memory=pack_memory(memory),
        observed=time_of(s.seen.now),
    )
    event = Emit(type="Warning", reason="ScalingLimited", message=told)
    return Look(status=changed, events=(event,), requeue=0)


def _observed(s: Situation, step: Step, policy: Autoscaling, status: AutoscalingStatus) -> Look:
    now = s.seen.now
    if step.memory.lifecycle in _RESTS:
        return Look(status=_at_rest(status))
    if status.observed is not None and (passed := now - status.observed.timestamp()) < LOOK:
        return Look(status=status, requeue=LOOK - max(passed, 0.0))
    memory = unpack_memory(status.memory)
    load = _load(s, step, memory)
    if load is None:
        return Look(status=status, requeue=LOOK)
    acts = policy.mode is ScalingMode.ACT
    decision = decide(policy, memory, load, now) if acts else advise(policy, memory, load)
    after = _told(status, decision, policy, load, now)
    events = _events(status, after, decision, load, acts=acts)
    if not acts:
        return Look(status=after, events=events, requeue=LOOK)
    after = driver_memory.observed(s, after)
    sized = None
    if decision.slots is not None:
        after = after.replaced(parallelism=decision.slots, means=decision.means)
        sized = driver_memory.reduced(s, policy, after) if decision.means is Means.RESTART else None
    elif load.running and not load.hindrance and not any(each.contains(now) for each in policy.excluded_periods):
        sized = driver_memory.raised(s, policy, after)
    if sized is not None:
        after, events = sized[0], (*events, sized[1])
    return Look(status=after, events=events, requeue=LOOK)


def _at_rest(status: AutoscalingStatus) -> AutoscalingStatus:
    """Return the status of a job that rests: how long it does says nothing about how long a restart takes."""
    memory = unpack_memory(status.memory)
    rested = replace(memory, seen=None, heard=None, down_since=None, running_since=None)
    packed = status.memory if rested == memory else pack_memory(rested)
    return status.replaced(state=State.PAUSED, reason="The job does not run.", memory=packed, observed=None)


def _load(s: Situation, step: Step, memory: Memory) -> LoadReport | None:
    """Return the job's load; None if its driver runs and did not answer, which says nothing."""
    now = s.seen.now
    if s.job is None:
        if step.memory.lifecycle in health.RUNS and s.driver_is_live:
            return None
        return LoadReport(time=now, slots=s.slots, rows=0.0, chains=(), running=False)
    width = None if s.spec is None else width_of(s.spec)
    is_wide = width is not None and s.job.graph.get("parallelism") == width
    interval = None if s.seen.policy is None else s.seen.policy.interval
    load = load_of(s.job, now=now, interval=interval, slots=s.slots if is_wide or s.instances else None)
    load = replace(load, in_place_slots=width if is_wide else None)
    if s.instances and s.deployed is not None and (executor := s.deployed.spec().executor) is not None:
        load = replace(load, executor_slots=executor.cores, slots_in_use=load.slots_in_use or 0)
    return replace(load, busy_with=load.busy_with or _busy_with(s, step, memory))


def _busy_with(s: Situation, step: Step, memory: Memory) -> str:
    if step.memory.stop is not None:
        return _BUSY.get(step.memory.stop.purpose, "a stop")
    if s.difference not in (Change.IGNORE, Change.PATCH):
        return "a change of its slots" if s.rescales else "a change of its spec"
    own = bool(memory.moves) and not memory.moves[-1].confirmed
    if step.memory.lifecycle not in health.RUNS or (step.memory.lifecycle is LifecycleState.DEPLOYED and not own):
        return "a new revision, which has completed no checkpoint"
    return "a savepoint" if s.resource.status.savepoint.pending is not None else ""


def _told(
    status: AutoscalingStatus, decision: Decision, policy: Autoscaling, load: LoadReport, now: float
) -> AutoscalingStatus:
    memory, numbers = decision.memory, decision.inputs
    reason, state, limit = sentence(decision, policy, load), decision.state, decision.limit
    move = memory.moves[-1] if memory.moves else None
    last = None
    if move is not None:
        before = status.last_scaling
        known = "" if before is None or before.time != time_of(move.time) else before.reason
        last = LastScaling(
            time=time_of(move.time),
            before=move.before,
            after=move.after,
            means=move.means,
            rule=move.rule,
            reason=known if decision.slots is None else reason[:4000],
            expected=_short(move.expected) or 1.0,
            reached=_short(move.reached),
        )
    if decision.slots is None and status.limit and not limit and now < memory.paused_until:
        # The cluster did not allow the last change, and it is not tried again yet.
        reason, state, limit = f"{reason} Before, {status.limit}", State.LIMITED, status.limit
    return status.replaced(
        state=state,
        recommended=decision.slots or load.slots,
        reason=reason[:4000],
        limit=limit,
        arrival_rate=_short(numbers.get("rate")),
        capacity=_short(numbers.get("capacity")),
        utilization=_short(numbers.get("utilization")),
        lag_seconds=_short(numbers.get("lag")),
        restart_seconds=_short(max(memory.pauses, default=None)),
        last_scaling=last,
        moves_today=sum(each.means is Means.RESTART and each.time > now - _DAY for each in memory.moves),
        observed=time_of(now),
        memory=pack_memory(memory),
    )


def _events(
    before: AutoscalingStatus, after: AutoscalingStatus, decision: Decision, load: LoadReport, *, acts: bool
) -> tuple[Emit, ...]:
    if decision.slots is not None:
        if decision.rule in (Rule.UNDO, Rule.FAILED):
            return (Emit(type="Warning", reason="ScalingUndone", message=after.reason),) if acts else ()
        if acts:
            reason = "ScaledUp" if decision.slots > load.slots else "ScaledDown"
            return (Emit(type="Normal", reason=reason, message=after.reason),)
        advised = before.recommended or load.slots
        news = advised == load.slots or abs(decision.slots - advised) > max(1, advised // 4)
        return (Emit(type="Normal", reason="ScalingAdvised", message=after.reason),) if news else ()
    if after.state is before.state:
        return ()
    if after.state is State.SATURATED:
        return (Emit(type="Warning", reason="ScalingSaturated", message=after.reason),)
    if after.state is State.LIMITED:
        return (Emit(type="Warning", reason="ScalingLimited", message=after.reason),)
    return ()


def _short(number: float | None) -> float | None:
    """Round to four significant digits, so that the status changes less often."""
    return None if number is None or not isfinite(number) else float(f"{number:.4g}")
