"""Compares what a job's sinks write to with what they wrote to when the snapshot was taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamjob.errors import CannotRestore
from streamjob.ids import OperatorUid
from streamjob.sink import NO_TARGET
from streamjob.snapshot.manifest import Manifest


class TargetMadeAgain(CannotRestore):
    """What a sink wrote to was deleted, or another one has its name: it lacks the rows of earlier checkpoints."""


def check_targets(manifest: Manifest, sinks: Sequence[Mapping[str, Any]], targets: Mapping[OperatorUid, str]) -> None:
    """Check that the sinks which the job has not changed write to the same things as before.

    Args:
        sinks: the sinks in the job's graph.
        targets: the ids of what they write to now, as far as they are known.

    Raises:
        TargetMadeAgain: one writes to another thing of the same name, or to none.
    """
    unchanged = {sink["uid"] for sink in sinks if sink in manifest.graph.get("sinks", ())}
    for state in manifest.sinks:
        now = targets.get(state.uid)
        if not state.target or now is None or state.uid not in unchanged or now == state.target:
            continue
        found = "it is gone" if now == NO_TARGET else f"another one, {now}, has its name"
        raise TargetMadeAgain(
            f"sink {state.uid}: checkpoint {manifest.id} wrote to the one with the id {state.target}, and {found}: "
            "what was published there is missing",
            "bring it back; or give the sink another uid: it continues with the new one, without what was published "
            "before; or start without state with --from none",
        )
