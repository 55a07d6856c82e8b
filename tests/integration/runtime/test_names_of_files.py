"""A source of files reads each file once, under its own name, whatever its time; and says which ones were replaced."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.runtime.embedded import EmbeddedJob, Life, finish, life_in, running
from tests.integration.runtime.graphs import job, output, rows_of
from tests.integration.runtime.stories import NEVER
from tests.jobs import sql

from streamjob.job.model.spec import TableSpec
from streamjob.protocol.lifecycle import JobState
from streamjob_runtime.discovery.directory_lister import UnreadableDirectory
from streamjob_runtime.job.bad_input_errors import ObjectReplaced
from streamjob_runtime.tables.reading import batch_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAMES = [
    "a*.json", "a1.json", "a2.json", "b{x,y}.json", "bx.json", "c[1].json", "c1.json", "d?.json", "d1.json",
    "e\\x.json", "ex.json", "f%20.json", "g .json", "h#x.json", "i^x.json", "j,x.json", "k{.json", "l[.json",
    'm"x.json', "nü.json", "2024-05-01T10:00:00.json", "o\n.json",
]  # fmt: skip
LONG_AGO = 1_000_000_000
"""Seconds since 1970, in 2001."""


def write(directory: Path, *names: str, text: str | None = None) -> None:
    """Put files into a directory, each of which appears whole, with one row: its name, or a text."""
    for name in names:
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.with_name(".unfinished")
        unfinished.write_text(json.dumps({"n": text or name}) + "\n")
        unfinished.rename(file)


def life_of(
    directory: Path,
    *,
    schema: str = "n STRING",
    columns: str = "n",
    path: str = "",
    bounded: bool = False,
    **options: Any,
) -> Life:
    source = {
        "name": "files",
        "format": "json",
        "schema": schema,
        "bounded": bounded,
        "options": {"path": path or str(directory / "in"), **options},
    }
    rows = sql("rows", ["files"], f"SELECT {columns} FROM files")
    spec = job(directory, [source], [rows], ["rows"], checkpointing={"interval": "1h"})
    return life_in(directory, spec, restarts=NEVER)


def wait_for_rows(runs: EmbeddedJob, directory: Path, *expected: str) -> None:
    """Wait until a checkpoint has published just these rows."""

    def published() -> bool:
        if runs.state is not JobState.RUNNING:
            return False
        runs.checkpoint()
        return rows_of(output(directory, "rows")) == dict.fromkeys(((each,) for each in expected), 1)

    runs.wait_for(published, f"{len(expected)} rows")


def test_each_file_is_read_once_whatever_its_name_and_time(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", *NAMES)
    for place in (tmp_path / "few", tmp_path / "bounded"):
        place.mkdir()
        shutil.copytree(tmp_path / "in", place / "in")

    finish(spark, life_of(tmp_path / "bounded", bounded=True))
    with running(spark, life_of(tmp_path / "few", maxFilesPerTrigger="3")) as runs:
        wait_for_rows(runs, tmp_path / "few", *NAMES)
        write(tmp_path / "few" / "in", "old.json")
        os.utime(tmp_path / "few" / "in" / "old.json", (LONG_AGO, LONG_AGO))
        wait_for_rows(runs, tmp_path / "few", *NAMES, "old.json")

    assert rows_of(output(tmp_path / "bounded", "rows")) == dict.fromkeys(((name,) for name in NAMES), 1)


@pytest.mark.slow
@pytest.mark.parametrize("bounded", [True, False])
def test_files_in_and_beside_directories_of_partitions_are_read_once_with_their_values(
    spark: SparkSession, tmp_path: Path, bounded: bool
) -> None:
    write(tmp_path / "in", "day=1/o*.json", "day=1/o1.json", "day=2%2F/p?.json", "beside.json")

    life = life_of(tmp_path, schema="n STRING, day STRING", columns="n || coalesce(day, '-') n", bounded=bounded)
    expected = ["day=1/o*.json1", "day=1/o1.json1", "day=2%2F/p?.json2/", "beside.json-"]

    if bounded:
        finish(spark, life)
        assert rows_of(output(tmp_path, "rows")) == dict.fromkeys(((each,) for each in expected), 1)
    else:
        with running(spark, life) as runs:
            wait_for_rows(runs, tmp_path, *expected)


def test_a_table_of_files_has_null_beside_directories_of_partitions(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "in"
    write(place, "day=1/one.json", "beside.json", "day=2/two.json")
    table = {"name": "table", "schema": "n STRING, day INT", "options": {"path": str(place)}}
    spark.read.json(str(place / "beside.json")).write.parquet(str(tmp_path / "parquet"))
    spark.read.json(str(place / "day=1")).write.parquet(str(tmp_path / "parquet" / "day=1"))

    of_table = batch_frame(spark, TableSpec.model_validate({**table, "format": "json"}), {"path": str(place)})
    parquet = TableSpec.model_validate({**table, "format": "parquet"})
    of_parquet = batch_frame(spark, parquet, {"path": str(tmp_path / "parquet")})

    assert {(row.n, row.day) for row in of_table.collect()} == {
        ("day=1/one.json", 1),
        ("beside.json", None),
        ("day=2/two.json", 2),
    }
    assert {(row.n, row.day) for row in of_parquet.collect()} == {("beside.json", None), ("day=1/one.json", 1)}


def changes(runs: EmbeddedJob) -> list[str]:
    runs.control.observe()
    return [each.sentence for each in runs.control.diagnosis().reasons if each.code == "files-changed"]


@pytest.mark.slow
def test_of_a_directory_that_was_made_again_other_files_are_read_and_replaced_ones_as_the_source_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = tmp_path / "in"
    write(place, "a.json")
    with running(spark, life_of(tmp_path, onReplaced="ignore")) as runs:
        wait_for_rows(runs, tmp_path, "a.json")
        shutil.rmtree(place)
        write(place, "a.json", text="other")
        write(place, "b*.json")
        wait_for_rows(runs, tmp_path, "a.json", "b*.json")
        runs.wait_for(lambda: bool(changes(runs)), "a report about the changed file")
        found = changes(runs)
    with running(spark, life_of(tmp_path)) as runs, pytest.raises(ObjectReplaced) as refused:
        runs.wait()
    with running(spark, life_of(tmp_path, onReplaced="read")) as runs:
        wait_for_rows(runs, tmp_path, "a.json", "b*.json", "other")

    assert found == [f"1 file of source files changed after being read and will not be read again: {place}/a.json"]
    assert f"Source 'files' has read {place}/a.json" in str(refused.value)
    assert "onReplaced=read" in str(refused.value.fix)


@pytest.mark.slow
def test_files_of_another_file_system_of_hadoop_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    # Of the file systems that Hadoop has, this one needs no server.
    spark.conf.set("fs.viewfs.mounttable.mounted.link./in", f"file://{tmp_path}/in")
    write(tmp_path / "in", "a.json", "b{1}.json", "day=1/c.json")

    with running(spark, life_of(tmp_path, path="viewfs://mounted/in")) as runs:
        wait_for_rows(runs, tmp_path, "a.json", "b{1}.json", "day=1/c.json")
        write(tmp_path / "in", "d.json")
        wait_for_rows(runs, tmp_path, "a.json", "b{1}.json", "day=1/c.json", "d.json")


@pytest.mark.slow
def test_a_path_may_be_one_file(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in", "a.json", "b.json")

    with running(spark, life_of(tmp_path, path=f"file:{tmp_path}/in/a.json")) as runs:
        wait_for_rows(runs, tmp_path, "a.json")


def test_a_start_without_the_directory_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with running(spark, life_of(tmp_path)) as runs, pytest.raises(UnreadableDirectory) as refused:
        runs.wait()

    assert str(refused.value).startswith(f"Source 'files': the directory {tmp_path}/in does not exist")
