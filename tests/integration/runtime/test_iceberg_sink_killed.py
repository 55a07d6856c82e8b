"""A job into an Iceberg table has the rows of a batch there, whatever is killed: the runtime, the catalog."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import Purchases, Rows, write_job
from tests.integration.sinks.databases import Database
from tests.integration.sinks.lakes import Lake
from tests.servers.postgresql import PostgresqlServer, find_programs
from tests.servers.process import required

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

PASSWORD = "${env:STREAMJOB_TEST_PASSWORD}"
TOTALS = Schema(
    NestedField(1, "customer", StringType(), required=True),
    NestedField(2, "minute", TimestamptzType()),
    NestedField(3, "orders", LongType()),
    NestedField(4, "paid", LongType()),
    NestedField(5, "amount", LongType()),
)


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[Lake]:
    """Return a lake whose catalog is on a server of its own, which the test may kill."""
    if find_programs() is None and not required():
        pytest.skip("there is no PostgreSQL on this machine")
    (tmp_path / "warehouse").mkdir()
    with PostgresqlServer() as server:
        server.make_database("catalog")
        yield Lake(Database(server, "catalog"), f"file://{tmp_path}/warehouse")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [7])
def test_runtime_and_catalog_killed_at_random_moments_the_table_holds_the_rows_of_the_batch(
    fragile: Lake, purchases: Purchases, expected: Rows, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    server = fragile.database.server
    fragile.make("db.totals", TOTALS)
    options = fragile.options("db.totals", password=PASSWORD)
    sink = {"name": "table", "input": "totals", "format": "iceberg", "options": options}
    file = write_job(tmp_path, purchases.job(sinks=[sink]))
    environment = {"STREAMJOB_TEST_PASSWORD": server.password}

    with job_runs(file, tmp_path / "snapshots", "purchases") as runs:
        for life in range(2):
            process = runs.start(environment=environment)
            runs.wait_for_progress(runs.furthest(), process)
            time.sleep(chance.uniform(0, 0.5))
            if life == 1:
                # The catalog goes, and comes back: the process goes on by itself.
                before = runs.furthest()
                server.end(signal.SIGQUIT)
                server.start()
                runs.wait_for_progress(before, process)
            process.kill()
        last = runs.start(environment=environment)
        assert last.wait() == 0, last.output()
        assert runs.records()[-1].kind == "final"
        shown = "".join(file.read_text(errors="replace") for file in tmp_path.glob("output-*.log"))
        stored = b"".join(runs.files().values())

    assert Counter(fragile.rows("db.totals")) == expected
    assert fragile.stray("db.totals") == []
    assert server.password not in shown
    assert server.password.encode() not in stored
