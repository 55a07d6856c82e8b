"""The benchmark of incremental checkpoints: its handwritten files are those of Spark."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from bench.spark_files import BATCHES, PARTITIONS, SparkFiles

from streamjob_runtime.spark.checkpoint_dir import files_for


@pytest.mark.parametrize("history", [1, 60, 137])
def test_files_that_are_written_by_hand_are_those_of_a_checkpoint(tmp_path: Path, history: int) -> None:
    spark = SparkFiles(tmp_path / "checkpoint", 80, history, Random(1))
    first = files_for(spark.directory, spark.batch)
    spark.advance()

    files = files_for(spark.directory, spark.batch)

    ssts = [path for path in files if path.endswith(".sst")]
    changelogs = [path for path in files if path.endswith(".changelog")]
    assert spark.batch == history - 1 + BATCHES
    assert len(ssts) == 80
    assert len(changelogs) == PARTITIONS * (BATCHES // 2 - 1)
    assert len(set(ssts) - set(first)) == 2 * PARTITIONS
    compacted = (spark.batch + 1) // 10 * 10 - 1
    assert {path for path in files if path.startswith("sources/")} == {
        f"sources/0/{compacted}.compact",
        *(f"sources/0/{number}" for number in range(compacted + 1, spark.batch + 1)),
    }
    assert all((spark.directory / path).exists() for path in files)
