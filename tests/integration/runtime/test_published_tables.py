"""Sinks of PostgreSQL that publish each batch: rows are there long before a checkpoint, and once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests import jobs
from tests.integration.runtime.killing import killer
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.test_published_batches import RECORDS, expected, fill, name_of
from tests.integration.sinks.databases import Database
from tests.jobs import job_file, sql
from tests.servers.kafka import KafkaServer

from streamjob.errors import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

TABLES = {
    "rows": "n bigint, d bigint",
    "minutes": "minute bigint, k int, events bigint, total bigint",
    "latest": "k int PRIMARY KEY, n bigint, events bigint",
}
KEYS = {"latest": {"mode": "upsert", "key": "k"}}
STEPS = (
    ("streamjob_runtime.sinks.postgresql.journal Journal.add 5",),
    ("streamjob_runtime.chain.emissions.emission_lock EmissionLock.emit 9",),
    (
        "streamjob_runtime.sinks.postgresql.journal Journal.add 31",
        "streamjob_runtime.sinks.postgresql.sink PostgresqlSink.measure 3",
    ),
    (
        "streamjob_runtime.checkpointing.ledger Ledger.complete 1",
        "streamjob_runtime.sinks.postgresql.journal Journal.forget 0",
    ),
)


def table_job(
    broker: KafkaServer,
    topic: str,
    interval: str,
    options: Callable[[str], Mapping[str, str]],
    kind: str = "postgresql",
    **fields: Any,
) -> dict[str, Any]:
    """Return a job that writes rows, counts by minute, and the latest count of each key, each with its batch.

    Args:
        options: returns the options of the sink for a table.
    """
    limit = {"maxOffsetsPerTrigger": 40, "startingOffsets": "earliest"}
    timed = {"watermark": {"column": "timestamp", "delay": "10s"}, "bounded": True}
    row = "from_json(CAST(value AS STRING), 'n BIGINT, k INT') AS row, timestamp"
    begin = "1767225600"
    queries = {
        "rows": f"SELECT row.n AS n, row.n * 2 AS d FROM (SELECT {row} FROM {{}})",
        "minutes": f"SELECT (unix_seconds(window.start) - {begin}) DIV 60 AS minute, k, events, total FROM (SELECT "
        "window(timestamp, '1 minute') AS window, row.k AS k, count(*) AS events, sum(row.n) AS total "
        f"FROM (SELECT {row} FROM {{}}) GROUP BY ALL)",
        "latest": "SELECT row.k AS k, max(row.n) AS n, count(*) AS events "
        f"FROM (SELECT {row} FROM {{}}) GROUP BY row.k",
    }
    return job_file(
        *(
            sql(f"of_{name}", f"from_{name}", query, **({"outputMode": "update"} if name == "latest" else {}))
            for name, query in queries.items()
        ),
        sources=[jobs.topic(f"from_{name}", broker.bootstrap, f"{topic}-in", limit, **timed) for name in queries],
        sinks=[
            jobs.sink(
                f"of_{name}",
                kind,
                name=name,
                options={**options(name), **KEYS.get(name, {})},
                publish="batch",
            )
            for name in queries
        ],
        name=name_of(topic),
        parallelism=2,
        maxParallelism=2,
        checkpointing={"interval": interval},
        **fields,
    )


def options_in(database: Database) -> Callable[[str], Mapping[str, str]]:
    return lambda table: {**database.options(table), "password": "${env:SECRET}"}


def found(database: Database) -> dict[str, Counter[Any]]:
    return {name: Counter(database.execute(f"SELECT * FROM {name}")) for name in TABLES}


def wanted(records: int = RECORDS) -> dict[str, Counter[Any]]:
    last = {k: [number for number in range(records) if number % 7 == k] for k in range(7)}
    return {**expected(records), "latest": Counter((k, numbers[-1], len(numbers)) for k, numbers in last.items())}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("steps", STEPS, ids=lambda steps: steps[-1].split()[1])
def test_killed_between_transaction_journal_and_checkpoint_each_row_is_in_its_table_once(
    kafka_server: KafkaServer, database: Database, topic: str, tmp_path: Path, steps: tuple[str, ...]
) -> None:
    fill(kafka_server, topic)
    for name, columns in TABLES.items():
        database.execute(f"CREATE TABLE {name} ({columns})")
    interval = "2s" if any("complete" in each for each in steps) else "1h"
    file = write_job(tmp_path, table_job(kafka_server, topic, interval, options_in(database)))
    environment = {**killer(tmp_path), "SECRET": database.server.password}
    with job_runs(file, tmp_path / "snapshots", name_of(topic)) as runs:
        for step in steps:
            process = runs.start(environment={**environment, "KILLED_AT": step})
            assert process.wait() == -9, process.output()
        last = runs.start(environment=environment)
        assert last.wait() == ExitCode.OK, last.output()
    assert found(database) == wanted()


@pytest.mark.timeout(400)
def test_rows_are_there_before_any_checkpoint_and_a_deleted_journal_stops_the_job(
    kafka_server: KafkaServer, database: Database, topic: str, tmp_path: Path
) -> None:
    fill(kafka_server, topic)
    for name, columns in TABLES.items():
        database.execute(f"CREATE TABLE {name} ({columns})")
    file = write_job(tmp_path, table_job(kafka_server, topic, "1h", options_in(database)))
    environment = {"SECRET": database.server.password}
    with job_runs(file, tmp_path / "snapshots", name_of(topic)) as runs:
        process = runs.start(environment=environment)
        runs.wait(lambda: found(database)["rows"].total() >= 200, "200 rows", process)
        process.kill()
        assert [each.id for each in runs.completions()] == [1]
        before = found(database)
        assert before["latest"]
        database.execute("DROP TABLE streamjob.journal")

        again = runs.start(environment=environment)
        assert again.wait() == ExitCode.CANNOT_RESTORE, again.output()
        assert "was deleted. So it is not known which rows were published behind the checkpoint" in again.output()
    assert found(database) == before
