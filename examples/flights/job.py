"""Departures per airport and hour, with the weather that they met. `job.yaml` is the same job in SQL."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from streamjob import Job

job = Job("flights", parallelism=2, checkpointing={"interval": "2s"})

flights = job.source(
    "flights",
    format="csv",
    schema="origin STRING, carrier STRING, flight INT, tailnum STRING, dest STRING, "
    "scheduled TIMESTAMP, dep_delay INT, arr_delay INT, distance INT",
    options={"path": "data/flights", "header": True, "maxFilesPerTrigger": 6},
    bounded=True,
    watermark=("scheduled", "24h"),  # the latest flight left 21 h 41 min after its schedule
)
weather = job.source(
    "weather",
    format="json",
    schema="origin STRING, observed TIMESTAMP, "
    "temp DOUBLE, humid DOUBLE, wind_speed DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE",
    options={"path": "data/weather", "maxFilesPerTrigger": 6},
    bounded=True,
    watermark=("observed", "1h"),
)


@job.operator(inputs=[flights, weather])
def departures(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Join each flight with the observation of its hour, or with none."""
    # The equality on the hour finds the match, the range on the event times tells Spark when a row can go.
    meets = (
        (flights.origin == weather.origin)
        & (f.date_trunc("HOUR", flights.scheduled) == f.date_trunc("HOUR", weather.observed))
        & (weather.observed <= flights.scheduled)
        & (weather.observed > flights.scheduled - f.expr("INTERVAL 1 HOUR"))
    )
    return flights.join(weather, meets, "left").select(
        flights.origin, "scheduled", "dep_delay", "temp", "wind_speed", "precip", "visib"
    )


@job.operator(inputs=[departures])
def hours(departures: DataFrame) -> DataFrame:
    """Count and measure the departures of each airport and hour."""
    return (
        departures.groupBy("origin", f.window("scheduled", "1 hour"))
        .agg(
            f.count("*").alias("flights"),
            f.count_if(f.col("dep_delay").isNull()).alias("cancelled"),
            f.count_if(f.col("dep_delay") > 15).alias("delayed"),
            f.avg("dep_delay").alias("average_delay"),
            f.max("dep_delay").alias("longest_delay"),
            f.max("temp").alias("temperature"),
            f.max("wind_speed").alias("wind_speed"),
            f.max("precip").alias("precipitation"),
            f.max("visib").alias("visibility"),
        )
        .select(
            f.col("origin").alias("airport"),
            f.col("window.start").alias("hour"),
            *["flights", "cancelled", "delayed", "average_delay", "longest_delay"],
            *["temperature", "wind_speed", "precipitation", "visibility"],
        )
    )


job.sink("report", input=hours, format="parquet", options={"path": "output"}, delivery="exactly-once")
