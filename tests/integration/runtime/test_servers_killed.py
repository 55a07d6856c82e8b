"""Two topics, joined and counted into a topic and tables: each row once, whatever is killed on the way."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.integration.runtime import purchases_by_kafka as by_kafka
from tests.integration.runtime.fate import Fate
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import Purchases, Rows, write_job
from tests.integration.sinks.databases import Database
from tests.integration.sinks.lakes import Lake
from tests.servers.kafka import KafkaServer

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [23])
def test_runtime_broker_and_database_killed_at_random_moments_topic_and_tables_hold_the_rows_of_the_batch(
    fragile_broker: KafkaServer,
    fragile_database: Database,
    purchases: Purchases,
    expected: Rows,
    tmp_path: Path,
    seed: int,
) -> None:
    chance = random.Random(seed)
    warehouse = tmp_path / "warehouse"
    warehouse.mkdir()
    places = by_kafka.make_places(fragile_broker, Lake(fragile_database, warehouse.as_uri()))
    file = write_job(tmp_path, by_kafka.job(fragile_broker, purchases, places))
    password = fragile_database.server.password

    with job_runs(file, tmp_path / "snapshots", "purchases") as runs:
        fate = Fate(chance, runs)
        for victim in chance.sample([fragile_broker, fragile_database.server], 2):
            process = runs.start(environment=places.environment)
            assert fate.take(process, [victim]), "it ended before it was killed"
        last = runs.start(*by_kafka.AT_ONCE, environment=places.environment)
        assert last.wait() == 0, last.output()
        assert runs.records()[-1].kind == "final"
        shown = "".join(file.read_text(errors="replace") for file in tmp_path.glob("output-*.log"))
        stored = runs.files()

    assert places.rows() == dict.fromkeys(("topic", "inserted", "replaced", "added"), expected)
    assert places.left_behind() == []
    assert [name for name in stored if name.startswith("staged/")] == []
    assert password not in shown
    assert password.encode() not in b"".join(stored.values())
