"""How the driver is stopped: with a savepoint, with a last checkpoint (`last-state`), or at once (`stateless`).

The upgrade mode of the spec says it, unless the purpose or the state of the job leaves no choice. `stopping` carries
the stop out, and falls back from a savepoint that fails.
"""

from __future__ import annotations

from streamjob_operator.decisions.values.situation import Situation
from streamjob_operator.resources.effect_of_changes import Change
from streamjob_operator.resources.parts import UpgradeMode
from streamjob_operator.resources.status import TriggerPurpose


def mode_of(s: Situation, purpose: TriggerPurpose) -> UpgradeMode | None:
    """Return how to stop the driver; None if it must run until it can take the required savepoint.

    The driver of a revision that completed nothing has nothing to lose.
    """
    if purpose in (TriggerPurpose.RESTART, TriggerPurpose.ROLLBACK):
        return "stateless"
    if s.spec is None or purpose is TriggerPurpose.REDEPLOY:
        return "last-state"
    if purpose is TriggerPurpose.DELETE:
        if s.spec.savepoints.on_deletion and s.driver_is_live:
            return "savepoint"
        return "stateless" if s.spec.deletion_policy == "Delete" else "last-state"
    if s.rescales and purpose is TriggerPurpose.UPGRADE:
        return "last-state"
    mode = s.spec.upgrade_mode
    if mode == "last-state" and (s.difference is Change.SCALE or _checkpoint_is_too_old(s)):
        mode = "savepoint" if s.takes_requests else mode
    if mode != "savepoint" or s.takes_requests:
        return mode
    if not s.revision_completed:
        return "last-state"
    if s.driver_is_live:
        return mode
    return "last-state" if s.upgrade.last_state_fallback else None


def _checkpoint_is_too_old(s: Situation) -> bool:
    age = s.upgrade.max_allowed_checkpoint_age
    if age is None:
        return False
    return s.completion_time is None or s.now - s.completion_time > age
