"""Runs up to what is there, one after the other, make of all input what one stream makes of it."""

from __future__ import annotations

import json
import logging
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.core import core
from tests.integration.runtime.embedded import Life, life_in, running
from tests.integration.runtime.graphs import (
    MODES,
    SCHEMA,
    Row,
    add_rows,
    difference,
    job,
    numbered,
    output,
    python,
    rows_of,
    source,
)
from tests.integration.runtime.power import Moment, Power
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.shapes import PAIRS, WINDOWS
from tests.integration.runtime.stories import NEVER
from tests.integration.runtime.test_lake_sources import lake_in, rows_from
from tests.integration.sinks.buckets import Bucket
from tests.jobs import job_file, sink, sql

from streamjob.errors import ExitCode
from streamjob.ids import Key
from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan
from streamjob.protocol.lifecycle import JobState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 12
"""Rows in a file of a source, a second apart."""
LOOP = {"from": "again", "feedback": True, "schema": "k STRING, n BIGINT"}


def run(spark: SparkSession, life: Life) -> None:
    """Run a job up to what is there."""
    with running(spark, replace(life, available_now=True)) as job:
        assert job.wait() is ExitCode.OK
        assert job.state is JobState.STOPPED


def graph(directory: Path, mode: str, interval: str = "300ms") -> Life:
    """Return a job with a fan-out, and with a chain that reads a channel and a source."""
    sources = [source("flights", directory / "flights"), source("weather", directory / "weather")]
    operators = [
        sql("odd", ["flights"], "SELECT k, n, at FROM flights WHERE n % 2 = 1"),
        sql("windows", ["odd"], WINDOWS.format("odd")),
        sql("pairs", ["odd", "weather"], PAIRS.format("odd", "", "weather")),
    ]
    policy = {"interval": interval, **MODES[mode]}
    return life_in(directory, job(directory, sources, operators, ["windows", "pairs"], checkpointing=policy))


def as_batch(spark: SparkSession, directory: Path) -> dict[str, Counter[Any]]:
    """Return what a batch makes of all input; of the windows, those that are not open."""
    session = spark.newSession()
    for name in ("flights", "weather"):
        session.read.schema(SCHEMA).json(str(directory / name)).createOrReplaceTempView(name)
    session.sql("SELECT k, n, at FROM flights WHERE n % 2 = 1").createOrReplaceTempView("odd")
    session.sql(WINDOWS.format("odd")).createOrReplaceTempView("windows")
    closed = "SELECT * FROM windows WHERE begin + 10 <= (SELECT unix_seconds(max(at)) FROM flights)"
    queries = {"windows": closed, "pairs": PAIRS.format("odd", "", "weather")}
    return {name: Counter(tuple(row) for row in session.sql(query).collect()) for name, query in queries.items()}


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("moment", "mode"),
    core(
        [(Moment.RECORD, "aligned"), (Moment.MANIFEST, "unaligned"), (Moment.COMMIT, "switching")],
        (Moment.RECORD, "aligned"),
    ),
)
def test_each_run_publishes_all_that_is_complete_and_keeps_open_windows_also_behind_a_kill(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    moment: Moment,
    mode: str,
) -> None:
    life, power = graph(tmp_path, mode), Power(monkeypatch)
    chains = plan(load_job(life.file).spec).chains
    assert any(chain.sources and chain.channels for chain in chains)

    def come(number: int) -> None:
        for name in ("flights", "weather"):
            add_rows(tmp_path / name, number, numbered(number * ROWS, ROWS))

    def check() -> None:
        for name, rows in as_batch(spark, tmp_path).items():
            assert not difference(rows, rows_of(output(tmp_path, name))), name

    for number in (0, 1):
        come(number)
    run(spark, life)
    check()

    come(2)
    with running(spark, replace(life, restarts=NEVER, available_now=True)) as killed:
        power.goes(moment, killed, lambda: None)
        killed.wait()
    assert power.is_off
    power.comes_back()
    come(3)
    run(spark, life)
    check()

    published = {name: output(tmp_path, name) for name in ("windows", "pairs")}
    with caplog.at_level(logging.INFO, "streamjob"):
        run(spark, life)
    assert "There was nothing new to read" in caplog.text
    assert published == {name: output(tmp_path, name) for name in published}


def test_a_run_that_is_stopped_early_tells_a_scheduler_so_and_the_next_one_reads_on(tmp_path: Path) -> None:
    files, rows = 40, tmp_path / "rows"
    numbers = source("numbers", tmp_path / "in")
    for number in range(files):
        add_rows(tmp_path / "in", number, numbered(number * ROWS, ROWS))
    kept = sql("kept", "numbers", "SELECT k, n FROM {}")
    written = sink("kept", "json", rows)
    policy = {"interval": "200ms"}
    file = write_job(tmp_path, job_file(kept, sources=[numbers], sinks=[written], name="stopped", checkpointing=policy))

    def found() -> Counter[tuple[str, int]]:
        lines = [json.loads(line) for part in rows.glob("*.json") for line in part.read_text().splitlines()]
        return Counter((row["k"], row["n"]) for row in lines)

    with job_runs(file, tmp_path / "snapshots", "stopped") as runs:
        told = runs.start("--available-now")
        runs.wait(lambda: found().total() > 0, "rows", told)
        told.send(signal.SIGTERM)
        assert told.wait() == ExitCode.INTERRUPTED, told.output()
        assert "before it had read all that was there; repeat it" in told.output()
        assert found().total() < files * ROWS

        repeated = runs.start("--available-now")
        assert repeated.wait() == ExitCode.OK, repeated.output()
    assert found() == Counter((row.k, row.n) for row in numbered(0, files * ROWS))


@pytest.mark.parametrize("mode", MODES)
def test_checkpoints_that_follow_each_other_without_a_pause_do_not_keep_it_from_its_end(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    life = graph(tmp_path, mode, interval="100ms")
    for name in ("flights", "weather"):
        for number in range(2):
            add_rows(tmp_path / name, number, numbered(number * ROWS, ROWS))
    run(spark, life)
    for name, rows in as_batch(spark, tmp_path).items():
        assert not difference(rows, rows_of(output(tmp_path, name))), name


def test_what_comes_while_it_runs_is_for_the_next_run(spark: SparkSession, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    add_rows(tmp_path / "rows", 0, numbered(0, 6, str(gate)))
    held = sql("out", ["held"], "SELECT k, n FROM held")
    operators = [jobs.python("held", "rows", "tests.integration.runtime.recording:gated"), held]
    life = life_in(tmp_path, job(tmp_path, [source("rows", tmp_path / "rows")], operators, ["out"]))

    with running(spark, replace(life, available_now=True)) as first:
        first.wait_for(lambda: first.state is JobState.RUNNING, "all chains")
        add_rows(tmp_path / "rows", 1, numbered(6, 6))
        gate.touch()
        assert first.wait() is ExitCode.OK
    assert rows_of(output(tmp_path, "out")) == Counter((row.k, row.n) for row in numbered(0, 6))

    run(spark, life)
    assert rows_of(output(tmp_path, "out")) == Counter((row.k, row.n) for row in numbered(0, 12))


def test_a_loop_comes_to_rest_and_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    rows = {"from": "rows"}
    operators = [
        {
            "name": "all",
            "inputs": [rows, LOOP],
            "sql": "SELECT k, n FROM rows UNION ALL SELECT k, n FROM again",
        },
        sql("again", ["all"], "SELECT k, n - 1 AS n FROM all WHERE n > 0"),
    ]
    plain = {**source("rows", tmp_path / "rows"), "watermark": None}
    del plain["watermark"]
    life = life_in(tmp_path, job(tmp_path, [plain], operators, ["all"]))
    given: list[Row] = []
    for number in range(2):
        more = numbered(number * 6, 6)
        add_rows(tmp_path / "rows", number, more)
        given += more
        run(spark, life)

        expected = Counter((row.k, n) for row in given for n in range(row.n + 1))
        assert not difference(expected, rows_of(output(tmp_path, "all")))


@pytest.mark.server
def test_topics_are_read_to_where_they_end_at_the_moment_also_beside_a_channel(
    spark: SparkSession, kafka_server: KafkaServer, topic: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    def come(rows: list[Row], partition: int) -> None:
        kafka_server.produce(topic, [(row.k, json.dumps(row.fields())) for row in rows], partition=partition)

    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 10, "minOffsetsPerTrigger": 10}
    parsed = f"SELECT from_json(CAST(value AS STRING), '{SCHEMA}') AS row FROM topic"
    operators = [
        sql("parsed", ["topic"], parsed),
        python("held", "rows", "gated"),
        sql("all", ["parsed", "held"], "SELECT row.k, row.n FROM parsed UNION ALL SELECT k, n FROM held"),
    ]
    sources = [jobs.topic("topic", kafka_server.bootstrap, topic, options), source("rows", tmp_path / "rows")]
    life = life_in(tmp_path, job(tmp_path, sources, operators, ["all"]))
    (last,) = (chain for chain in plan(load_job(life.file).spec).chains if chain.uid == "all")
    assert last.sources
    assert last.channels
    for partition in (0, 1):
        come(numbered(100 * partition, 20), partition)
    add_rows(tmp_path / "rows", 0, numbered(300, 3, str(gate)))

    with running(spark, replace(life, available_now=True)) as first:
        first.wait_for_batches(2)
        come(numbered(20, 5), 0)
        kafka_server.add_partitions(topic, 3)
        come(numbered(200, 5), 2)
        gate.touch()
        assert first.wait() is ExitCode.OK
    begun = [*numbered(0, 20), *numbered(100, 20), *numbered(300, 3)]
    assert not difference(Counter((row.k, row.n) for row in begun), rows_of(output(tmp_path, "all")))

    run(spark, life)
    everything = [*begun, *numbered(20, 5), *numbered(200, 5)]
    assert not difference(Counter((row.k, row.n) for row in everything), rows_of(output(tmp_path, "all")))


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_lake_table_is_read_up_to_its_newest_snapshot(spark: SparkSession, tmp_path: Path, form: str) -> None:
    lake, read = lake_in(tmp_path, form), 0
    table = lake.source()
    rows = {"name": "rows", **table, "options": {**table["options"], "maxFilesPerTrigger": 1}}
    life = life_in(tmp_path, job(tmp_path, [rows], [sql("out", ["rows"], "SELECT id FROM rows")], ["out"]))
    for _ in range(3):
        for _ in range(2):
            lake.append(rows_from(read))
            read += 6
        run(spark, life)
        assert rows_of(output(tmp_path, "out")) == Counter((each,) for each in range(read))


@pytest.mark.server
def test_a_bucket_is_read_up_to_what_one_listing_finds(bucket: Bucket, tmp_path: Path) -> None:
    options = {"path": f"{bucket.path}/in", "maxFilesPerTrigger": "1"}
    rows = {"name": "rows", "format": "json", "schema": "n BIGINT", "options": options}
    written = sink("rows", "json", tmp_path / "out")
    file = write_job(tmp_path, job_file(sources=[rows], sinks=[written], name="bucket"))
    with job_runs(file, tmp_path / "snapshots", "bucket") as runs:
        for number in range(1, 3):
            for each in (2 * number - 2, 2 * number - 1):
                bucket.objects.put(Key(f"in/{each}.json"), b'{"n": %d}\n' % each)
            process = runs.start("--available-now", environment=bucket.server.environment)
            assert process.wait() == ExitCode.OK, process.output()
            lines = [line for part in (tmp_path / "out").glob("*.json") for line in part.read_text().splitlines()]
            assert sorted(json.loads(line)["n"] for line in lines) == list(range(2 * number))
