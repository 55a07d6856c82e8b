from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from streamjob import Job

job = Job("departures", checkpointing={"interval": "10s"})

flights = job.source(
    "flights",
    format="csv",
    schema="origin STRING, scheduled TIMESTAMP, dep_delay INT",
    options={"path": "data/flights", "header": True},
    watermark=("scheduled", "24h"),
    bounded=True,  # the job ends with these files; without it, the job waits for more
)


@job.operator(inputs=[flights])
def hours(flights: DataFrame) -> DataFrame:
    window = f.window("scheduled", "1 hour")
    return flights.groupBy("origin", window).agg(f.count("*").alias("flights"), f.max("dep_delay").alias("longest"))


job.sink("report", input=hours, format="json", options={"path": "output"})
