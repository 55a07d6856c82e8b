"""Which revisions are kept: those that anything names, and the newest."""

from __future__ import annotations

from streamjob_operator.decisions.values.actions import DeleteRevision
from streamjob_operator.decisions.values.situation import Situation
from streamjob_operator.resources.status import LifecycleState

KEPT = 10
"""As many as a Deployment keeps of its own."""


def forgotten(s: Situation) -> tuple[DeleteRevision, ...]:
    """Return the deletions of revisions that need not be kept; only a job at rest in its newest one forgets others."""
    memory = s.memory
    if memory.lifecycle is not LifecycleState.STABLE or memory.stop is not None or s.wanted is None:
        return ()
    if s.wanted.name != memory.revision:
        return ()
    named = {memory.revision, memory.stable_revision, *(pod.revision for pod in s.seen.pods)}
    return tuple(DeleteRevision(name=each.name) for each in s.seen.revisions[:-KEPT] if each.name not in named)
