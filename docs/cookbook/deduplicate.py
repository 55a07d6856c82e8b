"""Payments of which the same one may arrive several times, hours apart: each passes once.

Trap: `dropDuplicates(["id"])` remembers every id for ever, and the state grows until the job fails. With
`dropDuplicatesWithinWatermark` an id is forgotten when the watermark is one delay behind its event time. So the delay
of the watermark is the time within which duplicates are found.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from streamjob import Job

job = Job("deduplicate")

payments = job.source(
    "payments",
    format="json",
    schema="id STRING, amount INT, at TIMESTAMP",
    options={"path": "data/payments"},
    watermark=("at", "6h"),
)


@job.operator(inputs=[payments])
def unique(payments: DataFrame) -> DataFrame:
    """Keep the first of the payments with the same id."""
    return payments.dropDuplicatesWithinWatermark(["id"])


job.sink("booked", input=unique, format="parquet", options={"path": "output/booked"})
