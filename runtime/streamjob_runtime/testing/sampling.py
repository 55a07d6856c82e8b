"""Reads some rows of a job's real sources, without a trace in them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.errors import InvalidInput
from streamjob.job.connectors.kafka_end import ENDING_OFFSETS
from streamjob.job.connectors.kafka_source import FORMAT as KAFKA
from streamjob.job.connectors.options import option, without
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.spec import SourceSpec
from streamjob.job.planning.dead_letters import DEAD_LETTER
from streamjob_runtime.chain.sources.discovered_files import DiscoveredFiles
from streamjob_runtime.chain.sources.file_records import described
from streamjob_runtime.chain.sources.source_rows import read_stream
from streamjob_runtime.kafka.client import with_defaults
from streamjob_runtime.spark.gateway import java_errors
from streamjob_runtime.spark.text.error_text import reason
from streamjob_runtime.spark.text.text_records import unread_record_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STARTING = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_LOOK_SECONDS = 0.02
_ONLY_CONTINUOUS = frozenset({"rate", "socket"})
"""Sources that have no end at any moment, so that a query cannot read what is there and end."""


def _from_the_beginning(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of a Kafka source without its end, which Spark takes for batches only, and with a beginning."""
    latest = (option(options, "startingOffsets") or "").strip().lower() == "latest"
    kept = without(options, ENDING_OFFSETS, *(("startingOffsets",) if latest else ()))
    if all(option(kept, name) is None for name in _STARTING):
        kept["startingOffsets"] = "earliest"
    return kept


class UnreadableSource(InvalidInput):
    """A source of a job cannot be read."""


def sample(
    spark: SparkSession,
    loaded: LoadedJob,
    source: SourceSpec,
    limit: int,
    directory: Path,
    within: float,
) -> list[Mapping[str, Any]]:
    """Return the first rows of a source, in the columns of its format.

    A Kafka topic is read from its beginning, unless the job begins at offsets or times; no end counts.

    Args:
        source: one of its sources.
        limit: the number of rows.
        directory: an unused path for the query's checkpoint.
        within: the longest time to wait for rows, in seconds; then those that came are returned.

    Raises:
        UnreadableSource: Spark cannot read it, or a record is broken.
        MissingVariable: an option refers to an environment variable that is not set.
    """
    options = loaded.options(source)
    if source.format == KAFKA:
        options = with_defaults(_from_the_beginning(options))
    taken: list[Mapping[str, Any]] = []

    def take(batch: DataFrame, _number: int) -> None:
        if len(taken) < limit:
            taken.extend(batch.limit(limit - len(taken)).toArrow().to_pylist())

    try:
        read = source.model_copy(update={"on_error": "drop"}) if source.on_error == DEAD_LETTER else source
        files = DiscoveredFiles.of(spark, source, options)
        frame = read_stream(spark, read, source.format, options, files)
        if files is not None:
            files.offer_sample()
        writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(directory))
        if source.format not in _ONLY_CONTINUOUS:
            writer = writer.trigger(availableNow=True)
        query = writer.start()
        deadline = time.monotonic() + within
        try:
            while query.isActive and len(taken) < limit and time.monotonic() < deadline:
                time.sleep(_LOOK_SECONDS)
        finally:
            query.stop()
        if (error := query.exception()) is not None and len(taken) < limit:
            raise error
    except java_errors() as error:
        record = unread_record_in(str(error))
        why = reason(error) if record is None else record.is_not(described(source))
        raise UnreadableSource(
            f"source {source.name!r} cannot be read: {why}", "correct the source, or give rows for it"
        ) from error
    return taken
