"""A job that appends to lake tables and applies changes to others is killed between their commits, again and again.

The changes leave columns out, as Debezium does. In the end each table is what the changes make of it, once.
"""

from __future__ import annotations

import json
import random
import secrets
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.integration.runtime.killing import killer
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.sinks.lakes import Lake
from tests.jobs import job_file, sink, sql, topic
from tests.servers.kafka import KafkaServer

from streamjob.job.connectors.changes import UNAVAILABLE

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.thorough]

CHANGES, KEYS = 320, 12
STEPS = [
    "deltalake.table DeltaTable.create_write_transaction 1",
    "deltalake.table TableMerger.execute 0",
    "pyiceberg.table Transaction.commit_transaction 4",
    "pyiceberg.table Transaction.commit_transaction 1",
]
"""Before which call of a process it is killed; the second and the fourth one in the commits of a start."""
TABLES = ("log", "rows")
"""To one of them the job appends the kind of each change; to the other it applies the changes."""

Rows = dict[int, tuple[str, int]]


def changes() -> tuple[list[str], list[str], Rows]:
    """Return changes as Debezium describes them, the kind of each, and the table that they make."""
    chance, table = random.Random(36), Rows()
    records, kinds = [], []
    for number in range(CHANGES):
        key = chance.randrange(KEYS)
        row: dict[str, Any] = {"id": key, "doc": f"doc {number}", "n": number}
        before: dict[str, Any] | None = None
        after: dict[str, Any] | None = row
        if key not in table:
            operation, kind = "c", "insert"
        elif chance.random() < 0.2:
            operation, kind = "d", "delete"
            before, after = {"id": key, "doc": "", "n": 0}, None
        else:
            operation, kind = "u", "update_postimage"
            if chance.random() < 0.6:
                row["doc"] = UNAVAILABLE
        if after is None:
            del table[key]
        else:
            table[key] = (table[key][0] if row["doc"] == UNAVAILABLE else row["doc"], number)
        envelope = {"before": before, "after": after, "op": operation, "ts_ms": number, "source": {"ts_ms": number}}
        records.append(json.dumps(envelope))
        kinds.append(kind)
    return records, kinds, table


def job(directory: Path, lake: Lake, server: KafkaServer, read: str) -> Path:
    """Write a job that appends the kinds of changes to a table of each kind, and applies the changes to another."""
    source = topic(
        "customers",
        server.bootstrap,
        read,
        {"maxOffsetsPerTrigger": 10},
        bounded=True,
        changes="debezium",
        value={"format": "json", "schema": "id BIGINT, doc STRING, n BIGINT"},
        columns=["offset", "value.id", "value.doc", "value.n", "_change_type"],
    )
    operators = [
        sql("log", "customers", "SELECT offset, _change_type AS kind FROM customers"),
        sql("rows", "customers", "SELECT id, doc, n, _change_type FROM customers"),
    ]
    deltas, icebergs = [], []
    for name, changed in zip(TABLES, ({}, {"mode": "upsert", "key": "id"}), strict=True):
        deltas.append(sink(name, "delta", directory / "tables" / name, name=f"delta_{name}", options=changed))
        iceberg = lake.options(f"db.{name}", password="${env:SECRET}", createTable="true", **changed)
        icebergs.append(sink(name, "iceberg", name=f"iceberg_{name}", options=dict(iceberg)))
    # A checkpoint commits to the tables of Delta first.
    how = {"name": "killed", "checkpointing": {"interval": "1s"}}
    return write_job(directory, job_file(*operators, sources=[source], sinks=[*deltas, *icebergs], **how))


def stored(directory: Path, lake: Lake) -> dict[str, tuple[Counter[Any], Counter[Any]]]:
    """Return the log and the rows of each kind of table, as its reader finds them."""
    delta = [DeltaTable(directory / "tables" / name).to_pyarrow_table() for name in TABLES]
    iceberg = [lake.load(f"db.{name}").scan().to_arrow() for name in TABLES]
    found = {}
    for form, (log, rows) in (("delta", delta), ("iceberg", iceberg)):
        found[form] = (
            Counter((each["offset"], each["kind"]) for each in log.to_pylist()),
            Counter((each["id"], each["doc"], each["n"]) for each in rows.to_pylist()),
        )
    return found


@pytest.mark.timeout(600)
def test_killed_between_its_commits_it_appends_each_row_once_and_keeps_what_changes_leave_out(
    kafka_server: KafkaServer, lake: Lake, tmp_path: Path
) -> None:
    records, kinds, table = changes()
    read = f"killed-{secrets.token_hex(4)}"
    kafka_server.create_topic(read, 1)
    kafka_server.produce(read, [("k", each) for each in records], partition=0)
    environment = {**killer(tmp_path), "SECRET": lake.database.server.password}
    log = Counter(enumerate(kinds))

    with job_runs(job(tmp_path, lake, kafka_server, read), tmp_path / "snapshots", "killed") as runs:
        for step in STEPS:
            process = runs.start(environment={**environment, "KILLED_AT": step})
            assert process.wait(300) == -9, process.output()
            process.kill()
        for appended, _ in stored(tmp_path, lake).values():
            assert Counter() < appended < log, "the kills fell into the middle of the job"
        last = runs.start(environment=environment)
        assert last.wait(300) == 0, last.output()

    rows = Counter((key, doc, n) for key, (doc, n) in table.items())
    assert stored(tmp_path, lake) == {"delta": (log, rows), "iceberg": (log, rows)}
