"""A lake table as a source: its rows are read once each, in its columns as they change, however often the job ends."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from tests.integration.runtime.executor_processes import ON_TWO
from tests.integration.runtime.processes import PROGRAM, JobProcess, JobRuns, job_runs
from tests.integration.sinks.buckets import Bucket
from tests.integration.sinks.lakes import OLD_CHECKSUMS, access_to

from streamjob.errors import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Row = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.date32()),
        ("kind", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("text", pa.string()),
    ]
)


def rows_from(first: int, number: int = 6) -> list[Row]:
    """Return rows of several partitions; some values are null, and some need quoting in a path."""
    kinds = ("a b/ü%20", None, "x=1")
    return [
        {
            "id": each,
            "day": date(2026, 7, 1 + each % 2),
            "kind": kinds[each % 3],
            "at": datetime(2026, 7, 1, 12, 30, each % 2, tzinfo=UTC),
            "text": f"of {each}",
        }
        for each in range(first, first + number)
    ]


def as_json(rows: list[Row]) -> list[Row]:
    """Return rows as the sink of JSON writes them: without nulls."""

    def text(value: Any) -> Any:
        if isinstance(value, datetime):
            return f"{value:%Y-%m-%dT%H:%M:%S}.000000Z"
        return value.isoformat() if isinstance(value, date) else value

    return [{name: text(value) for name, value in row.items() if value is not None} for row in rows]


class Lake(Protocol):
    """A table."""

    def source(self) -> dict[str, Any]: ...
    def append(self, rows: list[Row]) -> None: ...
    def delete(self, number: int) -> None: ...
    def widen(self) -> None: ...


class Delta:
    """A Delta table with partitions."""

    def __init__(self, path: str, storage: Mapping[str, str] = {}) -> None:
        self.path = path
        self._storage = dict(storage)

    def source(self) -> dict[str, Any]:
        return {"format": "delta", "options": {"path": self.path}}

    def append(self, rows: list[Row]) -> None:
        schema = pa.schema([*SCHEMA, ("more", pa.int32())]) if "more" in rows[0] else SCHEMA
        table = pa.Table.from_pylist(rows, schema)
        by = ["day", "kind", "at"]
        more: Any = {"storage_options": self._storage, "schema_mode": "merge"}
        write_deltalake(self.path, table, mode="append", partition_by=by, **more)

    def delete(self, number: int) -> None:
        DeltaTable(self.path).delete(f"id = {number}")

    def widen(self) -> None:
        """The next rows do that."""


class Iceberg:
    """An Iceberg table."""

    def __init__(self, directory: Path, warehouse: str = "", access: Mapping[str, str] = {}) -> None:
        self._uri = f"sqlite:///{directory}/catalog.db"
        self._warehouse = warehouse or f"file://{directory}/warehouse"
        self._catalog = SqlCatalog("default", uri=self._uri, warehouse=self._warehouse, **access)
        self._catalog.create_namespace("lake")
        self._table = self._catalog.create_table("lake.rows", SCHEMA)

    def source(self) -> dict[str, Any]:
        options = {
            "table": "lake.rows",
            "catalog.type": "sql",
            "catalog.uri": self._uri,
            "catalog.warehouse": self._warehouse,
        }
        return {"format": "iceberg", "options": options}

    def append(self, rows: list[Row]) -> None:
        self._table.refresh()
        self._table.append(pa.Table.from_pylist(rows, self._table.schema().as_arrow()))

    def delete(self, number: int) -> None:
        self._table.delete(f"id = {number}")

    def widen(self) -> None:
        """Add a column; another one gets a new name, and its old name is that of a new column."""
        from pyiceberg.types import IntegerType, StringType

        with self._table.update_schema() as update:
            update.add_column("more", IntegerType())
            update.rename_column("text", "words")
        with self._table.update_schema() as update:
            update.add_column("text", StringType())


THOROUGH = pytest.mark.thorough
DELTA_FIRST = pytest.mark.parametrize("lake", ["delta", pytest.param("iceberg", marks=THOROUGH)], indirect=True)
ICEBERG_FIRST = pytest.mark.parametrize("lake", [pytest.param("delta", marks=THOROUGH), "iceberg"], indirect=True)


@pytest.fixture
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return lake_in(tmp_path, request.param)


def lake_in(directory: Path, form: str) -> Lake:
    return Delta(str(directory / "a table+ü")) if form == "delta" else Iceberg(directory)


class Job:
    """A job that copies a table into a directory of JSON, and its runs."""

    def __init__(self, directory: Path, runs: JobRuns) -> None:
        self.runs = runs
        self.output = directory / "out"

    def rows(self) -> list[Row]:
        """Return the rows that are published, in the order of their ids."""
        files = self.output.glob("*.json") if self.output.exists() else ()
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return sorted(rows, key=lambda row: row["id"])

    def wait_for_rows(self, number: int, process: JobProcess) -> None:
        self.runs.wait(lambda: len(self.rows()) >= number, f"{number} rows", process)


@contextmanager
def job_of(directory: Path, source: Mapping[str, Any], *columns: str, **options: str) -> Iterator[Job]:
    given = {"checkInterval": "200ms", **source["options"], **options}
    described = {
        "name": "copies",
        "checkpointing": {"interval": "300ms"},
        "sources": [{"name": "rows", **source, "options": given, **({"columns": list(columns)} if columns else {})}],
        "sinks": [{"name": "out", "input": "rows", "format": "json", "options": {"path": "out"}}],
    }
    file = directory / "job.yaml"
    file.write_text(json.dumps(described))
    with job_runs(file, directory / "snapshots", "copies") as runs:
        yield Job(directory, runs)


@DELTA_FIRST
@pytest.mark.timeout(600)
def test_rows_that_are_appended_are_read_once_each_however_often_the_job_is_killed(lake: Lake, tmp_path: Path) -> None:
    expected = rows_from(0)
    lake.append(expected)
    with job_of(tmp_path, lake.source(), maxFilesPerTrigger="4") as job:
        process = job.runs.start()
        for unread in (6, 0):
            for _ in range(2):
                more = rows_from(len(expected))
                lake.append(more)
                expected += more
            # It is killed while it reads, or behind the last row.
            job.wait_for_rows(len(expected) - unread, process)
            process.kill()
            process = job.runs.start()
        job.wait_for_rows(len(expected), process)
        process.kill()
        assert job.rows() == as_json(expected)


@ICEBERG_FIRST
@pytest.mark.timeout(300)
def test_columns_that_come_while_the_job_runs_are_read_by_its_next_attempt(lake: Lake, tmp_path: Path) -> None:
    before, after = rows_from(0), [{**row, "more": row["id"]} for row in rows_from(6)]
    lake.append(before)
    with job_of(tmp_path, lake.source()) as job:
        process = job.runs.start()
        job.wait_for_rows(6, process)
        lake.widen()
        if isinstance(lake, Iceberg):
            after = [{**row, "words": f"old {row['id']}"} for row in after]
        lake.append(after)
        job.wait_for_rows(12, process)
        assert "the table has other columns now" in process.output()
        process.kill()
        assert job.rows() == as_json([*before, *after])


@DELTA_FIRST
@pytest.mark.timeout(300)
def test_a_snapshot_that_deletes_rows_ends_the_job_and_says_how_to_go_on(lake: Lake, tmp_path: Path) -> None:
    lake.append(rows_from(0))
    with job_of(tmp_path, lake.source()) as job:
        process = job.runs.start()
        job.wait_for_rows(6, process)
        lake.delete(3)
        assert process.wait() == ExitCode.FAILED
        assert "onChange: addedFiles" in process.output()


@pytest.mark.timeout(600)
def test_changed_rows_are_those_of_the_feed_however_often_the_job_is_killed(tmp_path: Path) -> None:
    path = str(tmp_path / "a table+ü")

    def write(*ids: int, **more: Any) -> None:
        parts = [("a", None)[number % 2] for number in ids]
        rows = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"of {number}" for number in ids], "p": parts})
        write_deltalake(path, rows, partition_by=["p"], **more)

    def feed() -> list[Row]:
        rows = pa.table(DeltaTable(path).load_cdf(0).read_all()).to_pylist()
        times = [f"{row.pop('_commit_timestamp').isoformat(timespec='milliseconds')}000Z" for row in rows]
        found = [row | {"_commit_timestamp": time} for row, time in zip(rows, times, strict=True)]
        return in_order([{name: value for name, value in row.items() if value is not None} for row in found])

    def in_order(rows: list[Row]) -> list[Row]:
        return sorted(rows, key=lambda row: (row["_commit_version"], row["_change_type"], row["id"]))

    write(1, 2, 3, 4, 5, 6, configuration={"delta.enableChangeDataFeed": "true"})
    source = {"format": "delta", "options": {"path": path}}
    with job_of(tmp_path, source, onChange="changeRows", maxFilesPerTrigger="1") as job:
        process = job.runs.start()
        job.wait_for_rows(6, process)
        for unread in (2, 0):
            DeltaTable(path).delete("id = 1")
            DeltaTable(path).update(predicate="id < 4", updates={"text": "text || '!'", "p": "'b'"})
            write(1, 7, mode="append")
            write(1, 2, 3, 8, mode="overwrite")
            # It is killed while it reads, or behind the last row.
            job.wait_for_rows(len(feed()) - unread, process)
            process.kill()
            process = job.runs.start()
        job.wait_for_rows(len(feed()), process)
        process.kill()
        assert in_order(job.rows()) == feed()


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_a_job_that_begins_with_the_newest_snapshot_misses_none_while_it_is_down(tmp_path: Path) -> None:
    lake = Iceberg(tmp_path)
    lake.append(rows_from(0))
    with job_of(tmp_path, lake.source(), startingSnapshot="newest") as job:
        process = job.runs.start()
        job.runs.wait(lambda: bool(job.runs.completions()), "checkpoint", process)
        process.kill()
        lake.append(rows_from(6))
        process = job.runs.start()
        job.wait_for_rows(6, process)
        process.kill()
        assert job.rows() == as_json(rows_from(6))


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_that_a_job_writes_is_read_by_another_job(tmp_path: Path, form: str) -> None:
    lake = lake_in(tmp_path, form)
    sink = lake.source()
    if form == "iceberg":
        sink["options"] = {**sink["options"], "table": "lake.written", "createTable": "true"}
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text("".join(f'{{"id": {each}, "text": "of {each}"}}\n' for each in range(9)))
    schema = "id BIGINT, text STRING"
    written = {
        "name": "writes",
        "checkpointing": {"interval": "300ms"},
        "sources": [{"name": "r", "format": "json", "schema": schema, "bounded": True, "options": {"path": "in"}}],
        "sinks": [{"name": "lake", "input": "r", **sink}],
    }
    file = tmp_path / "writes.yaml"
    file.write_text(json.dumps(written))
    with job_runs(file, tmp_path / "snapshots", "writes") as runs:
        first = runs.start(workdir="first")
        assert first.wait() == ExitCode.OK, first.output()
    given = {name: value for name, value in sink["options"].items() if name != "createTable"}
    with job_of(tmp_path, {"format": form, "options": given}) as job:
        process = job.runs.start()
        job.wait_for_rows(9, process)
        process.kill()
        assert job.rows() == [{"id": each, "text": f"of {each}"} for each in range(9)]


@pytest.mark.server
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("form", "more"),
    [("delta", ()), pytest.param("iceberg", ON_TWO, marks=THOROUGH)],
    ids=["delta", "iceberg-executors"],
)
def test_a_table_in_a_bucket_is_read_with_the_access_to_the_snapshot_store(
    bucket: Bucket, tmp_path: Path, form: str, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = bucket.server
    storage = {**server.environment, "AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    for name, value in OLD_CHECKSUMS.items():
        monkeypatch.setenv(name, value)
    lake: Lake = Delta(bucket.path, storage)
    if form == "iceberg":
        lake = Iceberg(tmp_path, f"s3://{bucket.name}/warehouse", access_to(server))
    lake.append(rows_from(0))
    with job_of(tmp_path, lake.source()) as job:
        process = job.runs.start(*more, environment=server.environment)
        job.wait_for_rows(6, process)
        lake.append(rows_from(6))
        job.wait_for_rows(12, process)
        process.kill()
        assert job.rows() == as_json(rows_from(0, 12))


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_check_and_preview_say_what_a_job_would_read_and_that_no_table_is_there(tmp_path: Path) -> None:
    lake = Delta(str(tmp_path / "a table+ü"))

    def said(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAM, command, tmp_path / "job.yaml", *arguments], capture_output=True, text=True)

    with job_of(tmp_path, lake.source()):
        checked = said("check", "--from", "none", "--location", str(tmp_path / "snapshots"))
        assert checked.returncode == ExitCode.INVALID_INPUT
        assert "ource 'rows': table" in checked.stderr
        assert "does not exist" in checked.stderr
        lake.append(rows_from(0))
        previewed = said("preview", "--format", "json")
        assert previewed.returncode == ExitCode.OK, previewed.stderr
        assert '"of 5"' in previewed.stdout
