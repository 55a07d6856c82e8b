"""Tells when a chain has come to the end of its input, and whether its flush has left nothing to fire.

See `streamjob_runtime.spark.checkpoint_dir.forced_batch` for what a flush is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.ids import BatchId, ChainUid
from streamjob_runtime.chain.dataflow import Dataflow
from streamjob_runtime.chain.ending.end_of_input import QueryEndedEarly, first_unread, read_end
from streamjob_runtime.chain.sources.bounded_files import BoundedEnd
from streamjob_runtime.spark.checkpoint_dir.forced_batch import is_flush, needs_another_flush
from streamjob_runtime.spark.checkpoint_dir.logs import read_offsets
from streamjob_runtime.spark.gateway import progress_reports

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_FEW_FILES = 1000
"""A batch finds out in a few milliseconds whether all of as many files are read."""


def is_at_the_end(dataflow: Dataflow, checkpoint: Path, batch: BatchId, previous: BatchId) -> bool:
    """Return whether a query has read everything up to a batch, the batch included.

    False may be wrong while batches bring data: whether nothing is left of many files would take each batch too long.

    Args:
        dataflow: the query, which reads bounded sources only.
        batch: the batch, which is planned.
        previous: the batch before it.
    """
    brings_data = read_offsets(checkpoint, batch).sources != read_offsets(checkpoint, previous).sources
    if brings_data and _files_to_read(dataflow) > _FEW_FILES:
        return False
    return first_unread(dataflow, checkpoint, batch) is None


def _files_to_read(dataflow: Dataflow) -> int:
    ends = map(read_end, dataflow.ends.values())
    return sum(len(end.files) for end in ends if isinstance(end, BoundedEnd))


def has_run_flush(checkpoint: Path, begun_behind: BatchId, last: BatchId) -> bool:
    """Return whether a query has run the flush by itself, behind the end of its source or of its channels.

    The end of a channel raises its watermark, and Spark runs a batch with it. A flush before a restore does not
    count: timers that were set in it may wait for another one.

    Args:
        begun_behind: the batch behind which the chain began.
        last: its last committed batch.
    """
    if last <= begun_behind + 1:
        return False
    return is_flush(checkpoint, last) and not is_flush(checkpoint, BatchId(last - 1))


def has_more_to_fire(chain: ChainUid, query: StreamingQuery, flush: BatchId) -> bool:
    """Return whether a flush has set timers or timeouts that only another flush fires.

    Args:
        query: the query that ran the flush.

    Raises:
        QueryEndedEarly: the query has not run it.
    """
    for report in reversed(progress_reports(query)):
        if report.batchId() == flush:
            progress: dict[str, Any] = json.loads(report.json())
            if "addBatch" in progress["durationMs"]:
                return needs_another_flush(progress["stateOperators"])
    raise QueryEndedEarly(f"The query of chain {chain!r} ended before it ran its flush, batch {flush}")
