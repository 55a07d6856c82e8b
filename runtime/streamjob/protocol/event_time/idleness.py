"""Decides which inputs of a chain are idle, and how the watermark passes them.

An idle input is left out of the minimum of the watermarks. Its own watermark is raised to the minimum of the others.
This is the chain's watermark, which never goes back, so leaving the input out and raising its watermark are the same.
Snapshots keep the raised watermark: after a restore, nothing depends on whether the input was idle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from streamjob.ids import OperatorUid
from streamjob.protocol.emissions.channels import END_OF_TIME_MS


class Silence:
    """How long each input has brought no row. It starts at zero in each epoch: rows may have arrived in between.

    Args:
        timeouts: the seconds of silence after which an input is idle, by input.
    """

    def __init__(self, timeouts: Mapping[OperatorUid, float]) -> None:
        self._timeouts = dict(timeouts)
        self._heard: dict[OperatorUid, float] = {}

    def listen(self, inputs: Iterable[OperatorUid], now: float) -> frozenset[OperatorUid]:
        """Return the inputs that are idle.

        Args:
            inputs: those that have brought rows.
            now: when it was found out that they had rows and the others had none, in seconds.
        """
        brought = frozenset(inputs)
        for uid in self._timeouts:
            if uid in brought or uid not in self._heard:
                self._heard[uid] = now
        return frozenset(uid for uid, timeout in self._timeouts.items() if now - self._heard[uid] >= timeout)


def past_idle_inputs(
    inputs: Collection[OperatorUid], watermarks: Mapping[OperatorUid, int], idle: Collection[OperatorUid]
) -> dict[OperatorUid, int]:
    """Return the watermarks to which idle inputs are raised, in ms since 1970; empty if all inputs are idle or ended.

    Args:
        inputs: the inputs with event time.
        watermarks: those that they have, in ms since 1970.
        idle: the idle ones.
    """
    active = [each for each in inputs if each not in idle]
    if not active or any(each not in watermarks for each in active):
        return {}
    smallest = min(watermarks[each] for each in active)
    # If the others have ended, all that is to come comes from the idle ones.
    if smallest >= END_OF_TIME_MS:
        return {}
    return {each: smallest for each in inputs if each in idle and watermarks.get(each, smallest - 1) < smallest}
