"""Takes event time back to where it stood before a drain, in a checkpoint that was restored.

A drain flushes with event time at its end, and Spark keeps the highest watermark that a query has had, so everything
that comes after the restore would be late. In Flink watermarks are no part of a snapshot, so that a job goes on with
the event time of what it reads then; with the one from before, late rows stay late as well.
"""

from __future__ import annotations

import json
from pathlib import Path

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.text_files import write_anew


def rewind_event_time(checkpoint: Path, batch: BatchId, watermark_ms: int) -> None:
    """Lower the watermark of a committed batch, and the one that it announces; nothing raises them.

    A rewritten file is a new one: a hard link to the old content, such as a hold's, is left as it is.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running.
        batch: the last committed batch.
        watermark_ms: in ms since 1970.

    Raises:
        UnreadableCheckpointFile: an entry is not one that Spark 4.3 writes.
        FileNotFoundError: there is no entry of the batch.
    """
    for log, field in (("offsets", "batchWatermarkMs"), ("commits", "nextBatchWatermarkMs")):
        file = checkpoint / log / str(batch)
        version, separator, rest = file.read_text("utf-8").partition("\n")
        text, *others = rest.split("\n")
        try:
            entry = json.loads(text)
            entry[field] = min(int(entry[field]), watermark_ms)
        except (ValueError, KeyError, TypeError) as error:
            raise UnreadableCheckpointFile(file, repr(error)) from None
        lines = [json.dumps(entry, separators=(",", ":"), ensure_ascii=False), *others]
        write_anew(file, version + separator + "\n".join(lines))
