"""Decides which batches of a chain may begin, so that a drained chain ends after a whole batch."""

from __future__ import annotations

from collections.abc import Mapping

from streamjob.ids import BatchId, OperatorUid


class BatchRefused(RuntimeError):
    """A batch comes after the last one that the chain may run: its query ends, and nothing is lost."""


class Gate:
    """Open until it is closed. The emission lock guards it, so a batch is either admitted or refused."""

    def __init__(self) -> None:
        self._last: BatchId | None = None
        self.refused = False

    @property
    def closed(self) -> bool:
        """Whether there is a last batch."""
        return self._last is not None

    def close_behind(self, batch: BatchId) -> None:
        """Refuse batches after this one; a batch that has begun continues."""
        self._last = batch

    def open_for(self, batch: BatchId) -> None:
        """Let one more batch begin."""
        self._last, self.refused = batch, False

    def enter(self, batch: BatchId) -> None:
        """Admit a batch. Raises BatchRefused if it comes after the last one."""
        if self._last is not None and batch > self._last:
            self.refused = True
            raise BatchRefused(
                f"batch {batch} comes behind batch {self._last}, the last one of a chain that is drained"
            )


class EventTime:
    """The event time of a chain's inputs when the drain began, in ms since 1970.

    A drain raises event time to its end. A job that starts from its snapshot continues with the event time from before,
    or all later rows would be late. All chains freeze at one moment: a chain's inputs end one after the other, so its
    readers' event time would otherwise be ahead of the chain's own. An input that has ended by then has ended for good,
    and stays at its end.

    Args:
        inputs: the inputs with event time.
        watermarks: their initial watermarks.
    """

    def __init__(self, inputs: Mapping[OperatorUid, object], watermarks: Mapping[OperatorUid, int]) -> None:
        self._inputs = frozenset(inputs)
        self._watermarks = dict(watermarks)
        self._last: BatchId | None = None

    def freeze_behind(self, batch: BatchId) -> None:
        """Replace the watermarks of later batches by those of the drain."""
        if self._last is None:
            self._last = batch

    def note(self, batch: BatchId, watermarks: Mapping[OperatorUid, int]) -> None:
        """Record the watermarks after a batch."""
        if self._last is None or batch <= self._last:
            for uid, at in watermarks.items():
                self._watermarks[uid] = max(at, self._watermarks.get(uid, at))

    def inputs(self) -> dict[OperatorUid, int]:
        """Return the newest watermark of each input that has had one."""
        return dict(self._watermarks)

    def query(self) -> int | None:
        """Return the watermark for all inputs together; None as long as one has had none."""
        return min(self._watermarks.values()) if self._inputs and self._inputs <= self._watermarks.keys() else None
