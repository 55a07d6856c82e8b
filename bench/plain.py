"""A job's query in plain Spark, without streamjob's protocol: the process that the benchmark compares with.

It reads the same job file and writes with the same sink code, so query, source and sink are those of `streamjob run`.
The differences are in `spark_conf`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.ids import BatchId, Epoch
from streamjob.job.loading.load import LoadedJob, load_job
from streamjob.sink import SinkContext
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.sink import FileSink
from streamjob_runtime.spark.jvm import JAR
from streamjob_runtime.spark.process.java import find_java
from streamjob_runtime.spark.session import SessionSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEFAULTS, TUNED, S3A = "defaults", "tuned", "s3a"
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


def settings_of(loaded: LoadedJob, scratch: Path, *connectors: str) -> SessionSettings:
    """Return what `streamjob run` sets for a job, with Spark's files in `scratch`."""
    spec = loaded.spec
    return SessionSettings(
        name=spec.name,
        parallelism=spec.parallelism,
        max_parallelism=spec.max_parallelism,
        workdir=scratch,
        connectors=connectors,
    )


def spark_conf(side: str, loaded: LoadedJob, scratch: Path, jars: list[str]) -> dict[str, str]:
    """Return Spark's configuration.

    Args:
        side: `defaults`: Spark's own, but with streamjob's number of state partitions, and its jar for the sink;
            `tuned`: all that `streamjob run` sets, its checkpoint file manager included; `s3a`: the same with Spark's
            own file manager, which is needed there, and the access to the S3 server.
        loaded: the job.
        scratch: for Spark's files.
        jars: more jars for the class path.
    """
    tuned = settings_of(loaded, scratch).spark_conf()
    if side == DEFAULTS:
        return {
            "spark.sql.shuffle.partitions": str(loaded.spec.max_parallelism),
            "spark.jars": str(JAR),
            "spark.local.dir": tuned["spark.local.dir"],
            "spark.log.level": "ERROR",
        }
    if side == TUNED:
        return tuned
    del tuned[_MANAGER]
    s3a = "spark.hadoop.fs.s3a."
    return {
        **tuned,
        "spark.jars": ",".join([str(JAR), *jars]),
        s3a + "endpoint": os.environ["AWS_ENDPOINT_URL"],
        s3a + "endpoint.region": os.environ["AWS_REGION"],
        s3a + "path.style.access": "true",
        s3a + "connection.ssl.enabled": "false",
        s3a
        + "aws.credentials.provider": "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
    }


def start(side: str, loaded: LoadedJob, scratch: Path, jars: list[str]) -> SparkSession:
    """Start Spark."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ, scratch / "java").home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

    from pyspark.sql import SparkSession

    # Java does not make the directory of its temporary files.
    (scratch / "tmp").mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder.master(f"local[{loaded.spec.parallelism}]").appName(loaded.spec.name)
    for key, value in spark_conf(side, loaded, scratch, jars).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def query(spark: SparkSession, loaded: LoadedJob) -> DataFrame:
    """Return the rows of the job's last operator; all operators are in SQL."""
    for source in loaded.spec.sources:
        reader = spark.readStream.format(source.format).options(**loaded.options(source))
        frame = (reader.schema(source.schema_ddl) if source.schema_ddl else reader).load()
        if source.watermark is not None:
            frame = frame.withWatermark(source.watermark.column, f"{source.watermark.delay} seconds")
        frame.createOrReplaceTempView(source.name)
    for operator in loaded.spec.operators:
        assert operator.sql is not None
        frame = spark.sql(operator.sql)
        frame.createOrReplaceTempView(operator.name)
    return frame


def _batch(report: dict[str, Any]) -> tuple[float, float]:
    """Return a batch's duration in ms and its end in seconds since 1970."""
    duration = report["durationMs"]["triggerExecution"]
    return duration, datetime.fromisoformat(report["timestamp"]).timestamp() + duration / 1000


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", type=Path)
    parser.add_argument("--side", choices=[DEFAULTS, TUNED, S3A], required=True)
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--report", type=Path, help="where durations and ends of the batches go")
    parser.add_argument("--jars", default="")
    return parser.parse_args()


def main() -> None:
    """Run the query to the end of its input, or for ever if that has none."""
    options = arguments()
    loaded = load_job(options.job, options.overrides)
    (sink_spec,) = loaded.spec.sinks
    sink_options = loaded.options(sink_spec)
    sink = FileSink(sink_spec.format, LocalPlace(Path(sink_options["path"])))
    sink.open(SinkContext(loaded.spec.name, "default", sink_spec.uid, Epoch(1), sink_options))

    spark = start(options.side, loaded, options.scratch, [jar for jar in options.jars.split(",") if jar])

    def stage(batch: DataFrame, number: int) -> None:
        sink.stage(batch, BatchId(number))

    writer = query(spark, loaded).writeStream.option("checkpointLocation", options.checkpoint).foreachBatch(stage)
    bounded = all(source.bounded for source in loaded.spec.sources)
    running = (writer.trigger(availableNow=True) if bounded else writer).start()
    running.awaitTermination()
    if options.report:
        reports = [json.loads(each.json) for each in running.recentProgress]
        batches = [_batch(each) for each in reports if "addBatch" in each["durationMs"]]
        options.report.write_text(json.dumps(batches))
    spark.stop()


if __name__ == "__main__":
    main()
