"""Operators of the job `departures`."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def hours(flights: DataFrame) -> DataFrame:
    """Delays per airport and hour."""
    window = f.window("scheduled", "1 hour")
    delays = flights.groupBy("origin", window).agg(
        f.count("*").alias("flights"), f.avg("dep_delay").alias("delay"), f.max("dep_delay").alias("longest")
    )
    return delays.select("origin", f.col("window.start").alias("hour"), "flights", "delay", "longest")
