"""Sources and tables read files of a bucket, in each format; a job between buckets is exact however it is killed."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pytest
from tests.integration.runtime.processes import PROGRAM, job_runs
from tests.integration.sinks.buckets import Bucket

from streamjob.errors import ExitCode
from streamjob.ids import Key
from streamjob.job.model.spec import TableSpec
from streamjob.store.base import BucketMissing, CredentialsRejected
from streamjob_runtime.spark.connectors.buckets import NothingInBucket, ensure_objects

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

SCHEMA = "id BIGINT, name STRING"
ROWS = [{"id": number, "name": f"n{number}"} for number in range(50)]
AVRO = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
FUNCTIONS = """
from functools import reduce
from pyspark.sql import functions as f

def labelled(json, csv, parquet, orc, avro, labels):
    frames = {"json": json, "csv": csv, "parquet": parquet, "orc": orc, "avro": avro}
    each = [frame.select(f.lit(name).alias("format"), "id", "name") for name, frame in frames.items()]
    return reduce(lambda one, other: one.unionByName(other), each).join(labels, "id", "left")
"""


IMAGES = """
SELECT path, length, modificationTime > TIMESTAMP '2020-01-01' AS recent, hex(content) AS content, day FROM binaryFile
UNION ALL
SELECT path, length, modificationTime > TIMESTAMP '2020-01-01', hex(content), 'none' FROM local
"""


def written(write: Any) -> bytes:
    """Return what a writer of files writes."""
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def put(bucket: Bucket, key: str, content: bytes) -> None:
    bucket.objects.put(Key(key), content)


def source(bucket: Bucket, form: str, path: str = "", **options: str) -> dict[str, Any]:
    schema = {} if form in ("text", "binaryFile") else {"schema": SCHEMA}
    path = path or f"{bucket.path}/{form}"
    return {"name": form, "format": form, "bounded": True, "options": {"path": path, **options}, **schema}


def write_formats(bucket: Bucket) -> None:
    """Write the rows in each format, with names and directories that a path may have."""
    table = pa.Table.from_pylist(ROWS)
    put(bucket, "json/a.json", LINES)
    put(bucket, "json/day=2024-01-01/b c+ü%20.json.gz", gzip.compress(LINES))
    put(bucket, "csv/a.csv", b"id,name\n" + "".join(f"{row['id']},{row['name']}\n" for row in ROWS).encode())
    put(bucket, "parquet/x/a.parquet", written(lambda file: pa.parquet.write_table(table, file)))
    put(bucket, "parquet/y/a.parquet", written(lambda file: pa.parquet.write_table(table, file)))
    put(bucket, "orc/a.orc", written(lambda file: pa.orc.write_table(table, file)))
    put(bucket, "avro/a.avro", written(lambda file: fastavro.writer(file, AVRO, ROWS)))
    put(bucket, "text/a.txt", b"x\ny\n")
    put(bucket, "binaryFile/day=7/b c+ü%20.bin", bytes(range(256)))
    put(bucket, "labels/a.json", b'{"id": 1, "label": "one"}\n')


@pytest.mark.timeout(400)
def test_each_format_is_read_from_a_bucket_as_it_is_from_a_directory(bucket: Bucket, tmp_path: Path) -> None:
    write_formats(bucket)
    labels = {"name": "labels", "format": "json", "schema": "id BIGINT, label STRING"}
    described = {
        "name": "formats",
        "sources": [
            source(bucket, "json"),
            source(bucket, "csv", bucket.path.replace("s3:", "s3a:") + "/csv", header="true"),
            source(bucket, "parquet", f"{bucket.path}/parquet/*"),
            source(bucket, "orc", "${env:PLACE}/orc"),
            source(bucket, "avro"),
            source(bucket, "text"),
            source(bucket, "binaryFile"),
            {**source(bucket, "binaryFile", str(tmp_path / "local")), "name": "local"},
        ],
        "tables": [{**labels, "options": {"path": f"{bucket.path}/labels"}}],
        "operators": [
            {
                "name": "labelled",
                "inputs": ["json", "csv", "parquet", "orc", "avro"],
                "tables": ["labels"],
                "python": "functions:labelled",
            },
            {"name": "images", "inputs": ["binaryFile", "local"], "sql": IMAGES},
        ],
        "sinks": [
            {"name": "seen", "input": "images", "format": "json", "options": {"path": "seen"}},
            {"name": "out", "input": "labelled", "format": "json", "options": {"path": "out"}},
            {"name": "texts", "input": "text", "format": "text", "options": {"path": "texts"}},
        ],
    }
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "a.bin").write_bytes(bytes(range(256)))
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(described))

    with job_runs(file, tmp_path / "snapshots", "formats") as runs:
        process = runs.start(environment={**bucket.server.environment, "PLACE": bucket.path})
        assert process.wait() == 0, process.output()

    rows = [json.loads(line) for part in (tmp_path / "out").glob("part-*") for line in part.read_text().splitlines()]
    assert Counter(row["format"] for row in rows) == {"json": 100, "csv": 50, "parquet": 100, "orc": 50, "avro": 50}
    assert {(row["id"], row["name"]) for row in rows} == {(row["id"], row["name"]) for row in ROWS}
    assert Counter(row["label"] for row in rows if "label" in row) == {"one": 7}
    assert "".join(part.read_text() for part in (tmp_path / "texts").glob("part-*")) == "x\ny\n"
    seen = [json.loads(line) for part in (tmp_path / "seen").glob("part-*") for line in part.read_text().splitlines()]
    content = bytes(range(256)).hex().upper()
    assert [(row.pop("path")[:6], *row.values()) for row in sorted(seen, key=lambda row: row["path"])] == [
        ("file:/", 256, True, content, "none"),
        ("s3a://", 256, True, content, "7"),
    ]


@pytest.mark.timeout(300)
def test_a_source_reads_a_bucket_of_another_server_with_an_access_of_its_own(bucket: Bucket, tmp_path: Path) -> None:
    put(bucket, "parquet/a.parquet", written(lambda file: pa.parquet.write_table(pa.Table.from_pylist(ROWS), file)))
    rows = source(bucket, "parquet", access="OTHER")
    written_to = {"name": "out", "input": "parquet", "format": "json", "options": {"path": "out"}}
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps({"name": "other", "sources": [rows], "sinks": [written_to]}))
    of_store = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    others = {f"OTHER_{name}": value for name, value in bucket.server.environment.items()}

    with job_runs(file, tmp_path / "snapshots", "other") as runs:
        refused = runs.start(environment=of_store)
        assert refused.wait() == ExitCode.INVALID_INPUT
        assert "Source 'parquet' has access: OTHER, and OTHER_AWS_ACCESS_KEY_ID or" in refused.output()
        process = runs.start("--executors", "2", "--executor-memory", "600m", environment={**of_store, **others})
        assert process.wait() == 0, process.output()

    lines = [line for part in (tmp_path / "out").glob("part-*") for line in part.read_text().splitlines()]
    assert sorted(map(json.loads, lines), key=lambda row: row["id"]) == ROWS


def test_a_path_that_cannot_be_read_is_refused_at_once_by_the_name_of_its_table(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    put(bucket, "a/b.json", LINES)
    rows = TableSpec.model_validate({"name": "rows", "format": "json", "schema": SCHEMA})

    def ensure(path: str) -> None:
        ensure_objects(rows, {"path": path})

    for there in ("/local", f"{bucket.path}/a", f"{bucket.path}/a/b.json", f"{bucket.path}/[ab]/*.json"):
        ensure(there)
    with pytest.raises(NothingInBucket, match=r"Table 'rows': there is no object at s3://.*/none"):
        ensure(f"{bucket.path}/none")
    with pytest.raises(BucketMissing, match="Table 'rows': the bucket missing-bucket does not exist"):
        ensure("s3a://missing-bucket/a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(CredentialsRejected, match="Table 'rows': "):
        ensure(f"{bucket.path}/a")


@pytest.mark.timeout(300)
def test_a_check_reports_a_bucket_that_is_not_there_as_a_start_does(bucket: Bucket, tmp_path: Path) -> None:
    rows = source(bucket, "json", "s3://missing-bucket/in")
    written = {"name": "out", "input": "json", "format": "json", "options": {"path": "out"}}
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps({"name": "checked", "sources": [rows], "sinks": [written]}))

    checked = subprocess.run(
        [PROGRAM, "check", str(file), "--from", "latest", "--location", str(tmp_path / "snapshots")],
        env={**os.environ, **bucket.server.environment},
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == ExitCode.INVALID_INPUT
    assert "source 'json': the bucket missing-bucket does not exist" in checked.stderr
    assert "Exception" not in checked.stderr


@pytest.mark.timeout(300)
def test_of_a_plain_querys_output_in_a_bucket_only_what_its_log_names_is_read(bucket: Bucket, tmp_path: Path) -> None:
    def commit(batch: str, *numbers: int, named: bool = True) -> None:
        """Write a file a number, and an entry of the log."""
        for each in numbers:
            put(bucket, f"q/part-{each}.json", f'{{"id": {each}}}\n'.encode())
        files = [f"s3a://{bucket.name}/lake/out/q/part-{each}.json" for each in numbers]
        lines = [json.dumps({"path": each, "action": "add"}) for each in files]
        if named:
            put(bucket, f"q/_spark_metadata/{batch}", "\n".join(["v1", *lines]).encode())

    def rows() -> list[int]:
        lines = [line for part in (tmp_path / "out").glob("part-*") for line in part.read_text().splitlines()]
        return sorted(json.loads(line)["id"] for line in lines)

    commit("0", 1, 2)
    commit("1", 99, named=False)
    commit("1.compact", 1, 2, 3)
    read = {**source(bucket, "json", f"{bucket.path}/q", checkInterval="500ms"), "bounded": False}
    written_to = {"name": "out", "input": "json", "format": "json", "options": {"path": "out"}}
    job = {"name": "query", "checkpointing": {"interval": "500ms"}, "sources": [read], "sinks": [written_to]}
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(job))

    with job_runs(file, tmp_path / "snapshots", "query") as runs:
        process = runs.start(environment=bucket.server.environment)
        runs.wait(lambda: len(rows()) >= 3, "rows", process)
        commit("2", 98, named=False)
        # Behind a later key: a listing would not find it soon.
        commit("2", 0)
        runs.wait(lambda: len(rows()) >= 4, "rows of the next batch", process)
        process.send(signal.SIGTERM)
        assert process.wait() == 0, process.output()

    assert rows() == [0, 1, 2, 3]
    assert "the output of a plain query, only what its log names is read" in process.output()


FILES, OF_A_FILE = 30, 20
KILLS = (4, 11, 19)
"""Batches in a checkpoint, after which the job is killed."""


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("more", [(), ("--executors", "2", "--executor-memory", "600m")], ids=["alone", "executors"])
def test_between_buckets_each_row_arrives_once_however_often_the_job_is_killed(
    spark: SparkSession, bucket: Bucket, tmp_path: Path, more: tuple[str, ...]
) -> None:
    for number in range(FILES):
        rows = range(number * OF_A_FILE, (number + 1) * OF_A_FILE)
        put(bucket, f"in/{number:03}.json", "".join(f'{{"id": {each}}}\n' for each in rows).encode())
    described = {
        "name": "between",
        "checkpointing": {"interval": "500ms"},
        "sources": [
            {
                "name": "rows",
                "format": "json",
                "schema": "id BIGINT",
                "bounded": True,
                "options": {"path": f"{bucket.path}/in", "maxFilesPerTrigger": "1"},
            }
        ],
        "sinks": [{"name": "out", "input": "rows", "format": "parquet", "options": {"path": f"{bucket.path}/out"}}],
    }
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(described))

    with job_runs(file, tmp_path / "snapshots", "between") as runs:
        for batch in KILLS if not more else KILLS[:1]:
            process = runs.start(*more, environment=bucket.server.environment)
            runs.wait_for_progress(batch, process)
            process.kill()
        process = runs.start(*more, environment=bucket.server.environment)
        assert process.wait() == 0, process.output()

    found = spark.read.parquet(str(bucket.directory / "out"))
    assert Counter(row.id for row in found.collect()) == Counter(range(FILES * OF_A_FILE))
