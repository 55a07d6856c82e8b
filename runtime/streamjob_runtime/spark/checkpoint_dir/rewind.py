"""Sets event time back to its value before a drain, in a restored checkpoint.

A drain flushes with event time at its end. Spark keeps a query's highest watermark, so all rows after the restore would
be late. In Flink, watermarks are not part of a snapshot, and a job continues with the event time of its new input. Here
it continues with the watermark from before the drain, so rows that were late stay late.
"""

from __future__ import annotations

import json
from pathlib import Path

from streamjob.ids import BatchId
from streamjob_runtime.spark.checkpoint_dir.errors import UnreadableCheckpointFile
from streamjob_runtime.spark.checkpoint_dir.text_files import write_anew


def rewind_event_time(checkpoint: Path, batch: BatchId, watermark_ms: int) -> None:
    """Lower the watermark of a committed batch and the one that it announces; never raise them.

    A rewritten file is a new file; hard links to the old content, such as a hold's, do not change.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running.
        batch: the last committed batch.
        watermark_ms: the watermark in ms since 1970.

    Raises:
        UnreadableCheckpointFile: an entry does not have the format of Spark 4.3.
        FileNotFoundError: the batch has no entry.
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
