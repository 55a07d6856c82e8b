"""A job into a database by JDBC: its driver comes with the job, its password from the environment."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import Purchases, Rows, write_job
from tests.integration.sinks.databases import Database

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]


@pytest.mark.timeout(300)
def test_a_job_writes_by_the_driver_that_it_brings(
    database: Database, postgresql_driver: Path, purchases: Purchases, expected: Rows, tmp_path: Path
) -> None:
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
    job = purchases.job(files_a_batch=10, sinks=[sink])
    job["sparkConf"] = {**job.get("sparkConf", {}), "spark.jars": str(postgresql_driver)}
    file = write_job(tmp_path, job)

    with job_runs(file, tmp_path / "snapshots", "purchases") as runs:
        process = runs.start(environment={"STREAMJOB_TEST_PASSWORD": server.password})
        assert process.wait() == 0, process.output()
        shown, stored = process.output(), b"".join(runs.files().values())

    assert Counter(database.execute("SELECT customer, minute, orders, paid, amount FROM totals")) == expected
    assert server.password not in shown
    assert server.password.encode() not in stored
