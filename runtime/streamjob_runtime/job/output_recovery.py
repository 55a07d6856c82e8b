"""The first step of an epoch: commits the rest of the log's last completion, and discards later output."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamjob.errors import CannotRestore
from streamjob.ids import CheckpointId, Key, OperatorUid
from streamjob.job.planning.plan import Plan
from streamjob.protocol.log.restore import LATEST, NONE, Resolution
from streamjob.sink import Sink
from streamjob.snapshot import keys
from streamjob.store.base import Store
from streamjob_runtime.chain.emissions.outputs import FormerOutputs, Outputs
from streamjob_runtime.checkpointing.ledger import Ledger
from streamjob_runtime.sinks.checking.left_staged import left_staged
from streamjob_runtime.sinks.factory import SinkSurroundings, build_sink, build_sink_from_graph
from streamjob_runtime.sinks.meter import SinkMeters

log = logging.getLogger("streamjob")


def open_outputs(plan: Plan, surroundings: SinkSurroundings, meters: SinkMeters) -> Outputs:
    """Return the sinks of all chains, opened and metered. Raises the errors of `build_sink`."""
    sinks = {sink.uid: build_sink(sink, surroundings) for chain in plan.chains for sink in chain.sinks}
    return Outputs(sinks, meters)


class PublishedBeyondTheLog(CannotRestore):
    """A sink has published a checkpoint that the job's log does not know: the log is older than the output."""


def check_published(ledger: Ledger, outputs: Outputs, resolution: Resolution, wanted: str) -> None:
    """Refuse to start from the log's newest completion if a sink has published a later checkpoint.

    If a person has chosen the snapshot, the start goes on, and ids of new checkpoints are above all published ones.

    Args:
        wanted: the snapshot that was asked for: `latest`, `none`, or a reference.

    Raises:
        PublishedBeyondTheLog: rows would be published again without anybody's decision.
    """
    found = published_beyond(outputs.published(), ledger.store, resolution.last_id)
    if found is None:
        return
    if wanted == LATEST:
        raise found.error(resolution.reference)
    log.warning("%s: rows published since are published again", found.told)
    ledger.log.skip_ids(found.newest)


@dataclass(frozen=True, slots=True)
class Beyond:
    """What sinks have published beyond the log in a store: the newest checkpoint, and a clause about it."""

    newest: CheckpointId
    told: str
    store: Store

    def error(self, reference: str | None) -> PublishedBeyondTheLog:
        """Return the error of a start. Raises StoreError.

        Args:
            reference: the snapshot that the job would start from; None if it would start from nothing.
        """
        manifest = _manifest_of(self.store, self.newest)
        start = reference or NONE
        fork = f"--from {start} makes a fork: what was published since stays published, and is published again"
        repair = f"streamjob log repair {self.store.uri} --newest {manifest} --yes"
        return PublishedBeyondTheLog(
            f"{self.told}: its record of checkpoint {self.newest} is lost with its copy, "
            "it was restored from an older backup, or the job had another location then",
            f"name the location that the job had; or bring back the newest records; {fork}"
            if manifest is None
            else f"{manifest} is there: `{repair}` continues from it, and publishes nothing again; {fork}",
        )


def published_beyond(
    published: Mapping[OperatorUid, CheckpointId], store: Store, last_id: CheckpointId
) -> Beyond | None:
    """Return what sinks have published beyond the log of a job; None if they have published nothing else.

    Args:
        published: the checkpoint that each sink published last.
        store: the store at the job's root.
        last_id: the last id of the log.
    """
    beyond = {uid: newest for uid, newest in published.items() if newest > last_id}
    if not beyond:
        return None
    newest = max(beyond.values())
    who = ", ".join(f"sink {uid} has published checkpoint {each}" for uid, each in beyond.items())
    last = f"ends with checkpoint {last_id}" if last_id else "names no checkpoint"
    return Beyond(newest, f"{who}, and the log at {store.uri} {last}", store)


def _manifest_of(store: Store, checkpoint: CheckpointId) -> Key | None:
    """Return the manifest of a checkpoint; of several, that of the highest epoch, whose owner superseded the others."""
    found = ((keys.manifest_ids(each.key), each.key) for each in store.list(keys.CHECKPOINTS_PREFIX))
    manifests = [(ids[0], key) for ids, key in found if ids is not None and ids[1] == checkpoint]
    return max(manifests)[1] if manifests else None


def recover_output(
    ledger: Ledger,
    outputs: Outputs,
    sinks: Sequence[Mapping[str, Any]],
    surroundings: SinkSurroundings,
    resolution: Resolution,
) -> None:
    """Commit the newest completion, even in sinks that have changed or been removed since.

    Args:
        sinks: their descriptions in its graph.
        surroundings: for building sinks of the completion that the job has changed or removed.
        resolution: the job's starting point. In a fork, an unreadable newest completion is given up.

    Raises:
        CannotRestore: the newest completion cannot be read.
    """
    fork = resolution.fork
    now = {sink["uid"]: sink for sink in sinks}
    then = {sink["uid"]: sink for sink in _newest_graph(ledger, fork).get("sinks", [])}
    unchanged = frozenset(uid for uid, sink in now.items() if then.get(uid, sink) == sink)

    def former(uid: OperatorUid) -> Sink | None:
        return build_sink_from_graph(then[uid], surroundings) if uid in then else None

    recovered = ledger.recover(FormerOutputs(outputs, unchanged, former), now, fork=fork)
    if recovered.uncommittable is not None:
        log.warning("The last completion's output cannot be committed: %s", recovered.uncommittable)
    if resolution.manifest is not None:
        for uid, left in left_staged(resolution.manifest.graph.get("sinks", []), sinks, surroundings):
            log.warning("Sink %s of the snapshot: %s", uid, left)


def _newest_graph(ledger: Ledger, fork: bool) -> Mapping[str, Any]:
    try:
        newest = ledger.newest_manifest()
    except CannotRestore:
        if not fork:
            raise
        return {}
    return newest.graph if newest is not None else {}
