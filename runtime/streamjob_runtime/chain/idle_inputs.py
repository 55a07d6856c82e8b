"""Keeps idle inputs from holding back the watermark of their chain, and of the chains that read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from streamjob.clock import Clock
from streamjob.ids import ChainUid, OperatorUid
from streamjob.protocol.event_time.idleness import Silence, past_idle_inputs
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.emissions.emission_lock import EmissionLock
from streamjob_runtime.chain.event_time.watermarks import InputWatermarks

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class IdleChains:
    """Which chains of a job are idle: all their inputs with event time are. The emission lock guards it.

    Args:
        emission: knows what is on its way between chains.
        possible: whether any input of the job may become idle.
    """

    def __init__(self, emission: EmissionLock, *, possible: bool = False) -> None:
        self._emission = emission
        self.possible = possible
        self._silent: dict[ChainUid, bool] = {}
        self._read: dict[ChainUid, tuple[ChainUid, ...]] = {}

    def note(self, chain: ChainUid, *, silent: bool, read: Iterable[ChainUid]) -> None:
        """Record whether the sources of a chain with event time are idle, and the chains that it reads."""
        with self._emission.lock:
            self._silent[chain], self._read[chain] = silent, tuple(read)

    def is_silent(self, producer: ChainUid, reader: ChainUid) -> bool:
        """Return whether a chain is idle or has ended, and a reader has read all its rows."""
        with self._emission.lock:
            if self._emission.backlog(producer, reader).records:
                return False
            if self._emission.has_ended(producer):
                return True
            return (
                self._silent.get(producer, False)
                and self._emission.running(producer) is None
                and all(self.is_silent(each, producer) for each in self._read[producer])
            )


class IdleInputs:
    """The idle inputs of one chain.

    Args:
        clock: seconds.
    """

    def __init__(
        self, chain: ChainUid, dataflow: Dataflow, watermarks: InputWatermarks, others: IdleChains, clock: Clock
    ) -> None:
        self._chain = chain
        self._inputs = tuple(dataflow.watermark_nodes)
        self._channels = {uid: each for uid, each in dataflow.channels.items() if uid in dataflow.watermark_nodes}
        self._watermarks = watermarks
        self._others = others
        self._clock = clock
        self._silence = Silence(dataflow.idle_timeouts)
        self.idle: frozenset[OperatorUid] = frozenset()
        """The inputs that are idle."""

    @property
    def watches(self) -> bool:
        """Whether an input may become idle."""
        return self._others.possible and bool(self._inputs)

    def pass_in_batch(self, query: StreamingQuery, brought: Iterable[OperatorUid], begun: float) -> None:
        """Let the watermark pass the idle inputs at the end of the running batch.

        Args:
            query: the query; the action that has read all rows of the batch is over.
            brought: the inputs whose rows it has read.
            begun: when the batch had found its rows, in seconds.
        """
        self._listen(brought, begun)
        if self.idle:
            self._watermarks.advance(query, self._past(self._watermarks.preview(query)))

    def pass_between_batches(self, query: StreamingQuery) -> None:
        """Advance the watermark past the idle inputs while the query has found no rows to read; call it repeatedly."""
        self._listen((), self._clock())
        if self.idle:
            self._watermarks.advance_waiting(query, self._past(self._watermarks.read(query)))

    def _listen(self, brought: Iterable[OperatorUid], now: float) -> None:
        idle = self._silence.listen(brought, now)
        silent = {uid for uid, producer in self._channels.items() if self._others.is_silent(producer, self._chain)}
        self.idle = idle | silent
        sources = [each for each in self._inputs if each not in self._channels]
        self._others.note(self._chain, silent=idle.issuperset(sources), read=self._channels.values())

    def _past(self, watermarks: Mapping[OperatorUid, int]) -> dict[OperatorUid, int]:
        return past_idle_inputs(self._inputs, watermarks, self.idle)
