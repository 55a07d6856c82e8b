"""`streamjob check` says of every example, every recipe and every connector that the job can start."""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.integration.runtime.embedded import Life, running
from tests.integration.sinks.buckets import Bucket
from tests.integration.sinks.databases import Database, add_driver
from tests.integration.sinks.lakes import Lake
from tests.servers.kafka import KafkaServer
from typer.testing import CliRunner, Result

from streamjob.cli.main import app
from streamjob.errors import ExitCode
from streamjob.job.connectors.file_source import in_bucket
from streamjob.job.loading.load import load_job
from streamjob.job.model.formats import (
    EXACTLY_ONCE_FORMATS,
    FILE_FORMATS,
    SINK_FORMATS,
    SOURCE_FORMATS,
    TABLE_FORMATS,
    TRANSACTIONAL_FORMATS,
)
from streamjob_runtime.process.checking import start_check
from streamjob_runtime.spark import parsing
from streamjob_runtime.spark.gateway import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[3]
BEGINS = {".yaml": r"^ *sources:$", ".sql": "^CREATE SOURCE", ".py": r"^job = Job\("}
"""Text that only the file of a job has."""


def job_files() -> Iterator[Path]:
    """Yield the files of jobs among the examples and the recipes, and the one that `streamjob init` writes."""
    for folder in (ROOT / "examples", ROOT / "docs" / "cookbook", ROOT / "runtime" / "streamjob" / "cli" / "first_job"):
        for file in sorted(folder.rglob("*")):
            begins = BEGINS.get(file.suffix)
            if begins and ".streamjob" not in file.parts and re.search(begins, file.read_text(), re.MULTILINE):
                yield file


JOBS = {str(file.relative_to(ROOT)): file for file in job_files()}
TABLES = {
    "public.minutes": "sensor text, minute timestamptz, readings bigint, highest bigint, PRIMARY KEY (sensor, minute)",
    "public.orders": "id int PRIMARY KEY, country text, amount bigint",
    "public.revenue": "country text PRIMARY KEY, amount bigint",
    "public.numbers": "timestamp timestamptz, value bigint PRIMARY KEY",
}
"""The tables that jobs write into PostgreSQL."""

Check = Callable[..., Result]


@pytest.fixture
def check(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Return what runs `streamjob check FILE --from latest` with the Spark that all cases share."""

    @contextmanager
    def shared(
        _command: str, _loaded: object, max_parallelism: int, _slots: int
    ) -> Iterator[tuple[SparkSession, Path]]:
        spark.conf.set("spark.sql.shuffle.partitions", max_parallelism)
        yield spark, tmp_path / "chains"

    def parsed(sql: str) -> str | None:
        parse(spark, sql)
        return None

    def run(*files: Path) -> Result:
        overlays = [word for each in files[1:] for word in ("-f", str(each))]
        location = str(tmp_path / "snapshots")
        return CliRunner().invoke(
            app, ["check", str(files[0]), *overlays, "--from", "latest", "--location", location], catch_exceptions=False
        )

    monkeypatch.setattr(start_check, "spark_to_ask", shared)
    monkeypatch.setattr(parsing, "parse_with_spark", parsed)
    return run


def assert_can_start(result: Result) -> None:
    assert (result.exit_code, "so the job starts without state" in result.stderr) == (0, True), result.output


class World:
    """The servers of a case, each started when a part of its job needs it."""

    def __init__(self, request: pytest.FixtureRequest, place: Path) -> None:
        self._request = request
        self.place = place

    def _get(self, name: str) -> Any:
        return self._request.getfixturevalue(name)

    def _hidden(self, options: Mapping[str, str], *secrets_: str) -> Mapping[str, str]:
        """Return options that take secrets from the environment, as a job has to."""
        patch: pytest.MonkeyPatch = self._get("monkeypatch")
        found = dict(options)
        for number, secret in enumerate(secrets_):
            patch.setenv(f"SECRET_{number}", secret)
            found = {name: value.replace(secret, f"${{env:SECRET_{number}}}") for name, value in found.items()}
        return found

    def broker(self, *topics: str) -> Mapping[str, str]:
        """Return what leads to the broker, which has these topics."""
        server: KafkaServer = self._get("kafka_server")
        there = server.admin.list_topics(timeout=10).topics
        for topic in topics:
            if topic not in there:
                server.create_topic(topic, 2)
        return {"kafka.bootstrap.servers": server.bootstrap}

    def table(self, table: str) -> Mapping[str, str]:
        """Return what leads to a table in PostgreSQL."""
        database: Database = self._get("database")
        database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({TABLES[table]})")
        return self._hidden(database.options(table), database.server.password)

    def jdbc(self, table: str) -> Mapping[str, str]:
        """Return what leads to a table in PostgreSQL by JDBC."""
        add_driver(self._get("spark"), self._get("postgresql_driver"))
        given = self.table(table)
        return {"url": f"jdbc:{given['url']}", "user": given["user"], "password": given["password"], "dbtable": table}

    def iceberg(self, table: str) -> Mapping[str, str]:
        """Return what leads to a table of Iceberg in a bucket, which the sink makes."""
        lake: Lake = self._get("bucket_lake")
        secrets_ = [lake.properties[f"s3.{name}"] for name in ("access-key-id", "secret-access-key")]
        return self._hidden(lake.options(table, createTable="true"), lake.database.server.password, *secrets_)

    def bucket(self) -> Mapping[str, str]:
        """Return what leads to a path in a bucket; the environment has the rest."""
        bucket: Bucket = self._get("bucket")
        patch: pytest.MonkeyPatch = self._get("monkeypatch")
        for name, value in bucket.server.environment.items():
            patch.setenv(name, value)
        return {"path": bucket.path}

    def directory(self, name: str, *, exists: bool) -> Mapping[str, str]:
        """Return what leads to a directory."""
        directory = self.place / "files" / name
        if exists:
            directory.mkdir(parents=True)
        return {"path": str(directory)}


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(request, tmp_path)


def here(file: Path, world: World) -> dict[str, Any]:
    """Return the overlay with which a job of the repository finds its servers and directories here."""
    spec = load_job(file).spec
    sources: list[dict[str, Any]] = []
    sinks: list[dict[str, Any]] = []
    for each in spec.sources:
        if in_bucket(each.options.get("path", "")):
            sources.append({"name": each.name, "options": {"path": f"{world.bucket()['path']}-{each.name}"}})
        elif each.format in FILE_FORMATS and Path(each.options["path"]).is_absolute():
            sources.append({"name": each.name, "options": dict(world.directory(each.name, exists=True))})
        elif each.format in FILE_FORMATS:
            (file.parent / each.options["path"]).mkdir(parents=True, exist_ok=True)
        elif each.format == "kafka":
            sources.append({"name": each.name, "options": dict(world.broker(each.options["subscribe"]))})
    for table in spec.tables:
        (file.parent / table.options["path"]).mkdir(parents=True, exist_ok=True)
    for sink in spec.sinks:
        given: Mapping[str, str] = {}
        if sink.format == "kafka":
            given = world.broker(sink.options["topic"])
        elif sink.format == "postgresql":
            given = world.table(sink.options["table"])
        elif sink.format == "iceberg":
            given = world.iceberg(sink.options["table"])
        elif in_bucket(sink.options.get("path", "")):
            given = world.bucket()
        elif Path(sink.options.get("path", "")).is_absolute():
            given = world.directory(sink.name, exists=False)
        if given:
            sinks.append({"name": sink.name, "options": dict(given)})
    return {key: value for key, value in (("sources", sources), ("sinks", sinks)) if value}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_of_the_repository_can_start(check: Check, world: World, name: str) -> None:
    folder = shutil.copytree(
        JOBS[name].parent,
        world.place / "job",
        ignore=shutil.ignore_patterns("data", "demo-output", ".streamjob", "compose.yaml"),
    )
    overlay = here(folder / JOBS[name].name, world)
    (folder / "here.yaml").write_text(yaml.safe_dump(overlay))

    assert_can_start(check(folder / JOBS[name].name, *([folder / "here.yaml"] if overlay else [])))


def test_the_jobs_of_the_repository_are_found() -> None:
    assert len(JOBS) > 30
    assert JOBS.keys() >= {"examples/kafka/job.yaml", "examples/flights/job.sql", "docs/cookbook/timers.py"}


ELSEWHERE = {
    "avro": "a package of Spark",
    "delta": "Spark's own source needs a package",
    "deltaSharing": "needs a package and its server",
    "eventhubs": "needs a package and its server",
    "iceberg": "Spark's own source needs a package",
    "kinesis": "needs a package and its server",
    "pulsar": "needs a package and its server",
}
"""Formats of sources and tables that the package has no connector for, and why they are not tried."""
SCHEMA = "id INT, note STRING"
FILES = {form: {"format": form, **({"schema": SCHEMA} if form != "text" else {})} for form in FILE_FORMATS - {"avro"}}


def source_of(form: str, world: World) -> dict[str, Any]:
    """Return a source or table of a format."""
    if form in FILES:
        row = {"rowTag": "row"} if form == "xml" else {}
        return {**FILES[form], "options": {**world.directory("in", exists=True), **row}}
    topic = f"check-{secrets.token_hex(4)}"
    options: Mapping[str, Mapping[str, str]] = {
        "kafka": {**world.broker(topic), "subscribe": topic} if form == "kafka" else {},
        "jdbc": world.jdbc("public.numbers") if form == "jdbc" else {},
        "socket": {"host": "127.0.0.1", "port": "1"},
        "rate": {},
        "rate-micro-batch": {"rowsPerBatch": "10"},
    }
    return {"format": form, "options": dict(options[form])}


def sink_of(form: str, world: World) -> dict[str, Any]:
    """Return a sink of a format, and the query of the rows that it takes."""
    topic = f"check-{secrets.token_hex(4)}"
    to = world.directory("out", exists=False)
    options: dict[str, Callable[[], Mapping[str, str]]] = {
        "kafka": lambda: {**world.broker(topic), "topic": topic},
        "postgresql": lambda: world.table("public.numbers"),
        "jdbc": lambda: world.jdbc("public.numbers"),
        "iceberg": lambda: world.iceberg("db.numbers"),
        "memory": dict,
        "noop": dict,
        "console": dict,
    }
    kafka_or_text = form in ("kafka", "text")
    return {
        "format": form,
        "options": dict(options.get(form, lambda: to)()),
        "sql": "SELECT CAST(value AS STRING) AS value FROM rows"
        if kafka_or_text
        else "SELECT timestamp, value FROM rows",
    }


def job_of(source: dict[str, Any], sink: dict[str, Any], sql: str, **more: Any) -> dict[str, Any]:
    return {
        "name": "checked",
        "sources": [{"name": "rows", **source}],
        "operators": [{"name": "chosen", "inputs": ["rows"], "sql": sql}],
        "sinks": [{"name": "out", "input": "chosen", **sink}],
        **more,
    }


def written(job: dict[str, Any], directory: Path) -> Path:
    (directory / "job.yaml").write_text(yaml.safe_dump(job))
    return directory / "job.yaml"


@pytest.mark.parametrize("form", sorted(SOURCE_FORMATS - ELSEWHERE.keys()))
def test_a_job_that_reads_a_source_can_start(check: Check, world: World, form: str) -> None:
    job = job_of(source_of(form, world), {"format": "noop"}, "SELECT * FROM rows")

    assert_can_start(check(written(job, world.place)))


@pytest.mark.parametrize("form", sorted(TABLE_FORMATS - ELSEWHERE.keys()))
def test_a_job_that_joins_a_table_can_start(check: Check, world: World, form: str) -> None:
    table = {"name": "known", **source_of(form, world)}
    sql = "SELECT rows.value, known.* FROM rows CROSS JOIN known"
    sql = sql.replace("known.*", "known.value AS other") if form in ("jdbc", "text") else sql
    job = job_of({"format": "rate"}, {"format": "noop"}, sql, tables=[table])

    assert_can_start(check(written(job, world.place)))


@pytest.mark.parametrize("form", sorted(SINK_FORMATS - {"avro", "function"}))
def test_a_job_that_writes_to_a_sink_can_start(check: Check, world: World, form: str) -> None:
    sink = sink_of(form, world)
    job = job_of({"format": "rate"}, {key: sink[key] for key in ("format", "options")}, sink["sql"])

    assert_can_start(check(written(job, world.place)))


def test_a_job_that_passes_rows_to_a_function_can_start(check: Check, world: World) -> None:
    (world.place / "kept.py").write_text("def keep(batch, context):\n    pass\n", encoding="utf-8")
    job = job_of({"format": "rate"}, {"function": "kept:keep"}, "SELECT * FROM rows")

    assert_can_start(check(written(job, world.place)))


def test_a_job_that_writes_into_a_bucket_can_start(check: Check, world: World) -> None:
    job = job_of({"format": "rate"}, {"format": "parquet", "options": dict(world.bucket())}, "SELECT * FROM rows")

    assert_can_start(check(written(job, world.place)))


EXACTLY_ONCE = ("csv", "delta", "iceberg", "json", "kafka", "orc", "parquet", "postgresql", "text")


def test_a_job_with_all_sinks_that_deliver_exactly_once_can_go_on(
    spark: SparkSession, check: Check, world: World
) -> None:
    assert set(EXACTLY_ONCE) == EXACTLY_ONCE_FORMATS | TRANSACTIONAL_FORMATS
    sinks = {form: sink_of(form, world) for form in EXACTLY_ONCE}
    job = {
        "name": "job",
        "parallelism": 1,
        "maxParallelism": 1,
        "sources": [{"name": "rows", "format": "rate"}],
        "operators": [{"name": f"for_{form}", "inputs": ["rows"], "sql": sink["sql"]} for form, sink in sinks.items()],
        "sinks": [
            {
                "name": form,
                "input": f"for_{form}",
                "format": form,
                "delivery": "exactly-once",
                "options": {
                    **sink["options"],
                    **({"path": f"{sink['options']['path']}/{form}"} if "path" in sink["options"] else {}),
                },
            }
            for form, sink in sinks.items()
        ],
    }
    file = written(job, world.place)
    with running(spark, Life(file=file, location=str(world.place / "snapshots"))) as runs:
        runs.wait_for_checkpoints()
        assert runs.stop() is ExitCode.OK

    result = check(file)

    assert (result.exit_code, "the job can start from here" in result.stdout) == (0, True), result.output


def test_a_check_says_no_of_a_sink_that_is_not_there(check: Check, world: World) -> None:
    sink = sink_of("kafka", world)
    sink["options"]["topic"] = "not-there"
    job = job_of({"format": "rate"}, {key: sink[key] for key in ("format", "options")}, sink["sql"])

    assert check(written(job, world.place)).exit_code != 0
