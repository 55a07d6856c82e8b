"""Executors end on request and others join while a job runs: state moves behind a checkpoint, and nothing is lost."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.agents import Agents
from tests.integration.runtime.processes import JobRuns
from tests.integration.runtime.purchases import Purchases, line_rows, table_rows, write_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LONG = 300.0


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_state_moves_when_an_executor_is_to_end_and_when_another_joins(spark: SparkSession, tmp_path: Path) -> None:
    made = Purchases.write(tmp_path / "input", files=40, rows=30)
    runs = JobRuns(write_job(tmp_path, made.job()), tmp_path / "snapshots", "purchases")
    agents = Agents(tmp_path / "machines")
    agents.start()
    try:
        first = runs.start(*agents.arguments, environment=agents.environment)
        runs.wait(lambda: runs.furthest() > 0, "checkpoint with state", first, LONG)

        assert agents.terminate(0) == 0
        runs.wait(lambda: len(runs.completions(2)) > 0, "checkpoint on the other executor", first, LONG)
        assert "state moves away from executor" in first.output()

        agents.add()
        runs.wait(lambda: len(runs.completions(3)) > 0, "checkpoint on both", first, LONG)
        assert "state moves to executor" in first.output()
        assert "The job failed" not in first.output()

        first.send(signal.SIGTERM)
        assert first.wait(LONG) == 0
        stopped_at = runs.furthest()
        assert "without a last checkpoint" not in first.output()
        last = runs.start(*agents.arguments, workdir="another", environment=agents.environment)
        assert last.wait(LONG) == 0, last.output()
    finally:
        runs.end()
        codes = agents.end()

    assert codes == [0, 0, 0]
    assert stopped_at < runs.furthest()
    expected = made.batch(spark)
    assert table_rows(spark, tmp_path / "table") == expected
    assert line_rows(spark, tmp_path / "lines") == expected
