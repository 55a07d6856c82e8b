"""Decides which batches of a chain may begin: one that drains ends behind a whole batch, not in the middle of one."""

from __future__ import annotations

from collections.abc import Mapping

from streamjob.ids import BatchId, OperatorUid


class BatchRefused(RuntimeError):
    """A batch came behind the last one that the chain is to run: its query ends with it, and nothing is lost."""


class Gate:
    """Open until it is closed; the emission lock guards it, so that a batch is let in or refused, never both."""

    def __init__(self) -> None:
        self._last: BatchId | None = None
        self.refused = False

    @property
    def closed(self) -> bool:
        """Whether there is a last batch."""
        return self._last is not None

    def close_behind(self, batch: BatchId) -> None:
        """Let no batch begin behind this one; one that has begun goes on."""
        self._last = batch

    def open_for(self, batch: BatchId) -> None:
        """Let one more batch begin."""
        self._last, self.refused = batch, False

    def enter(self, batch: BatchId) -> None:
        """Let a batch begin. Raises BatchRefused if it comes behind the last one."""
        if self._last is not None and batch > self._last:
            self.refused = True
            raise BatchRefused(
                f"batch {batch} comes behind batch {self._last}, the last one of a chain that is drained"
            )


class EventTime:
    """How far event time had come in a chain's inputs when the drain began, in ms since 1970.

    A drain takes event time to its end. Who goes on from its snapshot goes on with the event time from before, or
    everything that still comes would be late. All chains freeze at one moment: the inputs of a chain come to their end
    one after the other, which takes its readers further than the chain itself would go on from. An input at its end by
    then has ended for good, and stays there.

    Args:
        inputs: those that have event time.
        watermarks: where they begin.
    """

    def __init__(self, inputs: Mapping[OperatorUid, object], watermarks: Mapping[OperatorUid, int]) -> None:
        self._inputs = frozenset(inputs)
        self._watermarks = dict(watermarks)
        self._last: BatchId | None = None

    def freeze_behind(self, batch: BatchId) -> None:
        """Let the watermarks of later batches be those of the drain."""
        if self._last is None:
            self._last = batch

    def note(self, batch: BatchId, watermarks: Mapping[OperatorUid, int]) -> None:
        """Take in the watermarks behind a batch."""
        if self._last is None or batch <= self._last:
            for uid, at in watermarks.items():
                self._watermarks[uid] = max(at, self._watermarks.get(uid, at))

    def inputs(self) -> dict[OperatorUid, int]:
        """Return the newest watermark of each input that has had one."""
        return dict(self._watermarks)

    def query(self) -> int | None:
        """Return the watermark that holds for all inputs; None as long as one has had none."""
        return min(self._watermarks.values()) if self._inputs and self._inputs <= self._watermarks.keys() else None
