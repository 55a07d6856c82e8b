"""Changes of a running job without a restart, and changes that are forbidden."""

from __future__ import annotations

from dataclasses import replace

from streamjob.client.models import CheckpointingChanges
from streamjob_operator.decisions.values.actions import Emit, EnsureRevision, PatchCheckpointing
from streamjob_operator.decisions.values.situation import Situation, Step
from streamjob_operator.resources.effect_of_changes import Change


def adopt(s: Situation) -> Step | None:
    """Adopt a revision that has another checkpointing policy or number of executors at most; None if there is none."""
    wanted = s.wanted
    if wanted is None or s.difference is not Change.PATCH or wanted.name == s.memory.failed_revision:
        return None
    if s.seen.revision(wanted.name) is None:
        return Step(memory=s.memory, actions=(EnsureRevision(revision=wanted),), requeue=0)
    stable = wanted.name if s.memory.stable_revision == s.memory.revision else s.memory.stable_revision
    before, after = s.instances, wanted.instances
    policy = "the checkpointing policy has changed"
    message = policy if before == after else f"the job has {before} executors, and is to have {after}"
    event = Emit(type="Normal", reason="SpecChanged", message=message)
    memory = replace(s.memory, revision=wanted.name, revision_since=s.now, stable_revision=stable)
    return Step(memory=memory, events=(event,), requeue=0)


def changes(s: Situation) -> CheckpointingChanges | None:
    """Return in which fields the policy in force differs from the deployed revision's; None for none, or if unknown."""
    if s.seen.policy is None or s.deployed is None or not s.takes_requests:
        return None
    in_force = s.seen.policy.model_dump(mode="python", by_alias=True, round_trip=True)
    wanted = CheckpointingChanges.model_validate(s.deployed.policy).model_dump(
        mode="python", by_alias=True, exclude_unset=True
    )
    return None if all(in_force.get(name) == value for name, value in wanted.items()) else _only(wanted, in_force)


def beside(s: Situation) -> Step:
    """Return the remaining step for a running job without changes: ensure that its policy is in force."""
    patch = changes(s)
    if patch is None:
        return Step(memory=s.memory)
    message = "the driver takes over the checkpointing policy"
    return s.waits("PatchingCheckpointing", message, PatchCheckpointing(attempt=s.memory.attempt, changes=patch))


def _only(wanted: dict[str, object], in_force: dict[str, object]) -> CheckpointingChanges:
    return CheckpointingChanges.model_validate(
        {name: value for name, value in wanted.items() if in_force.get(name) != value}
    )
