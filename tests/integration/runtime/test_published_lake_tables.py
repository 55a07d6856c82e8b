"""Delta sinks that publish each batch: rows are there long before a checkpoint, and once."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.integration.runtime.killing import killer
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.test_published_batches import (
    fill,
    make_topics,
    name_of,
    published,
    publishing_job,
)
from tests.integration.runtime.test_published_tables import TABLES, options_in, table_job, wanted
from tests.integration.runtime.test_published_tables import found as found_in
from tests.integration.sinks.databases import Database
from tests.servers.kafka import KafkaServer

from streamjob.errors import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

STEPS = (
    ("streamjob_runtime.sinks.delta.journal Journal.recorded 5",),
    ("streamjob_runtime.chain.emissions.emission_lock EmissionLock.emit 9",),
    (
        "streamjob_runtime.sinks.delta.journal Journal.recorded 31",
        "streamjob_runtime.sinks.delta.sink DeltaSink.measure 3",
    ),
    (
        "streamjob_runtime.checkpointing.ledger Ledger.complete 1",
        "streamjob_runtime.sinks.delta.journal Journal.forgotten 0",
    ),
)


def found(directory: Path) -> Mapping[str, Counter[Any]]:
    tables = {
        name: DeltaTable(str(directory / name)).to_pyarrow_table()
        for name in TABLES
        if DeltaTable.is_deltatable(str(directory / name))
    }
    return {
        name: Counter(tuple(row[each.split()[0]] for each in TABLES[name].split(", ")) for row in table.to_pylist())
        for name, table in tables.items()
    }


@pytest.mark.timeout(400)
@pytest.mark.parametrize("steps", STEPS, ids=lambda steps: steps[-1].split()[1])
def test_killed_between_transaction_journal_and_checkpoint_each_row_is_in_its_table_once(
    kafka_server: KafkaServer, topic: str, tmp_path: Path, steps: tuple[str, ...]
) -> None:
    fill(kafka_server, topic)
    interval = "2s" if any("complete" in each for each in steps) else "1h"
    job = table_job(kafka_server, topic, interval, lambda table: {"path": str(tmp_path / table)}, "delta")
    file = write_job(tmp_path, job)
    environment = killer(tmp_path)
    with job_runs(file, tmp_path / "snapshots", name_of(topic)) as runs:
        for step in steps:
            process = runs.start(environment={**environment, "KILLED_AT": step})
            assert process.wait() == -9, process.output()
        last = runs.start(environment=environment)
        assert last.wait() == ExitCode.OK, last.output()
    assert found(tmp_path) == wanted()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["delta", "postgresql", "kafka"])
def test_a_sink_whose_options_change_behind_a_stop_goes_on_at_once(
    kafka_server: KafkaServer, database: Database, topic: str, tmp_path: Path, kind: str
) -> None:
    fill(kafka_server, topic)
    make_topics(kafka_server, topic)
    for name, columns in TABLES.items():
        database.execute(f"CREATE TABLE {name} ({columns})")

    def to_table(table: str, changed: bool) -> Mapping[str, str]:
        if kind == "delta":
            return {"path": str(tmp_path / table), **({"storage.timeout": "59s"} if changed else {})}
        options = options_in(database)(table)
        return {**options, "url": f"{options['url']}?connect_timeout=59"} if changed else options

    def job(changed: bool = False) -> dict[str, Any]:
        if kind == "kafka":
            more = {"kafka.linger.ms": "7"} if changed else {}
            return publishing_job(kafka_server, topic, bounded=True, options=more)
        return table_job(kafka_server, topic, "1h", lambda table: to_table(table, changed), kind)

    def seen() -> Mapping[str, Counter[Any]]:
        if kind == "kafka":
            return published(kafka_server, topic)
        return found(tmp_path) if kind == "delta" else found_in(database)

    file = write_job(tmp_path, job())
    environment = {"SECRET": database.server.password}
    with job_runs(file, tmp_path / "snapshots", name_of(topic)) as runs:
        process = runs.start(environment=environment)
        runs.wait(lambda: seen().get("rows", Counter[Any]()).total() >= 200, "200 rows", process)
        process.send(signal.SIGTERM)
        assert process.wait() == ExitCode.OK, process.output()
        write_job(tmp_path, job(changed=True))
        last = runs.start(environment=environment)
        assert last.wait() == ExitCode.OK, last.output()
        assert "restart" not in last.output().lower()
    rows = seen()
    assert rows == {name: each for name, each in wanted().items() if name in rows}
