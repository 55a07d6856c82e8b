"""Assembles the manifest of a checkpoint from the acknowledgements of its chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamjob.clock import Clock
from streamjob.ids import Epoch, OperatorUid
from streamjob.protocol.coordination import messages as m
from streamjob.sink import NO_TARGET
from streamjob.snapshot.manifest import Manifest


@dataclass(frozen=True, slots=True)
class ManifestAssembler:
    """Creates the manifests of an epoch.

    Args:
        name: the job's name in the store.
        clock: seconds since 1970.
        targets: the ids of what the sinks write to, as far as they are known.
        journals: the ids of the journals of those that publish each batch.
    """

    namespace: str
    name: str
    epoch: Epoch
    graph: Mapping[str, Any]
    clock: Clock
    targets: Mapping[OperatorUid, str] = field(default_factory=dict)
    journals: Mapping[OperatorUid, str] = field(default_factory=dict)

    def __call__(self, action: m.CompleteCheckpoint) -> Manifest:
        """Return the manifest of a checkpoint that all chains have acknowledged."""
        parts = action.acknowledgements.values()
        # Sinks commit in the order of the job file.
        order = {sink["uid"]: place for place, sink in enumerate(self.graph.get("sinks", ()))}
        targets = {uid: target for uid, target in self.targets.items() if target != NO_TARGET}
        sinks = [
            sink.model_copy(update={"target": targets.get(sink.uid), "journal": self.journals.get(sink.uid)})
            for part in parts
            for sink in part.sinks
        ]
        return Manifest(
            job=self.name,
            namespace=self.namespace,
            id=action.id,
            epoch=self.epoch,
            kind=action.properties.kind.value,
            unaligned=any(part.metrics.unaligned for part in parts),
            drained=action.properties.drained,
            triggered=action.triggered,
            completed=self.clock(),
            graph=dict(self.graph),
            operators=tuple(operator for part in parts for operator in part.operators),
            chains=tuple(part.state for part in parts),
            channels=tuple(channel for part in parts for channel in part.channels),
            sources=tuple(source for part in parts for source in part.sources),
            sinks=tuple(sorted(sinks, key=lambda sink: order.get(sink.uid, len(order)))),
        )
