"""A job that applies changes is killed before each step of its commits; its tables are those of a batch in the end."""

from __future__ import annotations

import json
import os
import random
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from tests.integration.runtime.killing import killer
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.sinks.lakes import Lake
from tests.jobs import files, job_file, sink, sql
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow, pytest.mark.thorough]

FILES, ROWS, KEYS = 30, 25, 12
NAMES = ("changes", "sums")
STEPS = {
    "postgresql": [
        "streamjob_runtime.sinks.postgresql.sink PostgresqlSink._apply 0",
        "streamjob_runtime.sinks.postgresql.sink PostgresqlSink._record 1",
        "streamjob_runtime.sinks.postgresql.staging StagingTables.committed 0",
    ],
    "kafka": [
        "streamjob_runtime.sinks.kafka.transactions Producer.send 1",
        "streamjob_runtime.sinks.kafka.transactions Producer.commit 0",
        "streamjob_runtime.sinks.kafka.sink KafkaSink._delete_committed 2",
    ],
    "iceberg": [
        "streamjob_runtime.sinks.iceberg.sink IcebergSink._merge 1",
        "pyiceberg.table Transaction.commit_transaction 0",
        "pyiceberg.io.pyarrow PyArrowFileIO.delete 2",
    ],
    "delta": [
        "deltalake.table DeltaTable.merge 1",
        "deltalake.table TableMerger.execute 0",
        "deltalake.table DeltaTable.version 3",
    ],
}
"""Before which call of a process it is killed, by the number of calls before; the last ones are after a commit."""


def write_changes(directory: Path) -> dict[int, int]:
    """Write files of changes; return the table that they make, one after the other."""
    chance, table = random.Random(11), dict[int, int]()
    directory.mkdir()
    for number in range(FILES):
        lines = []
        for _ in range(ROWS):
            key, amount = chance.randrange(KEYS), chance.randrange(1000)
            kind = "delete" if key in table and chance.random() < 0.3 else "insert"
            if kind == "delete":
                amount = table.pop(key)
            elif key in table:
                lines.append({"_change_type": "update_preimage", "id": key, "amount": table[key]})
                kind = "update_postimage"
            if kind != "delete":
                table[key] = amount
            lines.append({"_change_type": kind, "id": key, "amount": amount})
        file = directory / f"{number:03}.json"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        # Spark reads files in the order of these times.
        os.utime(file, (1_700_000_000 + number,) * 2)
    return table


def job(directory: Path, form: str, options: Mapping[str, Mapping[str, str]]) -> Path:
    """Write a job that applies changes in one place, and keeps sums of them in another.

    Args:
        directory: has the files of changes, and gets the job file.
        form: the format of both sinks.
        options: of the sinks for `changes` and `sums`.
    """
    encoded: dict[str, Any] = {key: {"format": "json"} for key in ("key", "value")} if form == "kafka" else {}
    sums = (
        "SELECT id, sum(IF(_change_type IN ('delete', 'update_preimage'), -amount, amount)) AS amount "
        "FROM changes GROUP BY id"
    )
    described = job_file(
        sql("sums", "changes", sums, outputMode="update"),
        sources=[files("changes", "in", "_change_type STRING, id BIGINT, amount BIGINT", bounded=True)],
        sinks=[sink(name, form, **encoded, options=dict(given)) for name, given in options.items()],
        name="killed",
        checkpointing={"interval": "1s"},
    )
    return write_job(directory, described)


class Places:
    """Tables or topics of one kind, for changes and for sums.

    Args:
        form: the format of the sinks.
        lake: has the tables, and the database has those of PostgreSQL.
        broker: has the topics.
        directory: has the tables of Delta, which the job makes.
    """

    def __init__(self, form: str, lake: Lake, broker: KafkaServer, directory: Path) -> None:
        self._form, self._lake, self._broker, self._directory = form, lake, broker, directory
        self._topic = f"killed-{secrets.token_hex(4)}"
        for name in NAMES:
            if form == "kafka":
                broker.create_topic(f"{self._topic}-{name}", 2, cleanup_policy="compact")
            elif form == "postgresql":
                lake.database.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, amount bigint NOT NULL)")
            elif form == "iceberg":
                fields = (NestedField(1, "id", LongType(), required=True), NestedField(2, "amount", LongType()))
                lake.make(f"db.{name}", Schema(*fields))

    def options(self) -> dict[str, Mapping[str, str]]:
        """Return the options of the sinks."""
        upsert, password = {"mode": "upsert", "key": "id"}, "${env:SECRET}"
        if self._form == "kafka":
            servers = {"kafka.bootstrap.servers": self._broker.bootstrap}
            return {name: {**servers, **upsert, "topic": f"{self._topic}-{name}"} for name in NAMES}
        if self._form == "postgresql":
            return {name: {**self._lake.database.options(name, **upsert), "password": password} for name in NAMES}
        if self._form == "delta":
            return {name: {"path": str(self._directory / name), **upsert} for name in NAMES}
        return {name: self._lake.options(f"db.{name}", password=password, **upsert) for name in NAMES}

    def rows(self, name: str) -> dict[int, int]:
        """Return what a reader finds."""
        if self._form == "iceberg":
            return dict(self._lake.rows(f"db.{name}"))
        if self._form == "postgresql":
            return dict(self._lake.database.execute(f"SELECT id, amount FROM {name}"))
        if self._form == "delta":
            stored = DeltaTable(self._directory / name).to_pyarrow_table().to_pylist()
            return {row["id"]: row["amount"] for row in stored}
        messages = self._broker.consume(f"{self._topic}-{name}")
        found = {json.loads(each.key or b"")["id"]: each.value for each in messages}
        return {key: json.loads(value)["amount"] for key, value in found.items() if value is not None}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("form", STEPS)
def test_killed_before_each_step_of_its_commits_it_leaves_what_a_batch_leaves(
    kafka_server: KafkaServer, lake: Lake, tmp_path: Path, form: str
) -> None:
    environment = {**killer(tmp_path), "SECRET": lake.database.server.password}
    expected = write_changes(tmp_path / "in")
    places = Places(form, lake, kafka_server, tmp_path / "tables")

    with job_runs(job(tmp_path, form, places.options()), tmp_path / "snapshots", "killed") as runs:
        for step in STEPS[form]:
            process = runs.start(environment={**environment, "KILLED_AT": step})
            assert process.wait(300) == -9, process.output()
            process.kill()
        assert len(places.rows("changes")) > 0, "the kills fell into the middle of the job"
        assert runs.records()[-1].kind != "final"
        last = runs.start(environment=environment)
        assert last.wait(300) == 0, last.output()

    assert places.rows("changes") == expected
    assert places.rows("sums") == {key: expected.get(key, 0) for key in range(KEYS)}
