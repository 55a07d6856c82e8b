"""The part of a StreamJob's spec that determines its driver pod: a revision, its name, and the difference of two.

A revision is kept as a ControllerRevision, so that the controller can continue, restart and roll back to a deployed
revision, even after the spec has changed. Settings of the controller (upgrade mode, nonces, suspension) are not part
of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from streamjob.job.overlay import OVERRIDING, OVERRIDING_BY_KEY, overlay
from streamjob.job.spec import CheckpointingPolicy
from streamjob.live_policy import LivePolicy
from streamjob_operator.resources.parts import Storage
from streamjob_operator.resources.streamjob import StreamJobSpec

_HOW_TO_ACT = frozenset(
    {
        "allow_non_restored_state",
        "checkpoint_trigger_nonce",
        "deletion_policy",
        "health_check",
        "initial_savepoint_path",
        "initial_snapshot_ref",
        "restart_policy",
        "savepoint_redeploy_nonce",
        "savepoint_trigger_nonce",
        "savepoints",
        "suspend",
        "upgrade",
        "upgrade_mode",
    }
)
"""Fields of the spec that a running job need not be restarted for."""

_LIVE = frozenset(field.alias for field in LivePolicy.model_fields.values())
"""Fields of `checkpointing` that `PATCH /v1/checkpointing` changes."""

_HASH_DIGITS = 10
_LONGEST_JOB = 200


class Difference(StrEnum):
    """The kind of change from one revision to another; a greater one includes the smaller ones."""

    IGNORE = "IGNORE"
    """Nothing: they are the same."""
    PATCH = "PATCH"
    """The checkpointing policy, which the running job takes over."""
    SCALE = "SCALE"
    """The parallelism: a restart behind a savepoint."""
    UPGRADE = "UPGRADE"
    """A restart by the upgrade mode."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision: its name, `<job>-<hash>`, and the fields of the spec that belong to it, as JSON."""

    name: str
    content: Mapping[str, Any]

    def spec(self) -> StreamJobSpec:
        """Return the spec that its driver is made from."""
        return StreamJobSpec.model_validate(self.content)

    @property
    def storage(self) -> Storage:
        """How its snapshots are reached; read by every look, and so without the rest of the spec."""
        return Storage.model_validate(self.content.get("storage") or {})

    @property
    def location(self) -> str | None:
        """Where its checkpoints are kept."""
        location = _effective(self.content).get("checkpointing", {}).get("location")
        return None if location is None else str(location)

    @property
    def policy(self) -> Mapping[str, Any]:
        """The part of its checkpointing policy that can be changed while the job runs, as JSON.

        For an application's file only what the spec says is known.
        """
        effective = _effective(self.content)
        policy = _policy_of(effective.get("checkpointing", {}))
        complete = "job" in effective
        return policy.model_dump(by_alias=True, exclude_unset=not complete, include=set(LivePolicy.model_fields))


def revision_of(job: str, spec: StreamJobSpec) -> Revision:
    """Return the revision that a spec asks for.

    A default that is spelled out makes no other revision, nor does a field that a newer controller adds.

    Args:
        job: name of the StreamJob.
        spec: its spec.
    """
    content = spec.model_dump(
        mode="json", by_alias=True, exclude_unset=True, exclude_none=True, exclude=set(_HOW_TO_ACT)
    )
    text = json.dumps(_normal(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
    return Revision(f"{job[:_LONGEST_JOB]}-{digest}", content)


def difference(deployed: Revision, wanted: Revision) -> Difference:
    """Return what it takes to get from the deployed revision to the wanted one."""
    if deployed.name == wanted.name:
        return Difference.IGNORE
    before, after = _normal(deployed.content), _normal(wanted.content)
    if before == after:
        return Difference.IGNORE
    if _without_policy(before) == _without_policy(after) and not _falls_back_to_the_unknown(deployed, wanted):
        return Difference.PATCH
    if _without_scale(before) == _without_scale(after):
        return Difference.SCALE
    return Difference.UPGRADE


def _falls_back_to_the_unknown(deployed: Revision, wanted: Revision) -> bool:
    """What an application's file says of the policy is not known here; only a restart brings it back."""
    return not set(deployed.policy) <= set(wanted.policy)


def _effective(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with the overriding fields as they are in force, and without those fields in the job."""
    own = content.get("job")
    if not isinstance(own, Mapping):
        return dict(content)
    job = overlay(own, content)
    replaced = {name: job.pop(name) for name in OVERRIDING if name in job}
    merged = {name: job.pop(name) for name in OVERRIDING_BY_KEY if name in job}
    merged = {name: value for name, value in merged.items() if value and isinstance(value, Mapping)}
    return {**content, **replaced, **merged, "job": job}


def _normal(content: Mapping[str, Any]) -> dict[str, Any]:
    effective = _effective(content)
    try:
        normal = StreamJobSpec.model_validate(effective).model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude_none=True
        )
    except ValidationError:
        return effective
    if "checkpointing" in effective:
        policy = _policy_of(effective["checkpointing"])
        normal["checkpointing"] = policy.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return normal


def _policy_of(checkpointing: Mapping[str, Any]) -> CheckpointingPolicy:
    return CheckpointingPolicy.model_validate(checkpointing)


def _without_policy(normal: Mapping[str, Any]) -> dict[str, Any]:
    policy = normal.get("checkpointing", {})
    fixed = {name: value for name, value in policy.items() if name not in _LIVE}
    return {**normal, "checkpointing": fixed}


def _without_scale(normal: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _without_policy(normal).items() if name != "parallelism"}
