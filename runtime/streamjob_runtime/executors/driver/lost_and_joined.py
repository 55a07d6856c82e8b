"""Decides what a change of the executors means for an epoch: it fails, goes on, or ends behind a checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Callable

from streamjob.ids import ChainUid
from streamjob_runtime.executors.driver.fleet import Executor, Fleet, FleetListener, Lost
from streamjob_runtime.executors.driver.state import StateOnExecutors


class EpochOnExecutors(FleetListener):
    """Follows the executors of one epoch, from the moment when it may place state until `close`.

    Args:
        fail: called with the chain that has lost state or rows, and the reason.
        restart: is asked for another epoch, with the reason.
        settle_seconds: how long no further executor has joined when state moves to those that did.
    """

    def __init__(
        self,
        fleet: Fleet,
        state: StateOnExecutors,
        fail: Callable[[ChainUid, str], None],
        restart: Callable[[str], None],
        settle_seconds: float,
    ) -> None:
        self._fleet = fleet
        self._state = state
        self._fail = fail
        self._restart = restart
        self._settle_seconds = settle_seconds
        self._lock = threading.Lock()
        self._settling: threading.Timer | None = None
        self._closed = False

    def joined(self, executor: Executor) -> None:
        """Give it state soon, with all that join meanwhile."""
        with self._lock:
            if self._closed:
                return
            if self._settling is not None:
                self._settling.cancel()
            self._settling = threading.Timer(self._settle_seconds, self.settled)
            self._settling.daemon = True
            self._settling.start()

    def settled(self) -> None:
        """Ask for another epoch if executors have joined that would get state in it."""
        if idle := self._state.idle():
            self._restart(f"state moves to {_named(idle)}")

    def leaving(self, executor: Executor) -> None:
        """Move its files behind a checkpoint; release it at once if it has none, and gets none."""
        if self._state.needs(executor.id):
            self._restart(f"state moves away from {_named([executor])}")
        else:
            self._fleet.release(executor.id)

    def lost(self, lost: Lost) -> None:
        """Fail the chains that have lost state, or rows that nobody has read."""
        for chain, what in self._state.lost_with(lost.id).items():
            self._fail(chain, f"Executor {lost.id} ({lost.name}) is lost with {what}: {lost.reason}")

    def close(self) -> None:
        """Follow them no longer."""
        with self._lock:
            self._closed = True
            if self._settling is not None:
                self._settling.cancel()


class BetweenEpochs(FleetListener):
    """Follows the executors while no epoch runs."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def leaving(self, executor: Executor) -> None:
        """Release it: a checkpoint has its state."""
        self._fleet.release(executor.id)


def _named(executors: tuple[Executor, ...] | list[Executor]) -> str:
    return ", ".join(f"executor {each.id} ({each.name})" for each in executors)
