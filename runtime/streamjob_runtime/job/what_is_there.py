"""Tells when an epoch has read what was there when it began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streamjob.clock import Clock
from streamjob.ids import BatchId, ChainUid
from streamjob.protocol.coordination import messages as m
from streamjob_runtime.chain.chain import Chain
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock

LOOK_SECONDS = 0.2
"""Between two looks."""


class WhatIsThere:
    """Follows chains whose sources end with what is there.

    Args:
        chains: all that run.
        emission: has their channels.
        clock: seconds since 1970.
    """

    def __init__(self, chains: Mapping[ChainUid, Chain], emission: EmissionLock, clock: Clock) -> None:
        self.is_read = False
        """Whether the chains have read all of it, and have nothing left to compute."""
        self._chains = chains
        self._emission = emission
        self._clock = clock
        self._next_look = 0.0
        # By chain, the last batch behind which it was seen to wait: a query waits for moments only.
        self._waited: dict[ChainUid, BatchId] = {}
        self._held = False
        self._cut: Mapping[ChainUid, Sequence[str]] = {}
        self._covered: Mapping[ChainUid, Sequence[str]] | None = None

    def checkpoint_started(self) -> None:
        """Note what the sources have read at least when a checkpoint cuts them."""
        self._cut = self._positions()

    def checkpoint_completed(self) -> None:
        """The last checkpoint that was started has completed."""
        self._covered = self._cut

    def look(self) -> m.Event | None:
        """Look at the chains from time to time, until all is read; return what the coordinator has to know.

        Each barrier makes the readers of channels run a batch. If checkpoints followed each other closely, the chains
        would never come to rest; so none is wanted while there is nothing that the last one does not cover.
        """
        now = self._clock()
        if now < self._next_look:
            return None
        self._next_look = now + LOOK_SECONDS
        if self._rests():
            self.is_read = True
            return m.RestartRequested(now=now, message="all that was there is read")
        held = self._covered is not None and not self._has_unread() and self._positions() == self._covered
        if held == self._held:
            return None
        self._held = held
        return m.PeriodicHeld(now=now, held=held)

    def _rests(self) -> bool:
        for uid, chain in self._chains.items():
            emitted = chain.last_emitted
            if chain.waits():
                self._waited[uid] = emitted
        with self._emission.lock:
            return all(
                self._waited.get(uid) == chain.last_emitted and self._emission.has_read_on(uid)
                for uid, chain in self._chains.items()
            )

    def _has_unread(self) -> bool:
        return any(
            self._emission.backlog(producer, uid).records
            for uid, chain in self._chains.items()
            for producer in chain.dataflow.channels.values()
        )

    def _positions(self) -> Mapping[ChainUid, Sequence[str]]:
        return {uid: chain.source_positions() for uid, chain in self._chains.items()}
