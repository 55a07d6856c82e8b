"""Files that nothing can read are left out as a whole, and are counted, or are dead letters, each once."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from tests import jobs
from tests.integration.core import core
from tests.integration.runtime.embedded import Life, life_in, running
from tests.integration.runtime.graphs import job, output, rows_of
from tests.integration.runtime.power import Power
from tests.integration.runtime.stories import NEVER, killed_and_finished
from tests.integration.runtime.test_faulty_buckets import FAULTS, job_of
from tests.integration.sinks.buckets import Bucket
from tests.jobs import sql
from tests.servers.faulty import Noted, answer

from streamjob.errors import ExitCode
from streamjob.ids import Key
from streamjob_runtime.job.bad_input_errors import FileUnreadable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FORMATS = ["json", "csv", "text", "parquet", "orc", "avro"]
SCHEMA = {"text": "value STRING"}
IDS = {"text": "CAST(value AS INT)"}
AVRO = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}
ROWS = 5_000
CUT = 40
"""Bytes at the end of a damaged file that are not there; all its rows are before them, or most."""
WHOLE = Counter((number,) for number in range(3 * ROWS))


def content(form: str, first: int, rows: int = ROWS) -> bytes:
    """Return a file with the numbers from `first` on."""
    ids, file = range(first, first + rows), io.BytesIO()
    if form == "parquet":
        pa.parquet.write_table(pa.table({"id": pa.array(ids, pa.int32())}), file)
    elif form == "orc":
        pa.orc.write_table(pa.table({"id": pa.array(ids, pa.int32())}), file)
    elif form == "avro":
        # It has many blocks.
        fastavro.writer(file, AVRO, [{"id": each} for each in ids], sync_interval=1_000)
    else:
        line = '{{"id": {}}}\n' if form == "json" else "{}\n"
        file.write(gzip.compress("".join(line.format(each) for each in ids).encode()))
    return file.getvalue()


def named(name: object, form: str) -> str:
    return f"{name}.{form}" + (".gz" if form in ("json", "csv", "text") else "")


def write(directory: Path, form: str) -> None:
    """Write three whole files, an empty one, and two damaged ones: one is cut, and one is of another format."""
    (directory / "orders").mkdir()
    files = {number: content(form, number * ROWS) for number in range(4)}
    files |= {3: files[3][:-CUT], 4: b"of another format", 5: b""}
    for number, each in files.items():
        (directory / "orders" / named(number, form)).write_bytes(each)


def life_of(directory: Path, form: str, *letters: dict[str, Any], schema: str = "", **fields: Any) -> Life:
    schema = schema or SCHEMA.get(form, "id INT")
    source = jobs.files("orders", directory / "orders", schema, form, bounded=True, **fields)
    rows = sql("rows", ["orders"], f"SELECT * EXCEPT({schema.split()[0]}), {IDS.get(form, 'id')} AS id FROM orders")
    names = ["rows", *(each["name"] for each in letters)]
    spec = job(directory, [source], [rows, *letters], names, checkpointing={"interval": "1h"})
    return life_in(directory, spec, restarts=NEVER)


LETTERS = sql(
    "letters",
    ["orders_dead_letters"],
    "SELECT value, substring_index(file, '/', -1) AS file, left(error, 24) AS error FROM orders_dead_letters",
)


def letters_of(*files: str) -> Counter[tuple[Any, ...]]:
    return Counter((None, each, "the file cannot be read:") for each in files)


@pytest.mark.parametrize("form", core(FORMATS, kept=["json"]))
def test_a_job_ends_at_a_damaged_file_or_goes_on_without_any_of_its_rows_and_counts_it(
    spark: SparkSession, tmp_path: Path, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, form)
    with running(spark, life_of(tmp_path, form)) as ends, pytest.raises(FileUnreadable) as error:
        ends.wait()
    with running(spark, life_of(tmp_path, form, onError="drop")) as drops:
        assert drops.wait() is ExitCode.OK
        (dropped,) = drops.records_not_decoded()

    assert f"orders/{named(3, form)} cannot be read" in str(error.value)
    assert "onError: drop" in str(error.value.fix)
    assert rows_of(output(tmp_path, "rows")) == WHOLE
    assert dropped == 2
    logged = "\n".join(each.getMessage() for each in caplog.records)
    assert all(f"orders/{named(number, form)}, which cannot be read" in logged for number in (3, 4))


@pytest.mark.parametrize("form", core(FORMATS, kept=["json", "parquet"]))
def test_each_damaged_file_is_one_dead_letter_and_each_row_of_the_others_is_read_once_across_a_kill(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    write(tmp_path, form)
    columns = ["*", "_metadata.file_name AS file"]
    life = life_of(tmp_path, form, LETTERS, onError="deadLetter", columns=columns)

    killed_and_finished(spark, life, Power(monkeypatch))

    assert rows_of(output(tmp_path, "rows")) == Counter(
        (named(number // ROWS, form), number) for number in range(3 * ROWS)
    )
    assert rows_of(output(tmp_path, "letters")) == letters_of(named(3, form), named(4, form))


@pytest.mark.parametrize("form", core(["csv", "parquet"], kept=["csv"]))
def test_damaged_files_are_left_out_of_directories_of_partitions(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    """A directory has whole and damaged files, or one of them, or names no column; the schema names one of two."""
    for number, directory in enumerate(["day=1/at=a", "day=1/at=b", "day=2/at=b", "."]):
        (tmp_path / "orders" / directory).mkdir(parents=True, exist_ok=True)
        (tmp_path / "orders" / directory / named(number, form)).write_bytes(content(form, number, 1))
    for number, directory in enumerate(["day=1/at=a", "day=3/at=c", "."], 4):
        (tmp_path / "orders" / directory).mkdir(parents=True, exist_ok=True)
        (tmp_path / "orders" / directory / named(number, form)).write_bytes(content(form, number)[:-CUT])

    limit = {"maxFilesPerTrigger": 9}
    life = life_of(tmp_path, form, LETTERS, schema="id INT, day INT", onError="deadLetter", options=limit)
    with running(spark, life) as ends:
        assert ends.wait() is ExitCode.OK

    assert rows_of(output(tmp_path, "rows")) == Counter([(1, "a", 0), (1, "b", 1), (2, "b", 2), (None, None, 3)])
    assert rows_of(output(tmp_path, "letters")) == letters_of(*(named(number, form) for number in (4, 5, 6)))


@pytest.mark.server
@pytest.mark.timeout(600)
@pytest.mark.parametrize("form", core(["json", "parquet", "orc", "avro"], kept=["json"]))
def test_a_bucket_that_does_not_answer_makes_no_dead_letter_and_a_damaged_object_is_one_and_stays(
    bucket: Bucket, tmp_path: Path, form: str
) -> None:
    letters = {"name": "letters", "input": "rows_dead_letters", "format": "json", "options": {"path": "letters"}}
    options = {"archiveTo": f"{bucket.path}/done"}
    whole: list[str] = []

    with job_of(bucket, tmp_path, letters, format=form, onError="deadLetter", options=options) as running_job:

        def put(cut: int = 0) -> str:
            key, first = named(len(whole), form), max(running_job.expected, default=-1) + 1
            bucket.objects.put(Key(f"in/{key}"), content(form, first)[: -cut or None])
            return key

        def arrives() -> None:
            first = max(running_job.expected, default=-1) + 1
            whole.append(put())
            running_job.expected.update(range(first, first + ROWS))
            running_job.arrives()

        def dead() -> list[str]:
            lines = [line for each in (tmp_path / "letters").glob("*.json") for line in each.read_text().splitlines()]
            return [json.loads(line)["file"].rsplit("/", 1)[1] for line in lines]

        def stored(folder: str) -> set[str]:
            return {each.key.removeprefix(folder) for each in bucket.objects.list(folder)}

        arrives()
        faults = [(fault, 4 * times) for operation, fault, times in FAULTS.values() if operation == "GetObject"]
        for fault, times in [*faults, (answer(403, "AccessDenied"), 1)]:
            noted = Noted(fault)
            running_job.proxy.on("GetObject", noted, times, key=named(len(whole), form))
            arrives()
            assert noted.met.is_set()
        assert "AccessDenied" in running_job.process.output()
        assert dead() == []

        damaged = put(CUT)
        running_job.wait_until(lambda: dead() == [damaged], "a dead letter")
        whole.append(damaged)
        for _ in range(4):
            arrives()
        running_job.wait_until(lambda: len(stored("done/")) > len(FAULTS), "objects in the archive")
        assert dead() == [damaged]
        assert damaged in stored("in/")
        assert damaged not in stored("done/")
