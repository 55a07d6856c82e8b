"""Rewrites the state of restored chains for another number of partitions, and verifies it before use.

Spark's own offline repartitioning does the work: it appends a batch without data whose state has the new partitions. It
runs in the epoch's fresh directory, so an interrupted rewrite starts again from the snapshot. Its success is verified:
the rows and checksums of every state store are compared with the previous ones, and each row must be in the partition
in which the query will look for its key.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.comparison.rewrite_checks import (
    JOIN_FORMAT,
    REWRITABLE,
    Contents,
    StatefulOperator,
    StateNotRewritable,
    check_rewritable,
    check_unchanged,
)
from streamjob.errors import CannotRestore
from streamjob.ids import BatchId, ChainUid
from streamjob_runtime.migrating.stored_rows import contents, key_of, stored_rows, total
from streamjob_runtime.spark.checkpoint_dir.logs import (
    OperatorMetadata,
    last_committed,
    read_commit,
    read_offsets,
    read_operator_metadata,
)
from streamjob_runtime.spark.checkpoint_dir.operator_metadata import operator_names, store_schemas
from streamjob_runtime.spark.checkpoint_dir.text_files import write_anew
from streamjob_runtime.spark.gateway import repartition_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"

log = logging.getLogger("streamjob")


class NeedsOneDisk(CannotRestore):
    """State has to be rewritten or rearranged before the start, and it is on the disks of several processes."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "run the job without --executors until it has a checkpoint")


@dataclass(frozen=True, slots=True)
class RestoredChain:
    """A chain with a restored checkpoint, whose query is not running.

    Args:
        location: the URI by which Spark opens that.
        batch: the last committed batch.
    """

    uid: ChainUid
    checkpoint: Path
    location: str
    batch: BatchId


def rewrite_state(spark: SparkSession, chains: Iterable[RestoredChain], partitions: int) -> Mapping[ChainUid, BatchId]:
    """Rewrite the state of all chains; return the batch from which each rewritten one continues.

    Nothing is written until it is known that all of it can be rewritten.

    Args:
        chains: the chains; those with the right number of partitions stay unchanged.

    Raises:
        StateNotRewritable: an operator's state cannot be rewritten.
        StateRewrittenWrongly: rewritten state differs from the original.
    """
    states = [_State(spark, chain) for chain in chains if _partitions(chain) not in (None, partitions)]
    for state in states:
        check_rewritable(state.operators(), partitions)
    return {state.chain.uid: state.rewrite(partitions) for state in states}


def check_beforehand(chains: Iterable[RestoredChain], partitions: int) -> None:
    """Check from the descriptions of the state alone whether `rewrite_state` could succeed.

    Raises:
        StateNotRewritable: an operator's state cannot be rewritten.
    """
    for chain in chains:
        if _partitions(chain) in (None, partitions):
            continue
        conf = read_offsets(chain.checkpoint, chain.batch).metadata.get("conf", {})
        operators = [
            StatefulOperator(
                label=f"{name} {number} of chain {chain.uid!r}",
                name=name,
                join_format=int(conf.get(_JOIN_FORMAT, JOIN_FORMAT)),
                keyed=all(key for key, _ in store_schemas(chain.checkpoint / "state" / str(number)).values()),
            )
            for number, name in operator_names(chain.checkpoint, chain.batch).items()
        ]
        check_rewritable(operators, partitions)


def keep_partitions(chains: Iterable[RestoredChain], partitions: int) -> None:
    """Continue chains with a number of partitions where other processes have the state, which stays as it is.

    Raises:
        StateNotRewritable: a chain's state has another number of partitions, and an operator's cannot be rewritten.
        NeedsOneDisk: a chain's state has another number of partitions.
    """
    chains = tuple(chains)
    check_beforehand(chains, partitions)
    for chain in chains:
        had = _partitions(chain)
        if had in (None, partitions):
            continue
        if read_commit(chain.checkpoint, chain.batch).state_ids:
            raise NeedsOneDisk(f"The state of chain {chain.uid!r} has {had} partitions and not {partitions}")
        _record(chain, partitions)


class _State:
    """The state of one chain."""

    def __init__(self, spark: SparkSession, chain: RestoredChain) -> None:
        self._spark = spark
        self.chain = chain
        self._offsets = read_offsets(chain.checkpoint, chain.batch)
        ids = read_commit(chain.checkpoint, chain.batch).state_ids or {}
        self._metadata = {each: read_operator_metadata(chain.checkpoint, each, chain.batch) for each in sorted(ids)}

    def operators(self) -> list[StatefulOperator]:
        return [
            StatefulOperator(
                label=self._label(number),
                name=metadata.name,
                join_format=int(self._offsets.metadata.get("conf", {}).get(_JOIN_FORMAT, JOIN_FORMAT)),
                keyed=metadata.name not in REWRITABLE or self._is_keyed(number, metadata),
            )
            for number, metadata in self._metadata.items()
        ]

    def rewrite(self, partitions: int) -> BatchId:
        """Rewrite it; return the batch with the new state."""
        chain, had = self.chain, self._offsets.partitions
        assert had is not None, "only a chain with another number of partitions is rewritten"
        if not self._metadata:
            _record(chain, partitions)
            return chain.batch
        log.warning("Rewriting the state of chain %s from %d partitions to %d", chain.uid, had, partitions)
        begun = time.monotonic()
        before = {number: self._contents(number, chain.batch, had) for number in self._metadata}
        batch = self._repartition(partitions)
        rows = sum(
            check_unchanged(self._label(number), before[number], self._contents(number, batch, partitions))
            for number in self._metadata
        )
        log.warning(
            "The state of chain %s has %d partitions: %d rows, verified, in %.1f s",
            chain.uid,
            partitions,
            rows,
            time.monotonic() - begun,
        )
        return batch

    def _repartition(self, partitions: int) -> BatchId:
        from pyspark.errors import PySparkException

        try:
            repartition_state(self._spark, self.chain.location, partitions)
        except PySparkException as error:
            raise StateNotRewritable(
                f"Spark cannot rewrite the state of chain {self.chain.uid!r} for {partitions} partitions: "
                f"{str(error).partition(chr(10))[0]}",
                "remove maxParallelism to continue with the number of the state",
            ) from error
        batch = last_committed(self.chain.checkpoint)
        assert batch is not None
        return batch

    def _label(self, number: int) -> str:
        return f"{self._metadata[number].name} {number} of chain {self.chain.uid!r}"

    def _is_keyed(self, number: int, metadata: OperatorMetadata) -> bool:
        location, batch = self.chain.location, self.chain.batch
        stores = (stored_rows(self._spark, location, number, store, batch) for store in metadata.stores)
        return all(key_of(frame) for frame in stores)

    def _contents(self, number: int, batch: BatchId, partitions: int) -> dict[tuple[str, str], Contents]:
        # Rows are in other partitions afterwards, so that only what all of a store has can be compared.
        found: dict[tuple[str, str], Contents] = {}
        for store in self._metadata[number].stores:
            measured = contents(stored_rows(self._spark, self.chain.location, number, store, batch), partitions)
            for family in {family for family, _ in measured}:
                found[store, family] = total([each for (of, _), each in measured.items() if of == family])
        return found


def _partitions(chain: RestoredChain) -> int | None:
    return read_offsets(chain.checkpoint, chain.batch).partitions


def _record(chain: RestoredChain, partitions: int) -> None:
    """Change the number fixed by the checkpoint of a stateless chain; a hard link to the old entry does not change."""
    entry = read_offsets(chain.checkpoint, chain.batch)
    write_anew(chain.checkpoint / "offsets" / str(chain.batch), entry.with_partitions(partitions).render())
