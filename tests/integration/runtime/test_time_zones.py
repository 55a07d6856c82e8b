"""Functions in Python see the same moments in every zone that the environment names."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import parquet
from tests.integration.runtime.processes import JobProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ZONES = ["America/New_York", "Asia/Kolkata", "Pacific/Apia"]
MOMENTS = [
    "2013-11-03 05:30:00.123456",
    "2013-11-03 06:30:00",
    "2013-03-10 07:30:00",
    "2011-12-30 09:59:59.999999",
    "1883-11-18 16:59:59",
]
"""In New York the first two are the same local time, the third is after a gap; Apia had no 30 December 2011."""

JOB = """
import datetime
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, TimestampType
from streamjob import Job

job = Job("zones", checkpointing={"interval": "1s"})
a = job.source("a", format="json", bounded=True, schema="at TIMESTAMP", options={"path": "in"})
same = f.udf(lambda at: at, TimestampType())
text = f.udf(str, StringType())
arrow = f.udf(lambda at: at, TimestampType(), useArrow=True)
literal = datetime.datetime(2013, 11, 3, 6, 30)


def kept(frames):
    for frame in frames:
        frame["pandas"] = frame["at"]
        frame["pandas_text"] = frame["at"].astype(str)
        yield frame


@job.operator(inputs=[a])
def seen(a):
    rows = a.select("at", same("at").alias("same"), arrow("at").alias("arrow"), text("at").alias("text"),
                    f.lit(literal).alias("literal"))
    return rows.mapInPandas(kept, rows.schema.simpleString()[7:-1] + ", pandas timestamp, pandas_text string")


job.sink("o", input=seen, format="parquet", options={"path": "out"})
"""


def test_a_function_that_returns_a_timestamp_as_it_is_changes_nothing_in_any_zone(tmp_path: Path) -> None:
    lives = []
    for zone in ZONES:
        directory = tmp_path / zone.replace("/", "-")
        (directory / "in").mkdir(parents=True)
        (directory / "in/a.json").write_text("".join(f'{{"at":"{each}Z"}}\n' for each in MOMENTS))
        (directory / "job.py").write_text(JOB)
        lives.append((directory, JobProcess([str(directory / "job.py")], directory / "log", {"TZ": zone})))
    try:
        for _, life in lives:
            assert life.wait() == 0, life.output()
    finally:
        for _, life in lives:
            life.kill()

    for directory, _ in lives:
        rows = parquet.read_table(directory / "out").to_pylist()
        assert sorted(row["text"] for row in rows) == sorted(MOMENTS)
        for row in rows:
            assert row["same"] == row["arrow"] == row["pandas"] == row["at"]
            assert row["text"] == row["at"].isoformat(" ").removesuffix("+00:00")
            assert row["pandas_text"].startswith(row["text"])
            assert row["literal"].isoformat() == "2013-11-03T06:30:00+00:00"
