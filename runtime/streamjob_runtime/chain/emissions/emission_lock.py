"""The emission lock of a job, the state that it guards, and the resulting channels.

`streamjob.protocol.emissions.cuts` decides the effects of an emission or a cut; here they reach the streams of readers,
and waiting threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from itertools import groupby
from operator import itemgetter

from streamjob.errors import StreamJobError
from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.job.model.spec import ChannelPolicy
from streamjob.protocol.emissions.channels import Backlog
from streamjob.protocol.emissions.cuts import Batch, ChainCut, Effects, Emissions
from streamjob_runtime.chain.channels.stream import Stream

OnCut = Callable[[CheckpointId, ChainCut], None]

_LOOK_SECONDS = 0.5


class LoopTooFull(StreamJobError):
    """The circulating rows of a loop exceed its limit."""


class EmissionLock:
    """One lock for the whole job, held to emit a batch or to cut chains.

    Args:
        emissions: the guarded state; nothing else accesses it.

    `on_cut` may be set before anything runs: it receives each cut, under the lock, and must not block.
    """

    def __init__(self, emissions: Emissions, policy: ChannelPolicy | None = None) -> None:
        self.on_cut: OnCut = lambda checkpoint, cut: None
        self._emissions = emissions
        self._streams: dict[ChainUid, Stream] = {}
        self._policy = policy or ChannelPolicy()
        self._changed = threading.Condition(threading.RLock())
        self._pins: dict[tuple[CheckpointId, ChainUid], set[ChainUid]] = {}
        self._droppable: dict[ChainUid, int] = {}
        self._blocked_seconds: dict[ChainUid, float] = {}
        self._held = False

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The lock, for steps that no emission may interrupt; it is reentrant."""
        return self._changed

    def open_channels(self, streams: Mapping[ChainUid, Stream]) -> None:
        """Let every chain read to its limit, given the streams of chains with readers; called before they start."""
        with self._changed:
            self._streams.update(streams)
            for producer, consumer in self._emissions.channels:
                self._serve(producer, consumer, self._emissions.frontier(producer, consumer))
            self._execute(self._emissions.open())

    def hold(self) -> None:
        """Hold back all batches until `release`."""
        with self._changed:
            self._held = True

    def release(self) -> None:
        """Let batches begin. Idempotent."""
        with self._changed:
            self._held = False
            self._changed.notify_all()

    def wait_while_held(self, over: Callable[[], bool]) -> None:
        """Block until batches may begin, or until `over`."""
        with self._changed:
            while self._held and not over():
                self._changed.wait(_LOOK_SECONDS)

    def begin(self, chain: ChainUid, batch: BatchId) -> None:
        """Record that a batch runs."""
        with self._changed:
            self._emissions.begin(chain, batch)

    def running(self, chain: ChainUid) -> BatchId | None:
        """Return the batch that a chain runs; None between two batches."""
        with self._changed:
            return self._emissions.running(chain)

    def await_base(self) -> None:
        """Let nothing be published before a checkpoint has completed; before anything runs."""
        with self._changed:
            self._emissions.await_base()

    def run_again(self, chain: ChainUid, last: BatchId) -> None:
        """Let a snapshot that stops the job wait until a chain has emitted a batch; before anything runs."""
        with self._changed:
            self._emissions.run_again(chain, last)

    def wait_to_publish(self, chain: ChainUid, over: Callable[[], bool]) -> bool:
        """Block until the batch that a chain runs may be published; return False if it is `over`."""
        with self._changed:
            while not self._emissions.publish(chain):
                if over():
                    return False
                self._changed.wait(_LOOK_SECONDS)
            return True

    def wait_until_covered(
        self, chain: ChainUid, batch: BatchId, over: Callable[[], bool], ask: Callable[[], None]
    ) -> None:
        """Block until a completed checkpoint covers an emitted batch, or until `over`; meanwhile `ask` for one."""
        with self._changed:
            while self._emissions.last_covered(chain) < batch and not over():
                ask()
                self._changed.wait(_LOOK_SECONDS)

    def emit(self, chain: ChainUid, batch: Batch, over: Callable[[], bool] = lambda: True) -> None:
        """Make a batch the chain's last emitted one.

        After the cut of a snapshot that stops the job, block until the snapshot has failed, or until `over`. Raises the
        errors of `Emissions.emit`, and LoopTooFull.
        """
        with self._changed:
            self._wait_while_sealed(chain, over)
            self._execute(self._emissions.emit(chain, batch))
            self._check_quota(chain)

    def committed(self, chain: ChainUid, batch: BatchId) -> None:
        """Record that Spark has committed an emitted batch. Raises the errors of `Emissions.committed`."""
        with self._changed:
            self._execute(self._emissions.committed(chain, batch))

    def end(self, chain: ChainUid, over: Callable[[], bool] = lambda: True, *, drained: bool = False) -> None:
        """Report to the chain's readers that no more rows come, at least before a restore; blocks like `emit`."""
        with self._changed:
            self._wait_while_sealed(chain, over)
            self._execute(self._emissions.end(chain, drained=drained))

    def has_ended(self, chain: ChainUid) -> bool:
        """Return whether the chain sends no more rows, at least before a restore."""
        with self._changed:
            return self._emissions.has_ended(chain)

    def is_drained(self, chain: ChainUid) -> bool:
        """Return whether the chain is done in this epoch only."""
        with self._changed:
            return self._emissions.is_drained(chain)

    def last_emitted(self, chain: ChainUid) -> BatchId:
        """Return the chain's last emitted batch, NO_BATCH if there is none."""
        with self._changed:
            return self._emissions.last_emitted(chain)

    def trigger(self, checkpoint: CheckpointId, *, seal: bool, unaligned: bool) -> None:
        """Cut every chain that waits for no barrier, or with `unaligned` every chain."""
        with self._changed:
            self._execute(self._emissions.trigger(checkpoint, seal=seal, unaligned=unaligned))

    def switch(self, checkpoint: CheckpointId) -> None:
        """Cut the chains that still wait for a barrier of the checkpoint where they are."""
        with self._changed:
            self._execute(self._emissions.switch(checkpoint))

    def complete(self, checkpoint: CheckpointId) -> None:
        """Release the data of a completed checkpoint."""
        with self._changed:
            self._execute(self._emissions.complete(checkpoint))

    def abort(self, checkpoint: CheckpointId) -> None:
        """Forget a checkpoint's cuts."""
        with self._changed:
            for pin in [pin for pin in self._pins if pin[0] == checkpoint]:
                del self._pins[pin]
            self._execute(self._emissions.abort(checkpoint))
            self._drop_unpinned()

    def unpin(self, checkpoint: CheckpointId, chain: ChainUid) -> None:
        """Give up the in-flight segments of a cut: they are held elsewhere."""
        with self._changed:
            self._pins.pop((checkpoint, chain), None)
            self._drop_unpinned()

    def has_read_on(self, chain: ChainUid) -> bool:
        """Return whether the chain has consumed all that its channels have so far."""
        with self._changed:
            return self._emissions.has_read_on(chain)

    def input_ended(self, chain: ChainUid) -> bool:
        """Return whether the chain has consumed all future content of its channels."""
        with self._changed:
            return self._emissions.input_ended(chain)

    def input_drained(self, chain: ChainUid) -> bool:
        """Return whether the chain's channels have ended in this epoch only."""
        with self._changed:
            return self._emissions.input_drained(chain)

    def watermark_at(self, producer: ChainUid, position: int) -> int | None:
        """Return the watermark after a chain's output up to a position, in ms since 1970."""
        with self._changed:
            return self._emissions.watermark_at(producer, position)

    def backlog(self, producer: ChainUid, consumer: ChainUid | None = None) -> Backlog:
        """Return the unconsumed data of a consumer, by default the slowest."""
        with self._changed:
            return self._emissions.backlog(producer, consumer)

    def blocked_seconds(self, chain: ChainUid) -> float:
        """Return the seconds that a chain has waited for its readers so far: its backpressure."""
        return self._blocked_seconds.get(chain, 0.0)

    def wait_for_room(self, chain: ChainUid, over: Callable[[], bool]) -> None:
        """Block while the chain's readers have too much unread data, or until `over`."""
        if chain not in self._streams:
            return
        begun = time.monotonic()
        with self._changed:
            while not self._has_room(chain) and not over():
                self._changed.wait(_LOOK_SECONDS)
                self._blocked_seconds[chain] = self._blocked_seconds.get(chain, 0.0) + time.monotonic() - begun
                begun = time.monotonic()

    def wake(self) -> None:
        """Let waiting threads check again whether it is over."""
        with self._changed:
            self._changed.notify_all()

    def _wait_while_sealed(self, chain: ChainUid, over: Callable[[], bool]) -> None:
        while self._emissions.is_sealed(chain) and not over():
            self._changed.wait(_LOOK_SECONDS)

    def _check_quota(self, chain: ChainUid) -> None:
        loop = self._emissions.loop(chain)
        stored, quota = self._emissions.stored_bytes(chain), self._policy.feedback_bytes
        if stored > quota and self._emissions.feeds_back(chain):
            raise LoopTooFull(
                f"The loop of {', '.join(loop)} has {stored} bytes on their way back from chain {chain!r}, and "
                f"channels.feedbackBytes allows {quota}",
                "let fewer rows go round, such as only those that change something, or raise channels.feedbackBytes",
            )

    def _has_room(self, chain: ChainUid) -> bool:
        backlog = self._emissions.backlog(chain)
        records = self._policy.capacity_records
        return backlog.bytes < self._policy.capacity_bytes and (records is None or backlog.records < records)

    def _execute(self, effects: Effects) -> None:
        # One call for related entries: a large batch has a hundred, and the whole job waits.
        for producer, entries in groupby(effects.appended, key=itemgetter(0)):
            appended = [entry for _, entry in entries]
            self._streams[producer].extend(appended[0].index, [entry.segments for entry in appended])
        for (producer, consumer), frontier in effects.frontiers.items():
            self._serve(producer, consumer, frontier)
        if effects.checkpoint is not None:
            for cut in effects.cuts:
                own = {cut.chain} if any(each.entries for each in cut.fed_back.values()) else set[ChainUid]()
                if pinned := own.union(cut.in_flight):
                    self._pins[(effects.checkpoint, cut.chain)] = pinned
                self.on_cut(effects.checkpoint, cut)
        for producer, below in effects.dropped.items():
            self._droppable[producer] = max(below, self._droppable.get(producer, 0))
        self._drop_unpinned()
        self._changed.notify_all()

    def _serve(self, producer: ChainUid, consumer: ChainUid, frontier: int) -> None:
        self._streams[producer].serve(consumer, frontier, self._policy.max_batch_records)

    def _drop_unpinned(self) -> None:
        pinned = set[ChainUid]().union(*self._pins.values())
        for producer in [producer for producer in self._droppable if producer not in pinned]:
            self._streams[producer].drop(self._droppable.pop(producer))
