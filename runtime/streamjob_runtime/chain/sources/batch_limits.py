"""Lets each batch of a chain read as much as takes about the target duration.

`streamjob.protocol.batch_size` decides. A source gets its first limit as one of its options, and later ones through
Java, in the unit that it counts in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from streamjob.ids import OperatorUid
from streamjob.job.connectors.kafka_source import FORMAT as KAFKA
from streamjob.job.connectors.lake_source import SOURCES
from streamjob.job.connectors.options import without
from streamjob.job.model.formats import FILE_FORMATS
from streamjob.protocol.batch_size import BatchSize, Bounds
from streamjob_runtime.spark.gateway import java_query, our_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FIRST_RECORDS = 10_000
FIRST_BYTES = 16 * 1024 * 1024
"""The share of a task slot in the first batch of a query."""
_MAX_OFFSETS, _MIN_OFFSETS = "maxOffsetsPerTrigger", "minOffsetsPerTrigger"
_MAX_FILES, _MAX_BYTES = "maxFilesPerTrigger", "maxBytesPerTrigger"


def with_first_limit(form: str, options: Mapping[str, str], slots: int) -> tuple[dict[str, str], Bounds | None]:
    """Return a source's options with the limit of its first batch, and the bounds of all; None if they do not change.

    A limit that the options set is the highest one.

    Args:
        form: the format of the source, in the job's words.
        options: of the source.
    """
    given = {name.lower(): value for name, value in options.items()}
    if form == KAFKA:
        most, least = _number(given, _MAX_OFFSETS), _number(given, _MIN_OFFSETS) or 1
        first = max(_first(FIRST_RECORDS * slots, most), least)
        return _replaced(options, _MAX_OFFSETS, first), Bounds(first, most, least)
    if form not in FILE_FORMATS | SOURCES.keys():
        return dict(options), None
    if _MAX_FILES.lower() in given:
        most = _number(given, _MAX_FILES)
        return dict(options), None if most is None else Bounds(most, most)
    most = _number(given, _MAX_BYTES)
    if most is None and _MAX_BYTES.lower() in given:
        return dict(options), None
    first = _first(FIRST_BYTES * slots, most)
    return _replaced(options, _MAX_BYTES, first), Bounds(first, most)


def channel_bounds(max_records: int, slots: int) -> Bounds:
    """Return the bounds of what a chain reads from one of its channels."""
    return Bounds(_first(FIRST_RECORDS * slots, max_records), max_records)


def _first(usual: int, most: int | None) -> int:
    return usual if most is None else min(usual, most)


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower(), "").strip()
    return int(text) if text.isdecimal() and int(text) > 0 else None


def _replaced(options: Mapping[str, str], name: str, value: int) -> dict[str, str]:
    return {**without(options, name), name: str(value)}


class BatchLimits:
    """The limits of one query's batches; used on the query's thread.

    Args:
        sources: uids in the order of Spark's positions.
        bounds: how much each may bring to a batch, if that changes.
        target: seconds that a batch is to take.
    """

    def __init__(
        self,
        spark: SparkSession,
        query: StreamingQuery,
        sources: Sequence[OperatorUid],
        bounds: Mapping[OperatorUid, Bounds],
        target: float,
    ) -> None:
        self._java = our_java(spark).BatchLimits
        self._query = java_query(query)
        self._sources = tuple(sources)
        self._size = BatchSize(target, bounds)

    def ran(self, seconds: float) -> None:
        """Set the limits of the next batch; call it in a batch's foreachBatch function, after the batch's action.

        Args:
            seconds: how long the action took.
        """
        before = self._size.limits
        digits, _, memory = self._java.limited(self._query).partition(",")
        limited = {uid for uid, digit in zip(self._sources, digits, strict=True) if digit == "1"}
        self._size.ran(seconds, limited & before.keys(), memory_is_short=memory == "1")
        limits = self._size.limits
        if limits != before:
            self._java.set(self._query, ",".join(str(limits.get(uid, "")) for uid in self._sources))
