"""Tells when an epoch has read what was there when it began."""

from __future__ import annotations

from collections.abc import Mapping

from streamjob.ids import BatchId, ChainUid
from streamjob_runtime.chain.chain import Chain
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock

LOOK_SECONDS = 0.2
"""Between two looks."""


class WhatIsThere:
    """Follows chains whose sources end with what is there.

    Args:
        chains: all that run.
        emission: has their channels.
    """

    def __init__(self, chains: Mapping[ChainUid, Chain], emission: EmissionLock) -> None:
        self._chains = chains
        self._emission = emission
        # By chain, the last batch behind which it was seen to wait: a query waits for moments only.
        self._waited: dict[ChainUid, BatchId] = {}

    def is_read(self) -> bool:
        """Return whether the chains have read all of it, and have nothing left to compute."""
        for uid, chain in self._chains.items():
            emitted = chain.last_emitted
            if chain.waits():
                self._waited[uid] = emitted
        with self._emission.lock:
            return all(
                self._waited.get(uid) == chain.last_emitted and self._emission.has_read_on(uid)
                for uid, chain in self._chains.items()
            )
