"""The conditions of both resources, as Kubernetes' conventions and kstatus read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from streamjob_operator.resources.base import StatusPart, Time

ConditionStatus = Literal["True", "False", "Unknown"]


class ConditionType(StrEnum):
    """The type of a condition."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    RUNNING = "Running"
    CHECKPOINT_HEALTHY = "CheckpointHealthy"
    STATE_COMPATIBLE = "StateCompatible"
    PREFLIGHT_PASSED = "PreflightPassed"
    ROLLED_BACK = "RolledBack"
    STORE_IN_REACH = "StoreInReach"
    EXECUTORS_READY = "ExecutorsReady"


MEANINGS: Mapping[ConditionType, str] = {
    ConditionType.READY: "The job matches the spec of this generation: it is running and has completed a checkpoint "
    "since its last start, restart or change; has finished; or is suspended as requested.",
    ConditionType.RECONCILING: "The controller is working on a change of spec or state.",
    ConditionType.STALLED: "Nothing will change by itself: the spec or something outside has to change.",
    ConditionType.RUNNING: "The job processes data.",
    ConditionType.CHECKPOINT_HEALTHY: "Checkpoints complete as often as they should.",
    ConditionType.STATE_COMPATIBLE: "The spec can continue from the job's state.",
    ConditionType.PREFLIGHT_PASSED: "The new revision was checked in a pod of its own, and can start: see "
    "`upgrade.preflight`.",
    ConditionType.ROLLED_BACK: "The last stable revision is running instead of this spec.",
    ConditionType.STORE_IN_REACH: "The controller can read and delete the job's snapshots itself. Otherwise the reason "
    "says why, and it knows only the snapshots that the driver reports, and deletes none.",
    ConditionType.EXECUTORS_READY: "All executors are registered with the driver. Only for jobs with `spec.executor`.",
}


class Condition(StatusPart):
    """One aspect of the resource's state: true, false or unknown."""

    type: str = Field(max_length=316, pattern=r"^[A-Z][A-Za-z]*$", description="The type of the condition.")
    status: ConditionStatus = Field(description="True, False or Unknown.")
    reason: str = Field(
        max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", description="The reason, as one word."
    )
    message: str = Field(default="", max_length=32768, description="The reason, as text.")
    observed_generation: int | None = Field(default=None, ge=0, description="Generation of the spec that it refers to.")
    last_transition_time: Time = Field(description="When `status` changed last.")


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of that type, or None."""
    return next((each for each in conditions if each.type == kind), None)


def with_condition(
    conditions: Iterable[Condition],
    kind: str,
    status: ConditionStatus,
    reason: str,
    message: str = "",
    *,
    generation: int | None,
    now: datetime,
) -> tuple[Condition, ...]:
    """Return the conditions with this one in the place of the one of its type, or at the end.

    `last_transition_time` moves only where the status changes.
    """
    existing = tuple(conditions)
    before = find_condition(existing, kind)
    since = now
    # The API server's default for a new resource cannot know the time, so it says 1970.
    if before is not None and before.status == status and before.last_transition_time.timestamp() > 0:
        since = before.last_transition_time
    new = Condition(
        type=str(kind),
        status=status,
        reason=reason,
        message=message,
        observed_generation=generation,
        last_transition_time=since,
    )
    if before is None:
        return (*existing, new)
    return tuple(new if each.type == kind else each for each in existing)
