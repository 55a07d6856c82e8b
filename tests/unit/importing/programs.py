"""Programs as people write them, by what they use."""

HEAD = """
import os, sys, time
from functools import partial
from pyspark.sql import SparkSession, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.functions import col, udf, pandas_udf
from pyspark.sql.types import *

spark = SparkSession.builder.appName("A Program").config("spark.sql.shuffle.partitions", "4").getOrCreate()
"""
READ = 'rows = spark.readStream.schema("k STRING, at TIMESTAMP, n INT").json("in")\n'
WRITE = '.writeStream.format("parquet").option("path", "out").option("checkpointLocation", "ck").start()'

PROGRAMS = {
    "a way through": f"""
{READ}
query = rows.where(col("n") > 1){WRITE}
query.awaitTermination()
""",
    "functions of rows and of DataFrames": f"""
FACTOR = 3

@udf("int")
def times(n):
    return n * FACTOR

def twice(n):
    return n * 2

double = udf(twice, IntegerType())

def enrich(df: DataFrame, name) -> DataFrame:
    \"\"\"It stays as it is.\"\"\"
    return df.withColumn(name, times("n")).withColumn("two", double(col("n")))

{READ}
query = enrich(rows, "three").select("k", "three", udf(lambda n: n + 1, "int")("n").alias("more")){WRITE}
""",
    "windows": f"""
{READ}
counts = (
    rows.withColumn("at", F.date_trunc("second", "at")).withWatermark("at", "10 minutes")
    .groupBy(F.window("at", "5 minutes"), "k").agg(F.sum("n").alias("n"))
)
query = counts.select(col("window.start").alias("start"), "k", "n"){WRITE}
""",
    "main with arguments": """
import argparse

def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--input", default="in")
    parsed = parser.parse_args(arguments)
    spark = SparkSession.builder.getOrCreate()
    rows = spark.readStream.format("text").load(parsed.input)
    def shout(batch, batch_id):
        batch.sparkSession.createDataFrame([(batch_id, parsed.input)]).write.mode("append").parquet("seen")
    q1 = rows.select(F.upper("value").alias("value")).writeStream.format("text").trigger(availableNow=True) \\
        .option("checkpointLocation", "ck").start("out")
    q1.awaitTermination()

if __name__ == "__main__":
    main(sys.argv[1:])
""",
    "views": f"""
{READ}
rows.where("n > 0").createOrReplaceTempView("positive")
result = spark.sql("SELECT k, n + 1 AS more FROM positive WHERE k IS NOT NULL")
result{WRITE}
""",
    "several queries of shared rows": f"""
{READ}
parsed = rows.select("k", "n", "at")
big = parsed.where("n > 10").writeStream.format("json").option("checkpointLocation", "a").start("big")
counts = parsed.withWatermark("at", "1 minute").groupBy("k", F.window("at", "1 minute")).count()
small = counts.writeStream.outputMode("update").format("console").queryName("counts").start()
spark.streams.awaitAnyTermination()
""",
    "a table beside the stream": f"""
{READ}
names = spark.read.schema("k STRING, name STRING").csv("names").withColumnRenamed("k", "key")
joined = rows.join(F.broadcast(names), rows.k == names["key"], "left").select(rows.k, "name")
joined{WRITE}
""",
    "two streams": f"""
{READ}
others = spark.readStream.schema("k STRING, at TIMESTAMP, m INT").json("others")
left, right = rows.withWatermark("at", "1 minute").alias("l"), others.withWatermark("at", "1 minute").alias("r")
joined = left.join(right, F.expr("l.k = r.k AND r.at BETWEEN l.at AND l.at + INTERVAL 1 MINUTE"))
joined.select("l.k", "m"){WRITE}
""",
    "a class": """
class Pipeline:
    def __init__(self, target):
        self.spark = SparkSession.builder.getOrCreate()
        self.target = target

    def read(self):
        return self.spark.readStream.schema("a INT").csv("in")

    def run(self):
        self.read().where(col("a").isNotNull()).writeStream.format("csv").option("checkpointLocation", "ck") \\
            .trigger(processingTime="30 seconds").start(self.target).awaitTermination()

Pipeline("out").run()
""",
    "state in Python": f"""
import pandas as pd

def latest(key, batches, state):
    yield pd.DataFrame({{"k": [key[0]], "n": [1]}})

{READ}
rows.groupBy("k").applyInPandasWithState(latest, "k STRING, n INT", "n INT", "update", "NoTimeout") \\
    .writeStream.outputMode("update").format("console").start()
""",
    "a loop that restarts its query": f"""
{READ}
while True:
    try:
        rows.select("k"){WRITE}.awaitTermination()
    except Exception:
        time.sleep(5)
""",
    "a loop that watches": f"""
{READ}
rows.select("k"){WRITE}
while True:
    time.sleep(1)
""",
    "a module that is not installed": f"""
import not_installed_here
from not_installed_here.settings import target
{READ}
rows.select("k"){WRITE}
""",
    "kafka": """
raw = spark.readStream.format("kafka").option("kafka.bootstrap.servers", os.getenv("KAFKA", "localhost:9092")) \\
    .option("subscribe", "in").load()
parsed = raw.select(F.from_json(col("value").cast("string"), StructType([StructField("k", StringType())])).alias("d"))
parsed.select(F.to_json("d").alias("value")).writeStream.format("kafka") \\
    .option("kafka.bootstrap.servers", os.getenv("KAFKA", "localhost:9092")).option("topic", "out") \\
    .option("checkpointLocation", "ck").start()
""",
    "lambdas of columns": f"""
{READ}
rows.select(F.transform(F.split("k", ","), lambda each: F.upper(each)).alias("ks"), (-col("n") + 1) * 2 > 3){WRITE}
""",
}
