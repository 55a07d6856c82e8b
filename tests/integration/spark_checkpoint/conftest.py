"""A Spark session for all tests of this folder, and a lab that runs queries over files that it controls."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.job_files import job_files

from streamjob.ids import Epoch, Key
from streamjob.snapshot.keys import shared_file
from streamjob.snapshot.manifest import FileRef
from streamjob.store.local import LocalStore
from streamjob_runtime.checkpointing.upload.packing import known_files
from streamjob_runtime.checkpointing.upload.uploader import Uploader
from streamjob_runtime.restoring.download import download
from streamjob_runtime.spark.checkpoint_dir.hold import Hold
from streamjob_runtime.spark.checkpoint_dir.relocate import relocate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[str, ...]
SCHEMA = "k string, ts timestamp, v bigint"
AVAILABLE_NOW = {"availableNow": True}
TRIES = 3


_FAST = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "true",
    "spark.sql.streaming.minBatchesToRetain": "2",
}


@pytest.fixture(scope="package")
def spark(streamjob_spark: SparkSession) -> Iterator[SparkSession]:
    """Spark with streamjob's settings; state is snapshotted and purged as fast as that goes."""
    former = {key: streamjob_spark.conf.get(key, None) for key in _FAST}
    for key, value in _FAST.items():
        streamjob_spark.conf.set(key, value)
    yield streamjob_spark
    for key, before in former.items():
        if before is None:
            streamjob_spark.conf.unset(key)
        else:
            streamjob_spark.conf.set(key, before)


@dataclass
class Run:
    """The result of one run of a query."""

    rows: dict[int, list[Row]] = field(default_factory=dict)
    progress: list[dict[str, Any]] = field(default_factory=list)

    def all_rows(self) -> list[Row]:
        return sorted(row for rows in self.rows.values() for row in rows)

    def operators(self, batch: int) -> list[dict[str, Any]]:
        """`stateOperators` of a batch."""
        return [p for p in self.progress if p["batchId"] == batch][-1]["stateOperators"]  # type: ignore[no-any-return]


class Lab:
    """Input files, checkpoint directories and a store below one directory."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.store = LocalStore(root / "store")
        self._files = 0
        self._directories = 0
        self._last_refs: tuple[FileRef, ...] = ()

    def directory(self, name: str = "checkpoint") -> Path:
        """A directory that does not exist yet."""
        self._directories += 1
        return self.root / f"{name}-{self._directories}"

    def location(self, directory: Path) -> str:
        """The URI by which Spark opens a directory."""
        return job_files(self.spark).location(directory)

    def put(self, rows: Sequence[tuple[str, str, int]], name: str = "in") -> None:
        """Add an input file; the files are read in the order in which they were added."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        lines = [json.dumps({"k": k, "ts": f"2024-01-01T{ts}Z", "v": v}) for k, ts, v in rows]
        temporary = self.root / ".new"
        temporary.write_text("\n".join(lines))
        os.utime(temporary, (1_700_000_000 + self._files, 1_700_000_000 + self._files))
        temporary.rename(folder / f"{self._files:04d}.json")
        self._files += 1

    def input(self, name: str = "in", delay: str | None = "5 seconds") -> DataFrame:
        """The input as a stream of one file a batch."""
        (self.root / name).mkdir(exist_ok=True)
        reader = self.spark.readStream.format("json").schema(SCHEMA).option("maxFilesPerTrigger", 1)
        frame = reader.load(str(self.root / name))
        return frame if delay is None else frame.withWatermark("ts", delay)

    def batch_input(self, name: str = "in") -> DataFrame:
        """The input as a table."""
        return self.spark.read.format("json").schema(SCHEMA).load(str(self.root / name))

    def run(
        self,
        frame: DataFrame,
        checkpoint: Path,
        *,
        mode: str = "append",
        before_batch: Callable[[int], None] | None = None,
        trigger: dict[str, Any] | None = None,
    ) -> Run:
        """Run a query until its input is used up.

        Args:
            before_batch: called with a batch's number before it runs: the batch before it is committed then.
        """
        for attempt in range(1, TRIES + 1):
            try:
                return self._run(frame, checkpoint, mode, before_batch, trigger or AVAILABLE_NOW)
            except Exception as error:
                # A Python worker that starts too slowly on a loaded machine fails the query before any batch has run.
                if attempt == TRIES or "connect back" not in str(error):
                    raise
        raise AssertionError

    def _run(
        self,
        frame: DataFrame,
        checkpoint: Path,
        mode: str,
        before_batch: Callable[[int], None] | None,
        trigger: dict[str, Any],
    ) -> Run:
        result = Run()

        def collect(batch: DataFrame, number: int) -> None:
            if before_batch is not None:
                before_batch(number)
            result.rows[number] = sorted(tuple(str(value) for value in row) for row in batch.collect())

        writer = (
            frame.writeStream.option("checkpointLocation", self.location(checkpoint))
            .outputMode(mode)
            .foreachBatch(collect)
        )
        query = writer.trigger(**trigger).start()
        try:
            if trigger == AVAILABLE_NOW:
                query.awaitTermination()
            else:
                query.processAllAvailable()
            result.progress = [json.loads(progress.json) for progress in query.recentProgress]
        finally:
            query.stop()
        return result

    def restore(self, hold: Hold) -> Path:
        """Take a hold through the store into a fresh directory, as a restore does."""
        uploader = Uploader(self.store)
        try:
            self._last_refs = uploader.upload(hold, known_files(self._last_refs), partial(shared_file, Epoch(1)))
        finally:
            uploader.close()
        target = self.directory("restored")
        download(self._last_refs, lambda name: (self.store, Key(name)), target)
        relocate(target, self.location(target))
        return target


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> Lab:
    """A lab of its own for each test."""
    return Lab(spark, tmp_path)
