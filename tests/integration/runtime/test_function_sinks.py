"""Functions as sinks of whole jobs: killed at any place, they are called again with the same ids and rows."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.runtime.agents import Agents
from tests.integration.runtime.processes import JobRuns, job_runs

from streamjob.errors import ExitCode

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FILES, ROWS, KEYS = 24, 20, 7
LONG = 300.0

JOB = """
import json
import os
import signal
import sqlite3
from pathlib import Path

from streamjob import Job
from streamjob.store.staging import StoreStaging

HERE = Path(__file__).parent
put = StoreStaging.put
seen = []


def die(where):
    if os.environ.get("DIE") == where and len(seen) == 2:
        os.kill(os.getpid(), signal.SIGKILL)


def put_or_die(self, content):
    noted = isinstance(content, bytes) and content.startswith(b"returned from")
    if noted:
        die("behind the function")
    name = put(self, content)
    if noted:
        die("behind the note")
    return name


StoreStaging.put = put_or_die


def note(sink, batch_id, rows):
    seen.append(batch_id)
    if os.environ.get("DIE") == "mistaken":
        raise KeyError("airport")
    with (HERE / "calls").open("a") as file:
        file.write(json.dumps([sink, batch_id, sorted(rows)]) + "\\n")
        file.flush()
        os.fsync(file.fileno())
    die("in the function")
    if os.environ.get("DIE") == "failing" and len(seen) == 2:
        raise ConnectionResetError("the server hung up")


def copies(batch, batch_id):
    batch.persist()
    batch.createOrReplaceTempView("rows")
    rows = batch.sparkSession.sql("SELECT id, key FROM rows WHERE id IS NOT NULL").collect()
    assert len(rows) == batch.count()
    batch.write.mode("overwrite").parquet(str(HERE / "out" / f"batch={batch_id}"))
    batch.unpersist()
    note("copies", batch_id, [(row.id, row.key) for row in rows])


def merged(batch, batch_id):
    rows = [(row.key, row.total) for row in batch.collect()]
    note("merged", batch_id, rows)
    connection = sqlite3.connect(HERE / "totals.db")
    with connection:
        connection.execute("CREATE TABLE IF NOT EXISTS totals (key INT PRIMARY KEY, total INT)")
        connection.executemany(
            "INSERT INTO totals VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET total = excluded.total", rows
        )
    connection.close()


job = Job("functions", parallelism=2, max_parallelism=2, checkpointing={"interval": "300ms"})
options = {"path": str(HERE / "in"), "maxFilesPerTrigger": 1}
rows = job.source("rows", format="json", schema="id BIGINT, key INT", options=options, bounded=True)
totals = job.sql(
    "totals", inputs=[rows], sql="SELECT key, count(*) AS total FROM rows GROUP BY key", output_mode="update"
)
job.sink("copies", input=rows, function=copies)
job.sink("merged", input=totals, function=merged)
"""


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[JobRuns]:
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        lines = [json.dumps({"id": each, "key": each % KEYS}) for each in ids]
        (tmp_path / "in" / f"{number:03}.json").write_text("\n".join(lines))
    (tmp_path / "job.py").write_text(JOB)
    with job_runs(tmp_path / "job.py", tmp_path / "snapshots", "functions") as found:
        yield found


def calls_of(directory: Path) -> list[tuple[str, int, tuple[tuple[int, int], ...]]]:
    lines = [json.loads(line) for line in (directory / "calls").read_text().splitlines()]
    return [(sink, batch_id, tuple(map(tuple, rows))) for sink, batch_id, rows in lines]


def check(directory: Path) -> Counter[tuple[str, int]]:
    """Check that calls with one id had the same rows, and that all rows came; return how often each call came."""
    calls = calls_of(directory)
    by_id = {(sink, batch_id): rows for sink, batch_id, rows in calls}
    assert [call for call in calls if by_id[call[0], call[1]] != call[2]] == []
    copied = Counter(row for (sink, _), rows in by_id.items() if sink == "copies" for row in rows)
    assert copied == Counter((each, each % KEYS) for each in range(FILES * ROWS))
    with sqlite3.connect(directory / "totals.db") as connection:
        totals = dict(connection.execute("SELECT key, total FROM totals"))
    assert totals == Counter(each % KEYS for each in range(FILES * ROWS))
    return Counter((sink, batch_id) for sink, batch_id, _ in calls)


@pytest.mark.core
@pytest.mark.timeout(600)
def test_a_killed_function_is_called_again_with_the_same_id_and_rows(runs: JobRuns, tmp_path: Path) -> None:
    last: dict[str, tuple[str, int]] = {}
    for where in ("in the function", "behind the function", "behind the note"):
        process = runs.start(environment={"DIE": where})
        process.wait(LONG)
        process.kill()
        last[where] = calls_of(tmp_path)[-1][:2]
        if where == "in the function":
            mistaken = runs.start(environment={"DIE": "mistaken"})
            assert mistaken.wait(LONG) == ExitCode.INVALID_INPUT, mistaken.output()
            sink, batch_id = last[where]
            assert f"sink {sink}: the function job:{sink} failed with batch {batch_id}: " in mistaken.output()
            assert "KeyError: 'airport'" in mistaken.output()
    process = runs.start(workdir="another")
    assert process.wait(LONG) == 0, process.output()

    came = check(tmp_path)
    assert came[last["in the function"]] > 1
    assert came[last["behind the function"]] > 1
    assert came[last["behind the note"]] == 1
    # What the functions have noted is garbage by then, but for that of the last checkpoint.
    assert len([key for key in runs.files() if key.startswith("staged/")]) < 8


@pytest.mark.timeout(600)
def test_a_function_that_fails_is_called_again_by_the_same_process(runs: JobRuns, tmp_path: Path) -> None:
    process = runs.start(environment={"DIE": "failing"})
    assert process.wait(LONG) == 0, process.output()

    came = check(tmp_path)
    sink, batch_id, _ = calls_of(tmp_path)[1]
    assert {call for call, times in came.items() if times > 1} == {(sink, batch_id)}
    assert (
        f"sink {sink}: the function job:{sink} failed with batch {batch_id}: ConnectionResetError" in process.output()
    )


@pytest.mark.timeout(600)
def test_a_start_from_an_older_checkpoint_brings_the_rows_again_under_new_ids(runs: JobRuns, tmp_path: Path) -> None:
    first = runs.start("--set=checkpointing.numRetained=50")
    assert first.wait(LONG) == 0, first.output()
    before = calls_of(tmp_path)
    (tmp_path / "calls").unlink()
    older = next(record for record in runs.completions() if (manifest := runs.manifest(record)) and manifest.chains)
    second = runs.start("--set=checkpointing.numRetained=50", "--from", str(older.manifest))
    assert second.wait(LONG) == 0, second.output()

    again = calls_of(tmp_path)
    assert again
    assert min(batch_id for sink, batch_id, _ in again if sink == "copies") > max(
        batch_id for sink, batch_id, _ in before if sink == "copies"
    )
    assert {row for sink, _, rows in again if sink == "copies" for row in rows} <= {
        row for sink, _, rows in before if sink == "copies" for row in rows
    }


@pytest.mark.timeout(600)
def test_rows_of_executors_reach_the_function(runs: JobRuns, tmp_path: Path) -> None:
    agents = Agents(tmp_path / "machines")
    agents.start()
    try:
        process = runs.start(*agents.arguments, environment=agents.environment)
        assert process.wait(LONG) == 0, process.output()
    finally:
        agents.end()

    assert set(check(tmp_path).values()) == {1}
