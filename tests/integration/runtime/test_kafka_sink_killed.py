"""A job into Kafka has the rows of a batch there, whatever is killed on the way: the runtime, the broker."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import Purchases, Rows, write_job
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

RECORDS = {
    "name": "records",
    "inputs": ["totals"],
    "sql": "SELECT customer AS key, to_json(struct(customer, CAST(minute AS string) AS minute, orders, paid, amount)) "
    "AS value FROM totals",
}


@pytest.fixture
def fragile(kafka_server: KafkaServer) -> Iterator[KafkaServer]:
    """Return a broker of its own, which the test may kill; there is one where the shared one can be had."""
    with KafkaServer() as server:
        yield server


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [7])
def test_runtime_and_broker_killed_at_random_moments_the_topic_holds_the_rows_of_the_batch(
    fragile: KafkaServer, purchases: Purchases, expected: Rows, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    fragile.create_topic("totals", 2)
    options = {"kafka.bootstrap.servers": fragile.bootstrap, "topic": "totals"}
    sink = {"name": "topic", "input": "records", "format": "kafka", "options": options}
    job = purchases.job(sinks=[sink])
    file = write_job(tmp_path, {**job, "operators": [*job["operators"], RECORDS]})

    with job_runs(file, tmp_path / "snapshots", "purchases") as runs:
        for life in range(2):
            process = runs.start()
            runs.wait_for_progress(runs.furthest(), process)
            time.sleep(chance.uniform(0, 0.5))
            if life == 1:
                # The broker goes, and comes back: the process goes on by itself.
                before = runs.furthest()
                fragile.kill()
                fragile.start()
                runs.wait_for_progress(before, process)
            process.kill()
        last = runs.start()
        assert last.wait() == 0, last.output()
        assert runs.records()[-1].kind == "final"
        staged = [name for name in runs.files() if name.startswith("staged/")]

    rows = [json.loads(message.value or b"") for message in fragile.consume("totals")]
    found = Counter((row["customer"], row["minute"], row["orders"], row["paid"], row["amount"]) for row in rows)
    assert found == Counter(
        {(row[0], row[1].strftime("%Y-%m-%d %H:%M:%S"), *row[2:]): count for row, count in expected.items()}
    )
    assert fragile.open_transactions() == []
    assert staged == []
