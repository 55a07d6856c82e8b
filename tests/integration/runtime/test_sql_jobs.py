"""A SQL file runs to its end as a job, with an overlay and variables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.integration.runtime.processes import job_runs

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.core]

JOB = """
SET 'name' = 'hours';
SET 'checkpointing.interval' = '1s';

CREATE SOURCE departures (
  origin STRING,
  departed TIMESTAMP, -- in event time
  WATERMARK FOR departed AS departed - INTERVAL '1' HOUR
) WITH ('format' = 'json', 'path' = '${var:from}', 'bounded' = true);

CREATE VIEW kept AS SELECT * FROM departures WHERE origin <> '${var:not:-LGA}'; -- one of three; no more

CREATE SINK report WITH ('format' = 'console');
INSERT INTO report
SELECT origin, CAST(window.start AS STRING) AS hour, count(*) AS flights
FROM kept GROUP BY origin, window(departed, '1 hour');
"""


def test_a_sql_file_runs_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [("JFK", "06:10"), ("JFK", "06:50"), ("JFK", "07:00"), ("LGA", "06:15"), ("EWR", "06:30")]
    (tmp_path / "in" / "rows.json").write_text(
        "\n".join(json.dumps({"origin": origin, "departed": f"2013-01-01 {time}:00"}) for origin, time in rows)
    )
    (tmp_path / "job.sql").write_text(JOB)
    overlay = (
        "sinks: [{name: report, format: json, options: {path: out}}]\nsparkConf: {spark.sql.session.timeZone: UTC}"
    )
    (tmp_path / "files.yaml").write_text(overlay)

    with job_runs(tmp_path / "job.sql", tmp_path / "snapshots", "hours") as runs:
        process = runs.start("-f", str(tmp_path / "files.yaml"), "--var", "from=in")
        code = process.wait()

    assert code == 0, process.output
    lines = [line for file in (tmp_path / "out").glob("*.json") for line in file.read_text().splitlines()]
    found = sorted((row["origin"], row["hour"][11:13], row["flights"]) for row in map(json.loads, lines))
    assert found == [("EWR", "06", 1), ("JFK", "06", 2), ("JFK", "07", 1)]
