"""Whether the wanted revision may replace the deployed one."""

from __future__ import annotations

from streamjob_operator.decisions.states.starting import asks_for_redeployment
from streamjob_operator.decisions.values.observation import Compatibility, Reach
from streamjob_operator.decisions.values.situation import Situation


def incompatible(s: Situation) -> Compatibility | None:
    """Return why the wanted revision must not replace the deployed one, which completed something; None if it may."""
    if s.spec is None or s.spec.upgrade_mode == "stateless":
        return None
    moved = _out_of_sight(s)
    if moved is not None:
        return moved
    found = s.compatibility
    if found is None or s.upgrade.compatibility_check != "Enforce":
        return None
    return None if found.compatible else found


def _out_of_sight(s: Situation) -> Compatibility | None:
    """A move begins with the newest snapshot of the old place, and a log that is only remembered may lack it."""
    old, new = s.deployed, s.wanted
    if old is None or new is None or old.location == new.location or s.completed_attempt is None:
        return None
    if s.seen.reach is Reach.STORE or asks_for_redeployment(s):
        return None
    problem = (
        f"the job cannot move from {old.location} to {new.location}: only its driver can read there which snapshot is "
        "the newest. Name the one to continue from in initialSavepointPath, and change savepointRedeployNonce"
    )
    return Compatibility(revision=new.name, compatible=False, problems=(problem,))
