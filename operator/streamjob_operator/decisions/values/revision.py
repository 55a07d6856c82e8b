"""The part of a StreamJob's spec that determines its driver pod: a revision, its name, and the difference of two.

A revision is kept as a ControllerRevision, so that the controller can continue, restart and roll back to a deployed
revision, even after the spec has changed. Settings of the controller (upgrade mode, nonces, suspension) are not part
of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from streamjob.checkpointing_policy import LiveCheckpointingPolicy
from streamjob.job.loading.stream_job import OVERRIDING, OVERRIDING_BY_KEY, effective_job, task_slots
from streamjob.job.model.spec import CheckpointingPolicy
from streamjob_operator.resources.effect_of_changes import Change, Changes, changes_of
from streamjob_operator.resources.parts import Storage
from streamjob_operator.resources.streamjob import StreamJobSpec

_CHANGES = changes_of(StreamJobSpec)
_IGNORED = {name for name, field in StreamJobSpec.model_fields.items() if Change.IGNORE in field.metadata}
_HASH_DIGITS = 10
_LONGEST_JOB = 200


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision: its name, `<job>-<hash>`, and the fields of the spec that belong to it, as JSON."""

    name: str
    content: Mapping[str, Any]

    def spec(self) -> StreamJobSpec:
        """Return the spec that its driver is made from."""
        return StreamJobSpec.model_validate(self.content)

    @property
    def instances(self) -> int:
        """How many executor pods it has; 0 if all tasks run in the driver's pod."""
        return self.spec().instances if self.content.get("executor") is not None else 0

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

        For an application's file, only the spec's own fields are known.
        """
        effective = _effective(self.content)
        policy = _policy_of(effective.get("checkpointing", {}))
        complete = "job" in effective
        return policy.model_dump(
            by_alias=True, exclude_unset=not complete, include=set(LiveCheckpointingPolicy.model_fields)
        )


def revision_of(job: str, spec: StreamJobSpec) -> Revision:
    """Return the revision that a spec asks for.

    A default that is spelled out makes no other revision, nor does a field that a newer controller adds.

    Args:
        job: name of the StreamJob.
    """
    content = spec.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True, exclude=_IGNORED)
    text = json.dumps(_normal(content), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
    return Revision(f"{job[:_LONGEST_JOB]}-{digest}", content)


def difference(deployed: Revision, wanted: Revision) -> Change:
    """Return the steps from the deployed revision to the wanted one."""
    if deployed.name == wanted.name:
        return Change.IGNORE
    before, after = _normal(deployed.content), _normal(wanted.content)
    if before == after:
        return Change.IGNORE
    # Executors come and go beside their driver, which moves state to them and away from them.
    counted = all("executor" in each and "parallelism" in each for each in (before, after))
    taken_over = {Change.PATCH, Change.SCALE} if counted else {Change.PATCH}
    if _equal_without(taken_over, before, after) and not _falls_back_to_the_unknown(deployed, wanted):
        return Change.PATCH
    if _equal_without({Change.PATCH, Change.SCALE}, before, after):
        return Change.SCALE
    return Change.UPGRADE


def _falls_back_to_the_unknown(deployed: Revision, wanted: Revision) -> bool:
    """The policy in an application's file is not known here, so only a restart can bring back its values."""
    return not set(deployed.policy) <= set(wanted.policy)


def _effective(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content with the overriding fields as they are in force, and without those fields in the job."""
    own = content.get("job")
    if not isinstance(own, Mapping):
        slots = task_slots(content)
        return dict(content) if slots is None else {**content, "parallelism": slots}
    job = effective_job(own, content)
    replaced = {name: job.pop(name) for name in OVERRIDING if name in job}
    merged = {name: job.pop(name) for name in OVERRIDING_BY_KEY if name in job}
    merged = {name: value for name, value in merged.items() if value and isinstance(value, Mapping)}
    return {**content, **replaced, **merged, "job": job}


def _normal(content: Mapping[str, Any]) -> dict[str, Any]:
    return _normal_form(json.dumps(content, sort_keys=True))


@lru_cache(maxsize=1024)  # each look asks for the same few revisions several times
def _normal_form(text: str) -> dict[str, Any]:
    content = json.loads(text)
    effective = _effective(content)
    if task_slots(effective) is not None:
        # The parallelism says it already.
        effective["executor"] = {key: value for key, value in effective["executor"].items() if key != "instances"}
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


def _equal_without(small: Set[Change], before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return _without(small, before, _CHANGES) == _without(small, after, _CHANGES)


def _without(small: Set[Change], content: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """Return the content without the fields of small effect, and without sections that have no other ones."""
    kept: dict[str, Any] = {}
    for name, value in content.items():
        change = changes.get(name)
        if isinstance(change, Mapping) and isinstance(value, Mapping):
            kept |= {name: rest} if (rest := _without(small, value, change)) else {}
        elif isinstance(change, Mapping) or change not in small:
            kept[name] = value
    return kept
