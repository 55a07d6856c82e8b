"""The stream of one chain: the files of its batches, and the index in the JVM by which its consumers read.

This module makes no decisions: the callers decide which entries exist, how far a consumer may read, and what is no
longer needed. The index is in memory only, because no local state outlives an epoch.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from streamjob.ids import BatchId
from streamjob.protocol.emissions.channels import Segment
from streamjob_runtime.chain.event_time.watermarks import with_event_time, without_event_time
from streamjob_runtime.spark.gateway import java_frame, our_java
from streamjob_runtime.spark.jvm import CLASSES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT = CLASSES["ChannelSource"]

SEGMENT_RECORDS = 10_000
_SEGMENT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """One consumer's reading of a stream.

    `node` is its watermark node, None for a stream without a watermark. `lost` is whether its rows have lost the event
    time that the inputs of its chain had.
    """

    frame: DataFrame
    node: str | None
    lost: bool = False


class SegmentFiles(Protocol):
    """The files of one stream's segments; `location` is their directory as Spark's tasks name it."""

    @property
    def location(self) -> str: ...

    def written(self, executors: Mapping[str, str]) -> None:
        """Note by which of Spark's executors new segments were written."""
        ...

    def place(self, name: str) -> str:
        """Return where Spark should read a segment, in the words of its scheduler; empty if anywhere."""
        ...

    def drop(self, names: Sequence[str]) -> None:
        """Delete segments that nobody needs any more."""
        ...


class LocalSegments:
    """Segments in one directory, which all tasks see.

    Args:
        directory: the directory; created if it is missing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.location = str(directory)
        directory.mkdir(parents=True, exist_ok=True)

    def written(self, executors: Mapping[str, str]) -> None:
        """Do nothing: there is one place only."""

    def place(self, name: str) -> str:
        """Return the empty place."""
        return ""

    def drop(self, names: Sequence[str]) -> None:
        """Delete segments."""
        for name in names:
            (self._directory / name).unlink(missing_ok=True)


class Stream:
    """The output of one chain for the chains that read it.

    Args:
        stream_id: the stream's name within the JVM; unique among open streams.
        files: where its segments are.
        base: the index of the first entry.
        segment_records: maximum number of records per segment.
    """

    def __init__(
        self,
        spark: SparkSession,
        stream_id: str,
        files: SegmentFiles,
        base: int = 0,
        *,
        segment_records: int = SEGMENT_RECORDS,
    ) -> None:
        self._spark = spark
        self._id = stream_id
        self._files = files
        self._segment_records = segment_records
        self._index = our_java(spark).Channels
        self._writer = our_java(spark).SegmentWriter
        self._token = uuid.uuid4().hex[:12]
        self._index.open(stream_id, base)

    def write(self, frame: DataFrame, batch: BatchId) -> tuple[Segment, ...]:
        """Compute a batch in one Spark job and write its rows, but do not make them readable yet.

        Returns:
            Its segments in the order of the rows; empty if there are no rows.
        """
        prefix = f"{batch}-{self._token}"
        rows = java_frame(frame)
        lines: str = self._writer.write(rows, self._files.location, prefix, self._segment_records, _SEGMENT_BYTES)
        written = [line.split(" ") for line in lines.splitlines()]
        self._files.written({name: executor for name, _, _, executor in written})
        return tuple(
            Segment(name=name, records=int(records), length=int(length)) for name, records, length, _ in written
        )

    def append(self, index: int, segments: Sequence[Segment]) -> None:
        """Append an entry, without records if it has no segments; `index` must be the next one."""
        self.extend(index, [segments])

    def extend(self, index: int, entries: Sequence[Sequence[Segment]]) -> None:
        """Append several entries at once; the first one gets `index`."""
        if entries:
            self._index.append(self._id, index, "\n".join(",".join(map(self._text, segments)) for segments in entries))

    def serve(self, consumer: str, frontier: int, max_records: int) -> None:
        """Release the entries below `frontier` to a consumer, in batches of `max_records` or of one entry with more."""
        self._index.serve(self._id, consumer, frontier, max_records)

    def drop(self, below: int) -> None:
        """Forget the entries below an index, and delete their files."""
        names: str = self._index.drop(self._id, below)
        self._files.drop(names.splitlines())

    def reader(
        self,
        consumer: str,
        schema: StructType,
        event_time: Sequence[str] | None = None,
        *,
        begin: int = 0,
        first_records: int = 0,
    ) -> Reading:
        """Return a consumer's view of the stream.

        Args:
            consumer: the reader, as passed to `serve`.
            schema: the schema of the producer's output.
            event_time: exactly the columns that have event time; the delay is the producer's. Only
                `InputWatermarks.advance` moves the watermark of the reading, never the rows. None for no watermark.
            begin: the index of the consumer's first entry, if it has never read the stream.
            first_records: the most records of the first batch, or one entry with more; 0 without a limit.
        """
        options = {
            "stream": self._id,
            "consumer": consumer,
            "directory": self._files.location,
            "begin": str(begin),
            "firstRecords": str(first_records),
        }
        frame = self._spark.readStream.format(FORMAT).options(**options).schema(without_event_time(schema)).load()
        if event_time is None:
            return Reading(frame, None)
        return Reading(*with_event_time(frame, schema, event_time))

    def close(self) -> None:
        """Remove the stream from the JVM; its files stay."""
        self._index.close(self._id)

    def _text(self, segment: Segment) -> str:
        return f"{segment.name} {segment.records} {segment.length} {self._files.place(segment.name)}".rstrip()
