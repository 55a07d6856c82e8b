"""A job that replaces tables by its whole result is killed between their commits, again and again.

Whatever a reader sees at any moment, and each version that the tables keep, is the whole result after some batch.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.integration.runtime.killing import killer
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import add_file, write_job
from tests.integration.sinks.databases import Database
from tests.integration.sinks.lakes import Lake
from tests.jobs import files, job_file, sink, sql

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

FILES, KEYS = 36, 9
STEPS = [
    "deltalake.table DeltaTable.create_write_transaction 1",
    "pyiceberg.table Transaction.commit_transaction 0",
    "streamjob_runtime.sinks.postgresql.sink PostgresqlSink.commit_together 2",
    "streamjob_runtime.sinks.postgresql.staging StagingTables.committed 1",
]
"""Before which call of a process it is killed; the second one in the commit of a start."""

Whole = frozenset[tuple[int, int]]


def write_events(directory: Path) -> list[Whole]:
    """Write a file for each batch; return the whole result before the first batch, and after each."""
    chance, counts = random.Random(40), Counter[int]()
    wholes = [Whole()]
    for number in range(FILES):
        keys = [chance.randrange(KEYS) for _ in range(4)]
        add_file(directory, number, [{"k": key} for key in keys])
        counts.update(keys)
        wholes.append(Whole(counts.items()))
    return wholes


def job(directory: Path, lake: Lake, events: Path) -> Path:
    """Write a job whose checkpoints commit to Delta first, then to Iceberg, then to PostgreSQL."""
    replace = {"mode": "replace"}
    iceberg = lake.options("db.totals", password="${env:SECRET}", createTable="true", **replace)
    rows = {**lake.database.options("totals", **replace), "password": "${env:SECRET}"}
    sinks = [
        sink("totals", "delta", directory / "totals", name="delta", options=replace),
        sink("totals", "iceberg", name="iceberg", options=dict(iceberg)),
        sink("totals", "postgresql", name="postgresql", options=rows),
    ]
    totals = sql("totals", "events", "SELECT k, count(*) AS n FROM {} GROUP BY k", outputMode="complete")
    source = files("events", events, "k BIGINT", bounded=True)
    how = {"name": "replaced", "checkpointing": {"interval": "1s"}}
    return write_job(directory, job_file(totals, sources=[source], sinks=sinks, **how))


def whole(rows: Any) -> Whole:
    return Whole((row["k"], row["n"]) for row in rows.to_pylist())


def in_delta(path: Path) -> list[Whole]:
    """Return what each version of the Delta table has, oldest first."""
    newest = DeltaTable(path).version()
    return [whole(DeltaTable(path, version=number).to_pyarrow_table()) for number in range(newest + 1)]


def in_iceberg(lake: Lake) -> list[Whole]:
    """Return what each snapshot of the Iceberg table has, oldest first."""
    table = lake.load("db.totals")
    return [whole(table.scan(snapshot_id=each.snapshot_id).to_arrow()) for each in table.metadata.snapshots]


@contextmanager
def watched(database: Database) -> Iterator[list[Whole]]:
    """Read the table of the database again and again; yield what is found, each time that it has changed."""
    found, over = list[Whole](), threading.Event()

    def watch() -> None:
        with database.server.connect(database.name) as reader:
            while not over.is_set():
                now = Whole(reader.execute("SELECT k, n FROM totals").fetchall())
                if not found or found[-1] != now:
                    found.append(now)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


@pytest.mark.timeout(600)
def test_killed_between_its_commits_it_replaces_each_table_by_newer_whole_results(
    database: Database, lake: Lake, tmp_path: Path
) -> None:
    wholes = write_events(tmp_path / "events")
    assert len(set(wholes)) == FILES + 1
    database.execute("CREATE TABLE totals (k bigint PRIMARY KEY, n bigint NOT NULL)")
    environment = {**killer(tmp_path), "SECRET": database.server.password}

    with (
        watched(database) as seen,
        job_runs(job(tmp_path, lake, tmp_path / "events"), tmp_path / "snapshots", "replaced") as runs,
    ):
        for step in STEPS:
            process = runs.start(environment={**environment, "KILLED_AT": step})
            assert process.wait(300) == -9, process.output()
            process.kill()
        assert wholes.index(in_delta(tmp_path / "totals")[-1]) in range(1, FILES), "the kills fell into the middle"
        last = runs.start(environment=environment)
        assert last.wait(300) == 0, last.output()

    for versions in (in_delta(tmp_path / "totals"), in_iceberg(lake), seen):
        places = [wholes.index(each) for each in versions]
        assert places == sorted(places)
        assert places[-1] == FILES
        assert len(set(places)) > len(STEPS), "each process has committed"
    assert database.staging_tables() == lake.stray("db.totals") == []
