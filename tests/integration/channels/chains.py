"""A stream with the counting that the protocol does for it, and a query that does something with each batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.ids import BatchId, OperatorUid
from streamjob.protocol.emissions.channels import Segment
from streamjob_runtime.chain.channels.stream import LocalSegments, Stream
from streamjob_runtime.chain.event_time.watermarks import InputWatermarks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLENTY = 1 << 40
WITHIN = 60.0


class Transport:
    """A stream that appends written entries, and knows its next index and its watermark."""

    def __init__(self, spark: SparkSession, name: str, directory: Path, base: int) -> None:
        self.stream = Stream(spark, name, LocalSegments(directory), base)
        self.directory = directory
        self.next = base
        self.watermark: int | None = None

    def put(self, frame: DataFrame, batch: int = 0) -> tuple[Segment, ...]:
        """Write and append a batch, an entry for each segment."""
        segments = self.stream.write(frame, BatchId(batch))
        self.stream.extend(self.next, [[segment] for segment in segments])
        self.next += len(segments)
        return segments

    def mark(self) -> None:
        """Append an entry without records."""
        self.stream.append(self.next, ())
        self.next += 1

    def serve(self, *consumers: str, frontier: int | None = None, max_records: int = PLENTY) -> None:
        """Let consumers read up to a frontier, or all there is."""
        for consumer in consumers:
            self.stream.serve(consumer, self.next if frontier is None else frontier, max_records)

    @property
    def files(self) -> list[str]:
        """The names of the files in the stream's directory."""
        return sorted(file.name for file in self.directory.iterdir())


class Chain:
    """A query that runs until its test ends.

    Args:
        frame: its computation.
        checkpoint: Spark's checkpoint directory.
        on_batch: is given each batch; collects its rows if there is none.
        mode: the output mode.
        nodes: the watermark nodes of its inputs, by name.
    """

    def __init__(
        self,
        frame: DataFrame,
        checkpoint: Path,
        *,
        on_batch: Callable[[Chain, DataFrame, int], None] | None = None,
        mode: str = "append",
        nodes: Sequence[str | None] = (),
    ) -> None:
        self.batches: list[list[Any]] = []
        self.watermarks = InputWatermarks(
            frame.sparkSession, {OperatorUid(str(number)): node for number, node in enumerate(nodes) if node}
        )
        self.checkpoint = checkpoint
        handle = on_batch or Chain.collect
        started = threading.Event()
        begun: list[int] = []

        def run(batch: DataFrame, number: int) -> None:
            started.wait(WITHIN)
            if not begun:
                self.watermarks.begin(self.query, {})
                begun.append(number)
            handle(self, batch, number)

        self.query = (
            frame.writeStream.option("checkpointLocation", str(checkpoint)).outputMode(mode).foreachBatch(run).start()
        )
        started.set()

    def collect(self, frame: DataFrame, number: int) -> None:
        """Keep the rows of a batch."""
        self.batches.append([tuple(row) for row in frame.collect()])

    def catch_up(self) -> None:
        """Wait until all readable rows are processed, including their consequences."""
        self.query.processAllAvailable()

    @property
    def rows(self) -> list[Any]:
        """All rows that were kept."""
        return [row for batch in self.batches for row in batch]

    def positions(self) -> list[str]:
        """The offsets of the last batch, as Spark has written them."""
        last = max(
            (file for file in (self.checkpoint / "offsets").iterdir() if file.name.isdigit()), key=lambda f: int(f.name)
        )
        return last.read_text().splitlines()[2:]
