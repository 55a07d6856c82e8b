"""Stores where an epoch's sources begin before anything is read.

Where a source begins may depend on the moment. If the job died before its first checkpoint, its next start would begin
elsewhere, and lose what was read and what came meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from streamjob.clock import Clock
from streamjob.ids import Epoch, TriggerId
from streamjob.protocol.coordination import messages as m
from streamjob.protocol.coordination.triggers import SnapshotKind, TriggerState
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.job.coordination import Coordination


class FirstPositions:
    """Holds all batches of an epoch until a checkpoint has completed. `release` may be called from any thread.

    Args:
        emission: holds the batches.
        coordination: takes the checkpoint.
        post: passes an event to the coordinator.
        clock: seconds since 1970.
    """

    def __init__(
        self,
        epoch: Epoch,
        emission: EmissionLock,
        coordination: Coordination,
        post: Callable[[m.Event], None],
        clock: Clock,
    ) -> None:
        self._trigger_id = TriggerId(f"first-positions-of-epoch-{epoch}")
        self._emission = emission
        self._coordination = coordination
        self._post = post
        self._clock = clock
        self._released = False
        emission.hold()

    def chains_run(self) -> None:
        """Ask for the checkpoint: all chains run. Further calls do nothing."""
        kind = SnapshotKind.CHECKPOINT
        self._post(m.TriggerRequested(now=self._clock(), trigger_id=self._trigger_id, kind=kind, unaligned=True))

    def begun(self, checkpoint: m.StartCheckpoint) -> None:
        """Release the chains if a checkpoint needs it: chains that are held read no barriers."""
        if not checkpoint.properties.unaligned:
            self._emission.release()

    def release(self) -> None:
        """Release the chains: a checkpoint has completed, or all chains have finished."""
        self._released = True
        self._emission.release()

    def failure(self) -> str | None:
        """Return why the positions could not be stored, so that the epoch has to end; None while that is not so."""
        if self._released:
            return None
        status = self._coordination.request(self._trigger_id)
        if status is None or status.state is not TriggerState.FAILED:
            return None
        if self._coordination.is_stopping() is not False and not self._coordination.is_draining():
            # The snapshot of the stop has the positions, too; that of a drain waits for the chains, which are held.
            return None
        return f"the positions at which the sources begin could not be stored: {status.failure}"
