"""Sinks that deliver at least once (console, memory, any batch sink of Spark), together with an exactly-once one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.runtime.embedded import Life, finish
from tests.integration.runtime.purchases import (
    MATCHED_SQL,
    ORDERS,
    PAYMENTS,
    TOTALS_SQL,
    Purchases,
    line_rows,
    table_rows,
)

from streamjob_runtime.sinks.at_least_once.memory import memory_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = """
from streamjob import Job

job = Job("purchases", parallelism=2, max_parallelism=2)
orders = job.source(
    "orders", format="json", schema={orders!r}, options={{"path": {directory!r} + "/orders", "maxFilesPerTrigger": 1}},
    bounded=True, watermark=("ordered", "1m"),
)
payments = job.source(
    "payments", format="json", schema={payments!r}, options={{"path": {directory!r} + "/payments"}},
    bounded=True, watermark=("paid", "1m"),
)
matched = job.sql("matched", inputs=[orders, payments], sql={matched!r})
totals = job.sql("totals", inputs=[matched], sql={totals!r})
job.sink("screen", input=totals, format="console")
job.sink("kept", input=totals, format="memory")
job.sink("passed", input=totals, format="parquet", options={{"path": "passed"}}, delivery="at-least-once")
job.sink("lines", input=totals, format="json", options={{"path": "lines"}})
"""


def test_all_sinks_of_a_job_get_all_its_rows(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    purchases = Purchases.write(tmp_path / "input", files=4, rows=30)
    file = tmp_path / "job.py"
    file.write_text(
        JOB.format(
            orders=ORDERS,
            payments=PAYMENTS,
            directory=str(purchases.directory),
            matched=MATCHED_SQL,
            totals=TOTALS_SQL,
        )
    )

    finish(spark, Life(file=file, location=str(tmp_path / "snapshots")))

    expected = purchases.batch(spark)
    assert len(memory_rows("kept")) == expected.total()
    assert table_rows(spark, tmp_path / "passed") == expected
    assert line_rows(spark, tmp_path / "lines") == expected
    assert "customer" in capfd.readouterr().out
