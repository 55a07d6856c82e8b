"""A source that stands in the query twice: Spark lists its position twice, and may keep its files once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import Life, finish, life_in, running
from tests.jobs import files, job_file, sink, sql

from streamjob.errors import ExitCode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]


def life(directory: Path, *, bounded: bool) -> Life:
    sources = [files(name, directory / name, "value STRING", "text", bounded=bounded) for name in ("a", "b")]
    every = sql("all", ["a", "b"], "SELECT * FROM a UNION ALL SELECT * FROM a UNION ALL SELECT * FROM b")
    sinks = [sink("all", "text", directory / "out")]
    return life_in(directory, job_file(every, sources=sources, sinks=sinks, checkpointing={"interval": "1h"}))


def write(directory: Path, name: str, *numbers: int) -> None:
    (directory / name).mkdir(exist_ok=True)
    for number in numbers:
        (directory / name / f"{number}.txt").write_text(f"{name}{number}\n")


def published(directory: Path) -> list[str]:
    return sorted(line for file in (directory / "out").glob("part-*") for line in file.read_text().splitlines())


def test_what_stands_behind_it_goes_on_after_a_restart_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a", 0, 1)
    write(tmp_path, "b", 0, 1, 2, 3)
    endless = life(tmp_path, bounded=False)
    with running(spark, endless) as first:
        first.wait_for(lambda: first.batch >= 3, "all files are read")
        assert first.stop() is ExitCode.OK

    write(tmp_path, "b", 4)
    with running(spark, endless) as second:
        before = second.batch
        second.wait_for(lambda: second.batch > max(before, 3), "the file that came later is read")
        assert second.stop() is ExitCode.OK

    assert published(tmp_path) == ["a0", "a0", "a1", "a1", "b0", "b1", "b2", "b3", "b4"]


def test_it_comes_to_its_end(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a", 0, 1)
    write(tmp_path, "b", 0, 1, 2, 3)

    finish(spark, life(tmp_path, bounded=True))

    assert published(tmp_path) == ["a0", "a0", "a1", "a1", "b0", "b1", "b2", "b3"]
