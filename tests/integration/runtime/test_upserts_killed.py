"""A job whose function upserts into MariaDB leaves there what a batch makes, wherever it is killed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.runtime.processes import JobRuns, job_runs
from tests.integration.sinks.upserts import code, login
from tests.servers.mariadb import MariadbServer

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.slow]

FILES, ROWS, KEYS = 24, 20, 7
LONG = 300.0

JOB = """
import os
import signal
from pathlib import Path

import writers

from streamjob import Job

HERE = Path(__file__).parent
write, calls = writers.write, []


def die(where):
    if os.environ.get("DIE") == where and len(calls) == 2:
        (HERE / "killed").open("a").write(f"{where}: {calls[-1]}\\n")
        os.kill(os.getpid(), signal.SIGKILL)


def write_and_die(cursor, rows):
    write(cursor, rows)
    die("before the commit")


def upsert(batch, batch_id):
    calls.append(batch_id)
    (HERE / "calls").open("a").write(f"{batch_id}\\n")
    writers.upsert(batch, batch_id)
    die("behind the commit")


writers.write = write_and_die
job = Job("upserts", parallelism=2, max_parallelism=2, checkpointing={"interval": "300ms"})
options = {"path": str(HERE / "in"), "maxFilesPerTrigger": 1}
rows = job.source("rows", format="json", schema="id BIGINT, airport STRING", options=options, bounded=True)
totals = job.sql(
    "totals",
    inputs=[rows],
    sql="SELECT airport, count(*) AS flights, sum(id) AS total FROM rows GROUP BY airport",
    output_mode="update",
)
job.sink("report", input=totals, function=upsert)
"""


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[JobRuns]:
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        lines = [json.dumps({"id": each, "airport": f"airport {each % KEYS}"}) for each in ids]
        (tmp_path / "in" / f"{number:03}.json").write_text("\n".join(lines))
    names = '\nKEY, VALUES = ["airport"], ["flights", "total"]\nCOLUMNS = [*KEY, *VALUES]\n'
    (tmp_path / "writers.py").write_text(code("def connect(") + names)
    (tmp_path / "job.py").write_text(JOB)
    with job_runs(tmp_path / "job.py", tmp_path / "snapshots", "upserts") as found:
        yield found


@pytest.mark.timeout(600)
def test_a_killed_upsert_leaves_the_table_of_a_batch(runs: JobRuns, tmp_path: Path, mariadb: MariadbServer) -> None:
    key = "airport VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin PRIMARY KEY"
    mariadb.execute(f"CREATE TABLE departures ({key}, flights BIGINT, total BIGINT)")
    for where in ("before the commit", "behind the commit"):
        process = runs.start(environment={**login(mariadb), "DIE": where})
        process.wait(LONG)
        process.kill()
    process = runs.start(environment=login(mariadb))
    assert process.wait(LONG) == 0, process.output()

    killed = dict(line.split(": ") for line in (tmp_path / "killed").read_text().splitlines())
    calls = Counter((tmp_path / "calls").read_text().splitlines())
    assert list(killed) == ["before the commit", "behind the commit"]
    assert min(calls[each] for each in killed.values()) > 1
    ids = range(FILES * ROWS)
    expected = [(f"airport {key}", len(ids[key::KEYS]), sum(ids[key::KEYS])) for key in range(KEYS)]
    found = mariadb.execute("SELECT * FROM departures ORDER BY airport")
    assert [(airport, int(flights), int(total)) for airport, flights, total in found] == expected
