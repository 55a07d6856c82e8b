"""A job into a database by JDBC: its driver comes with the job, its password from the environment."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import Purchases, Rows, write_job
from tests.integration.sinks.databases import Database
from tests.servers.postgresql import jdbc_driver
from tests.servers.process import required

from streamjob_runtime.connectors.fetching import CannotFetch

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]


@pytest.mark.timeout(300)
def test_a_job_writes_by_the_driver_that_it_brings(
    database: Database, purchases: Purchases, expected: Rows, tmp_path: Path
) -> None:
    try:
        driver = jdbc_driver(os.environ)
    except CannotFetch:
        if required():
            raise
        pytest.skip("PostgreSQL's JDBC driver cannot be fetched")
    database.execute(
        "CREATE TABLE totals (customer text, minute timestamptz, orders bigint, paid bigint, amount bigint)"
    )
    server = database.server
    options = {
        "url": f"jdbc:{server.url(database.name)}",
        "user": server.role,
        "password": "${env:STREAMJOB_TEST_PASSWORD}",
        "dbtable": "totals",
    }
    sink = {"name": "table", "input": "totals", "format": "jdbc", "options": options}
    job = purchases.job(sinks=[sink])
    job["sparkConf"] = {**job.get("sparkConf", {}), "spark.jars": str(driver)}
    file = write_job(tmp_path, job)

    with job_runs(file, tmp_path / "snapshots", "purchases") as runs:
        process = runs.start(environment={"STREAMJOB_TEST_PASSWORD": server.password})
        assert process.wait() == 0, process.output()
        shown, stored = process.output(), b"".join(runs.files().values())

    found = database.execute("SELECT customer, minute AT TIME ZONE 'UTC', orders, paid, amount FROM totals")
    assert Counter(found) == Counter(
        {(row[0], row[1].replace(tzinfo=None), *row[2:]): count for row, count in expected.items()}
    )
    assert server.password not in shown
    assert server.password.encode() not in stored
