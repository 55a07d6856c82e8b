"""Two topics, joined and counted into a topic and tables: each row once, whatever is killed on the way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.runtime import purchases_by_kafka as by_kafka
from tests.integration.runtime.fate import Fate, Victim
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import Purchases, Rows, write_job
from tests.integration.sinks.databases import Database
from tests.servers.kafka import KafkaServer
from tests.servers.postgresql import PostgresqlServer, find_programs
from tests.servers.process import required

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]


@pytest.fixture
def broker(kafka_server: KafkaServer) -> Iterator[KafkaServer]:
    """Return a broker of its own, which the test may kill; there is one where the shared one can be had."""
    with KafkaServer() as server:
        yield server


@pytest.fixture
def database() -> Iterator[Database]:
    """Return a database on a server of its own, which the test may kill."""
    if find_programs() is None and not required():
        pytest.skip("there is no PostgreSQL on this machine")
    with PostgresqlServer() as server:
        server.make_database("purchases")
        yield Database(server, "purchases")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [23])
def test_runtime_broker_and_database_killed_at_random_moments_topic_and_tables_hold_the_rows_of_the_batch(
    broker: KafkaServer, database: Database, purchases: Purchases, expected: Rows, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    by_kafka.fill(broker, purchases)
    by_kafka.make_places(broker, database)
    file = write_job(tmp_path, by_kafka.job(broker, database))
    environment = {"STREAMJOB_TEST_PASSWORD": database.server.password}
    victims = chance.sample(list(Victim), len(Victim))

    with job_runs(file, tmp_path / "snapshots", "purchases") as runs:
        fate = Fate(chance, runs, broker, database.server)
        assert fate.take(runs.start(environment=environment), victims), "it ended before all were killed"
        last = runs.start(environment=environment)
        assert last.wait() == 0, last.output()
        assert runs.records()[-1].kind == "final"
        staged = [name for name in runs.files() if name.startswith("staged/")]

    rows = by_kafka.in_utc(expected)
    assert by_kafka.rows_seen(broker, database) == dict.fromkeys(("topic", "inserted", "replaced"), rows)
    assert by_kafka.left_open(broker, database) == []
    assert staged == []
