"""Delta sinks that publish each batch: rows are there long before a checkpoint, and once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.integration.runtime.killing import killer
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import write_job
from tests.integration.runtime.test_published_batches import EXPERIMENT, fill, name_of
from tests.integration.runtime.test_published_tables import TABLES, table_job, wanted
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
    tables = {name: DeltaTable(str(directory / name)).to_pyarrow_table() for name in TABLES}
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
    environment = {**EXPERIMENT, **killer(tmp_path)}
    with job_runs(file, tmp_path / "snapshots", name_of(topic)) as runs:
        for step in steps:
            process = runs.start(environment={**environment, "KILLED_AT": step})
            assert process.wait() == -9, process.output()
        last = runs.start(environment=environment)
        assert last.wait() == ExitCode.OK, last.output()
    assert found(tmp_path) == wanted()
