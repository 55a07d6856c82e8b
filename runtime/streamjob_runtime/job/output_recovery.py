"""The first step of an epoch: commits the rest of the log's last completion, and discards later output."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from streamjob.errors import CannotRestore
from streamjob.ids import OperatorUid
from streamjob.job.plan import Plan
from streamjob.protocol.restore import Resolution
from streamjob.sink import Sink
from streamjob_runtime.chain.outputs import FormerOutputs, Outputs
from streamjob_runtime.checkpointing.ledger import Ledger
from streamjob_runtime.sinks.factory import SinkSurroundings, build_sink, build_sink_from_graph
from streamjob_runtime.sinks.left_staged import left_staged
from streamjob_runtime.sinks.meter import SinkMeters

log = logging.getLogger("streamjob")


def open_outputs(plan: Plan, surroundings: SinkSurroundings, meters: SinkMeters) -> Outputs:
    """Return the sinks of all chains, opened and metered. Raises the errors of `build_sink`."""
    sinks = {sink.uid: build_sink(sink, surroundings) for chain in plan.chains for sink in chain.sinks}
    return Outputs(sinks, meters)


def recover_output(
    ledger: Ledger,
    outputs: Outputs,
    sinks: Sequence[Mapping[str, Any]],
    surroundings: SinkSurroundings,
    resolution: Resolution,
) -> None:
    """Commit the newest completion, even in sinks that have changed or been removed since.

    Args:
        ledger: the claimed log.
        outputs: the job's sinks.
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
