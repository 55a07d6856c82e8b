"""A job into PostgreSQL has the rows of a batch there, whatever is killed on the way: the runtime, the server."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import Purchases, Rows, write_job
from tests.integration.sinks.databases import Database
from tests.servers.postgresql import PostgresqlServer, find_programs
from tests.servers.process import required

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

PASSWORD = "${env:STREAMJOB_TEST_PASSWORD}"


@pytest.fixture
def fragile() -> Iterator[Database]:
    """Return a database on a server of its own, which the test may kill."""
    if find_programs() is None and not required():
        pytest.skip("there is no PostgreSQL on this machine")
    with PostgresqlServer() as server:
        server.make_database("purchases")
        yield Database(server, "purchases")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [11])
def test_runtime_and_server_killed_at_random_moments_the_table_holds_the_rows_of_the_batch(
    fragile: Database, purchases: Purchases, expected: Rows, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    server = fragile.server
    fragile.execute(
        "CREATE TABLE totals (customer text, minute timestamptz, orders bigint, paid bigint, amount bigint)"
    )
    options = {**fragile.options("totals"), "password": PASSWORD}
    sink = {"name": "table", "input": "totals", "format": "postgresql", "options": options}
    file = write_job(tmp_path, purchases.job(sinks=[sink]))
    environment = {"STREAMJOB_TEST_PASSWORD": server.password}

    with job_runs(file, tmp_path / "snapshots", "purchases") as runs:
        for life in range(3):
            process = runs.start(environment=environment)
            runs.wait_for_progress(runs.furthest(), process)
            time.sleep(chance.uniform(0, 0.5))
            if life == 1:
                # The server goes, and comes back: the process goes on by itself.
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

    found = fragile.execute("SELECT customer, minute AT TIME ZONE 'UTC', orders, paid, amount FROM totals")
    assert Counter(found) == Counter(
        {(row[0], row[1].replace(tzinfo=None), *row[2:]): count for row, count in expected.items()}
    )
    assert server.open_transactions("purchases") == []
    assert server.password not in shown
    assert server.password.encode() not in stored
