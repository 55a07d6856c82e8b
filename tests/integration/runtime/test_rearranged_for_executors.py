"""State that must be rewritten or rearranged before a start is so on one disk first, and executors continue from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.kinds_of_state import ROOT, all_sessions, sessions_of, state_job
from tests.integration.runtime.processes import job_runs
from tests.integration.runtime.purchases import Purchases, line_rows, table_rows, write_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LONG = 300.0
KINDS = "tests.integration.runtime.kinds_of_state"
ON_TWO = ("--executors", "2", "--executor-memory", "600m")
REARRANGED = "another process on this machine rearranges it first"


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_state_gets_another_number_of_partitions_on_executors(spark: SparkSession, tmp_path: Path) -> None:
    made = Purchases.write(tmp_path / "input", files=10, rows=30)
    with job_runs(write_job(tmp_path, made.job()), tmp_path / "snapshots", "purchases") as runs:
        first = runs.start()
        runs.wait(lambda: runs.furthest() > 0, "checkpoint with state", first, LONG)
        first.kill()
        last = runs.start(*ON_TWO, "--max-parallelism", "5")

        assert last.wait(LONG) == 0, last.output()
        assert REARRANGED in last.output()
        assert runs.epoch() == 4

    assert not (tmp_path / "work" / "one-disk").exists()
    expected = made.batch(spark)
    assert table_rows(spark, tmp_path / "table") == expected
    assert line_rows(spark, tmp_path / "lines") == expected


@pytest.mark.timeout(600)
def test_executors_continue_a_changed_query_with_its_migrated_state(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(ROOT)}
    with job_runs(state_job(tmp_path, "session windows"), tmp_path / "snapshots", "state") as runs:
        first = runs.start(*ON_TWO, environment=environment)
        runs.wait(lambda: runs.furthest() > 0, "checkpoint with state", first, LONG)
        first.kill()
        by_number = {"name": "held_events", "inputs": ["events"], "python": f"{KINDS}:without_copies_by_number"}
        state_job(tmp_path, "session windows", held=by_number)
        last = runs.start(*ON_TWO, environment=environment)

        assert last.wait(LONG) == 0, last.output()
        assert REARRANGED in last.output()
        assert "Migrated the state of 'held_events'" in last.output()

    assert sessions_of(tmp_path / "out") == all_sessions()


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_executors_continue_a_job_that_has_given_up_a_part_of_its_state(tmp_path: Path) -> None:
    with job_runs(state_job(tmp_path, "session windows", copies=1), tmp_path / "snapshots", "state") as runs:
        first = runs.start(*ON_TWO, environment={"PYTHONPATH": str(ROOT)})
        runs.wait(lambda: runs.furthest() > 0, "checkpoint with state", first, LONG)
        first.kill()
        without_state = {"name": "held_events", "inputs": ["events"], "sql": "SELECT * FROM events"}
        state_job(tmp_path, "session windows", copies=1, held=without_state)
        refused = runs.start(*ON_TWO)
        assert refused.wait(LONG) == 3, refused.output()
        assert REARRANGED not in refused.output()
        last = runs.start(*ON_TWO, "--allow-non-restored-state")

        assert last.wait(LONG) == 0, last.output()
        assert REARRANGED in last.output()

    assert sessions_of(tmp_path / "out") == all_sessions()
