"""A source of files reads each file once, under its own name, whatever its time; and tells of those it leaves out."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, life_in, running
from tests.integration.runtime.graphs import job, output, rows_of
from tests.integration.runtime.stories import NEVER
from tests.jobs import sql

from streamjob.job.model.spec import SourceSpec, TableSpec
from streamjob_runtime.chain.sources.bounded_files import FileReader, fix_end
from streamjob_runtime.chain.sources.source_rows import read_stream
from streamjob_runtime.job.bad_input_errors import UnusableFileName
from streamjob_runtime.tables.reading import batch_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "n STRING"
NAMES = [
    "a*.json", "a1.json", "a2.json", "b{x,y}.json", "bx.json", "c[1].json", "c1.json", "d?.json", "d1.json",
    "e\\x.json", "ex.json", "f%20.json", "g .json", "h#x.json", "i^x.json", "j,x.json", "k{.json", "l[.json",
    'm"x.json', "nü.json",
]  # fmt: skip
LONG_AGO = 1_000_000_000
"""Seconds since 1970, in 2001."""


def write(directory: Path, *names: str, text: str | None = None) -> None:
    for name in names:
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"n": text or name}) + "\n")


def read(spark: SparkSession, path: str, scratch: Path, schema: str = SCHEMA, **options: str) -> tuple[list[Any], Any]:
    """Read what is there and was not read with this scratch directory; return the rows, and the source's figures."""
    source = SourceSpec.model_validate({"name": "files", "format": "json", "schema": schema})
    rows: list[Any] = []
    query = (
        read_stream(spark, source, "json", {"path": path, **options})
        .writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(scratch))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert query.lastProgress is not None
    return rows, json.loads(query.lastProgress.json)["sources"][0].get("metrics", {})


def names_of(rows: Sequence[Any]) -> list[str]:
    return sorted(row.n for row in rows)


def test_each_file_is_read_once_whatever_its_name(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "in"
    write(place, *NAMES)

    rows, _ = read(spark, str(place), tmp_path / "one")
    few_at_once, _ = read(spark, str(place), tmp_path / "few", maxFilesPerTrigger="3")
    end = fix_end(spark, FileReader("json", SCHEMA, {}), str(place))
    bounded, _ = read(spark, end.pattern, tmp_path / "bounded", basePath=end.root)

    assert names_of(rows) == names_of(few_at_once) == names_of(bounded) == sorted(NAMES)


def test_files_in_directories_of_partitions_are_read_once_with_their_values(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = ["day=1/o*.json", "day=1/o1.json", "day=2%2F/p?.json"]
    write(tmp_path / "in", *names)

    rows, _ = read(spark, str(tmp_path / "in"), tmp_path / "one", "n STRING, day STRING")

    assert sorted((row.n, row.day) for row in rows) == list(zip(names, ["1", "1", "2/"], strict=True))


def test_files_beside_directories_of_partitions_are_read_with_null_for_the_columns_of_these(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "in"
    write(place, "day=1/one.json", "beside.json", "day=2/two.json")
    expected = {("day=1/one.json", 1), ("beside.json", None), ("day=2/two.json", 2)}
    table = {"name": "table", "schema": "n STRING, day INT", "options": {"path": str(place)}}
    spark.read.json(str(place / "beside.json")).write.parquet(str(tmp_path / "parquet"))
    spark.read.json(str(place / "day=1")).write.parquet(str(tmp_path / "parquet" / "day=1"))

    rows, _ = read(spark, str(place), tmp_path / "one", "n STRING, day INT")
    end = fix_end(spark, FileReader("json", "n STRING, day INT", {}), str(place))
    bounded, _ = read(spark, end.pattern, tmp_path / "bounded", "n STRING, day INT", basePath=end.root)
    of_table = batch_frame(spark, TableSpec.model_validate({**table, "format": "json"}), {"path": str(place)})
    parquet = TableSpec.model_validate({**table, "format": "parquet"})
    of_parquet = batch_frame(spark, parquet, {"path": str(tmp_path / "parquet")})

    assert sorted(map(str, rows)) == sorted(map(str, bounded))
    assert {(row.n, row.day) for row in rows} == expected
    assert {(row.n, row.day) for row in of_table.collect()} == expected
    assert {(row.n, row.day) for row in of_parquet.collect()} == {("beside.json", None), ("day=1/one.json", 1)}


def test_a_file_that_comes_with_an_old_time_is_read_and_one_that_changed_is_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, scratch = tmp_path / "in", tmp_path / "checkpoint"
    write(place, "a.json", "b.json", "c*.json")
    assert names_of(read(spark, str(place), scratch)[0]) == ["a.json", "b.json", "c*.json"]

    write(place, "old.json", "new.json")
    os.utime(place / "old.json", (LONG_AGO, LONG_AGO))
    assert (names_of(rows := read(spark, str(place), scratch)[0]), len(rows)) == (["new.json", "old.json"], 2)

    write(tmp_path, "other.json", text="replaced")
    (tmp_path / "other.json").rename(place / "a.json")
    os.utime(place / "c*.json", (LONG_AGO, LONG_AGO))
    write(place, "last.json")
    rows, figures = read(spark, str(place), scratch)
    assert names_of(rows) == ["last.json"]
    assert figures == {"filesChanged": "2", "changedFile": f"file:{place}/a.json"}


def test_a_file_beyond_the_greatest_age_is_told_and_one_that_was_read_is_not_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, scratch = tmp_path / "in", tmp_path / "checkpoint"
    hour = 3600

    def write_at(time: int, *names: str) -> None:
        write(place, *names)
        for name in names:
            os.utime(place / name, (time, time))

    write_at(LONG_AGO, "kept.json", "touched.json")
    assert names_of(read(spark, str(place), scratch, maxFileAge="1h")[0]) == ["kept.json", "touched.json"]
    write_at(LONG_AGO + 2 * hour, "new.json")
    assert read(spark, str(place), scratch, maxFileAge="1h")[1] == {}

    write_at(LONG_AGO, "old.json")
    write_at(LONG_AGO + 2 * hour, "touched.json", "last.json")
    rows, figures = read(spark, str(place), scratch, maxFileAge="1h")

    assert names_of(rows) == ["last.json"]
    assert figures == {
        "filesChanged": "1",
        "changedFile": f"file:{place}/touched.json",
        "filesTooOld": "1",
        "tooOldFile": f"file:{place}/old.json",
    }


def test_of_a_directory_that_was_made_again_other_files_are_read_and_those_of_the_same_names_are_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    place, scratch = tmp_path / "in", tmp_path / "checkpoint"
    write(place, "a.json", "b.json")
    read(spark, str(place), scratch)

    shutil.rmtree(place)
    write(place, "a.json", "c.json", text="made again")
    os.utime(place / "c.json", (LONG_AGO, LONG_AGO))
    rows, figures = read(spark, str(place), scratch)

    assert names_of(rows) == ["made again"]
    assert figures == {"filesChanged": "1", "changedFile": f"file:{place}/a.json"}


COLON = "2024-05-01T10:00:00.json"


def life_of(directory: Path) -> Life:
    source = {"name": "files", "format": "json", "schema": SCHEMA, "options": {"path": str(directory / "in")}}
    spec = job(
        directory, [source], [sql("rows", ["files"], "SELECT n FROM files")], ["rows"], checkpointing={"interval": "1h"}
    )
    return life_in(directory, spec, restarts=NEVER)


def changes(runs: EmbeddedJob) -> list[str]:
    runs.control.observe()
    return [each.sentence for each in runs.control.diagnosis().reasons if each.code == "files-changed"]


@pytest.mark.slow
def test_a_running_job_whose_directory_is_made_again_says_which_file_changed_and_ends_at_one_with_a_colon(
    spark: SparkSession, tmp_path: Path
) -> None:
    write(tmp_path / "in", "a.json")
    with running(spark, life_of(tmp_path)) as runs:
        runs.wait_for_batches()
        runs.checkpoint()
        shutil.rmtree(tmp_path / "in")
        write(tmp_path / "in", "a.json", text="other")
        write(tmp_path / "in", "b*.json")
        runs.wait_for_batches()
        runs.wait_for(lambda: bool(changes(runs)), "a report about the changed file")
        found = changes(runs)
        runs.checkpoint()
        write(tmp_path / "in", COLON)
        with pytest.raises(UnusableFileName) as late:
            runs.wait()
    with running(spark, life_of(tmp_path)) as refused, pytest.raises(UnusableFileName) as early:
        refused.wait()

    place = tmp_path / "in"
    assert found == [f"1 file of source files changed after being read and will not be read again: file:{place}/a.json"]
    assert rows_of(output(tmp_path, "rows")) == {("a.json",): 1, ("b*.json",): 1}
    for error in (late, early):
        assert f"Source 'files': Spark cannot list a file with a colon in its name, {COLON}, below {place}" in str(
            error.value
        )
        assert "rename it without the colon" in str(error.value.fix)
