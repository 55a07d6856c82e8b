"""The benchmark of incremental checkpoints: its handwritten files, and the evaluation of its measurements."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from bench.incremental_model import Aged, ByAge, BySize, Incremental, Restored, Sized, Step
from bench.incremental_report import render
from bench.model import Circumstances
from bench.spark_files import BATCHES, PARTITIONS, SparkFiles

from streamjob_runtime.spark.checkpoint_dir import files_for

RESTORED = Restored(
    resolve=0.1,
    download=0.4,
    requests={"GetObject": 46, "ListObjectsV2": 4},
    objects=37,
    packs=7,
    stored_bytes=30_000_000,
    living_bytes=20_000_000,
)


def step(put_bytes: int) -> Step:
    return Step(
        hold=0.01,
        upload=0.02,
        complete=0.03,
        delete=0.04,
        cpu=0.05,
        changed_bytes=400_000,
        put_bytes=put_bytes,
        manifest_bytes=284_000,
        requests={"PutObject": 5, "ListObjectsV2": 2, "DeleteObjects": 2},
    )


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


def test_the_report_says_what_was_measured_and_how_busy_the_machine_was() -> None:
    where = Circumstances(command="make bench-increments", begun="then", ended="now", machine="2 × CPU", versions={})
    sized = Sized(
        files=1000,
        history=3600,
        whole_history_bytes=420_000,
        load_before=1.5,
        first=step(20_000_000),
        steps=(step(500_000), step(600_000), step(700_000)),
        restored=RESTORED,
    )
    aged = Aged(
        files=1000,
        checkpoints=360,
        repacking=True,
        load_before=2.5,
        put_bytes=9_000_000,
        seconds=30.0,
        cpu=20.0,
        restored=RESTORED,
    )

    text = render(
        Incremental(size=BySize(circumstances=where, jobs=(sized,)), age=ByAge(circumstances=where, jobs=(aged, aged)))
    )

    assert "median 2.5, most 2.5" in text
    assert "| 1,000 | 1 h | 0.40 | 0.60 | 284 | 0.42 | 5 | 4 | 0.010 | 0.020 | 0.030 | 0.05 |" in text
    assert "| 1,000 | 1 h | 20.0 | 37 | 7 | 46 | 4 | 0.10 | 0.40 |" in text
    assert "| rewritten | 37 | 7 | 46 | 20.0 | 30.0 | 0.50 | 9 | 30 | 20 |" in text
    assert "0.3 MB, 284 bytes a file" in text
