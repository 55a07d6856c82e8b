"""Commits: every committable that a completion of the log names is committed exactly once, by any process.

At most one completion, the newest, may have uncommitted committables: the next one is not attempted before. So a
claimer commits the committables of the newest completion below its claim again, which is idempotent, and knows that all
earlier ones are committed. Later output staged by earlier epochs is after the cut, and is aborted.

A suspended owner that wakes up does no harm: the log names the output that it commits, and its successor has already
committed it. The output that it aborts belongs to epochs before its own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from streamjob.errors import CannotRestore
from streamjob.ids import CheckpointId, Epoch, OperatorUid
from streamjob.protocol.log.ownership import Claim
from streamjob.protocol.manifests.stored_manifests import read_completed
from streamjob.snapshot.manifest import SinkState
from streamjob.store.effects import StoreEffect


class SinkEffect:
    """The protocol's requests to a sink."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Commit(SinkEffect):
    """Commit the staged output of all sinks for a completed checkpoint, in their order; idempotent. Reply: None."""

    checkpoint: CheckpointId
    output: tuple[SinkState, ...]


@dataclass(frozen=True, slots=True)
class Abort(SinkEffect):
    """Discard a sink's uncommitted output of epochs before `before`, never of later ones. Reply: None."""

    sink: OperatorUid
    before: Epoch


@dataclass(frozen=True, slots=True)
class Recovered:
    """The output committed again; `uncommittable` is the reason if the newest committables could not be."""

    checkpoint: CheckpointId | None
    uncommittable: str | None = None


def commit(checkpoint: CheckpointId, sinks: Iterable[SinkState]) -> Generator[Commit, object, None]:
    """Commit a completed checkpoint's committables in all sinks; repeat it if a sink failed.

    Nothing else completes until it succeeds, and `Claim.committed` has been called.
    """
    if output := tuple(sinks):
        yield Commit(checkpoint, output)


def recover(
    claim: Claim,
    sinks: Iterable[OperatorUid],
    *,
    fork: bool = False,
) -> Generator[StoreEffect | SinkEffect, object, Recovered]:
    """Commit the newest completion below a claim again, and abort output after its cut: the first step of an epoch.

    For a finished job, this is all that is left to do.

    Args:
        sinks: the sinks of the job that starts; those of the newest completion may differ.
        fork: the job does not start from the newest completion, which may therefore be unreadable. Its committables are
            then given up, and `uncommittable` has the reason.

    Raises:
        SnapshotMissing, SnapshotCorrupt, UnknownManifestVersion: the newest completion cannot be read.
    """
    checkpoint: CheckpointId | None = None
    uncommittable: str | None = None
    known = list(sinks)
    record = claim.uncommitted
    if record is not None:
        assert record.id is not None
        assert record.manifest is not None
        try:
            manifest = yield from read_completed(record)
        except CannotRestore as error:
            if not fork:
                raise
            uncommittable = error.what
        else:
            yield from commit(manifest.id, manifest.sinks)
            checkpoint = record.id
            known.extend(sink.uid for sink in manifest.sinks)
        claim.committed(record.id)
    for sink in dict.fromkeys(known):
        yield Abort(sink, claim.epoch)
    return Recovered(checkpoint, uncommittable)
