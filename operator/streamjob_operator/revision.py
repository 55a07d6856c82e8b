"""What of a StreamJob's spec its driver pod is made from: a revision, its name, and how two of them differ.

A revision is kept as a ControllerRevision, so that the controller can go on with, heal and return to what it deployed,
whatever the spec has become since. What only tells the controller how to act (upgrade mode, nonces, suspension) is no
part of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_HOW_TO_ACT = frozenset(
    {
        "allowNonRestoredState",
        "checkpointTriggerNonce",
        "healthCheck",
        "initialSavepointPath",
        "savepointRedeployNonce",
        "savepointTriggerNonce",
        "savepoints",
        "suspend",
        "upgrade",
        "upgradeMode",
    }
)
"""Fields of the spec that a running job need not be restarted for."""

CHANGED_WHILE_RUNNING = frozenset(
    {
        "interval",
        "timeout",
        "minPause",
        "mode",
        "alignedCheckpointTimeout",
        "tolerableFailedCheckpoints",
        "numRetained",
    }
)
"""Fields of `checkpointing` that `PATCH /v1/checkpointing` changes."""

_HASH_DIGITS = 10
_LONGEST_NAME = 253


class Difference(StrEnum):
    """What it takes to get from one revision to another; the greater includes the smaller."""

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
    """A revision: its name, `<job>-<hash of the content>`, and the fields of the spec that belong to it."""

    name: str
    content: Mapping[str, Any]

    @property
    def location(self) -> str | None:
        """Where its checkpoints are kept."""
        location = _checkpointing(self.content).get("location")
        return None if location is None else str(location)

    @property
    def policy(self) -> Mapping[str, Any]:
        """The part of its checkpointing policy that can be changed while the job runs; defaults are left out."""
        policy = _checkpointing(self.content)
        return {name: value for name, value in policy.items() if name in CHANGED_WHILE_RUNNING}


def revision_of(job: str, spec: Mapping[str, Any]) -> Revision:
    """Return the revision that a spec asks for.

    Args:
        job: name of the StreamJob.
        spec: its spec as JSON, without what is as by default, so that a default that is spelled out, or a field that a
            newer controller adds, makes no new revision.
    """
    content = {name: value for name, value in spec.items() if name not in _HOW_TO_ACT}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
    return Revision(f"{job[: _LONGEST_NAME - _HASH_DIGITS - 1]}-{digest}", content)


def difference(deployed: Revision, wanted: Revision) -> Difference:
    """Return what it takes to get from the deployed revision to the wanted one."""
    if deployed.content == wanted.content:
        return Difference.IGNORE
    if _without_policy(deployed.content) == _without_policy(wanted.content):
        return Difference.PATCH
    if _without_scale(deployed.content) == _without_scale(wanted.content):
        return Difference.SCALE
    return Difference.UPGRADE


def _checkpointing(content: Mapping[str, Any]) -> Mapping[str, Any]:
    found = content.get("checkpointing")
    return found if isinstance(found, Mapping) else {}


def _without_policy(content: Mapping[str, Any]) -> dict[str, Any]:
    fixed = {name: value for name, value in _checkpointing(content).items() if name not in CHANGED_WHILE_RUNNING}
    return {**content, "checkpointing": fixed}


def _without_scale(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _without_policy(content).items() if name != "parallelism"}
