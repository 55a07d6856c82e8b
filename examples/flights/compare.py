"""Compares what a job's sink holds with the same query run as a Spark batch, row by row."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.job.loading.load import LoadedJob, load_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[Any, ...]

# The operators that only a stream has; a batch reads all rows.
_STREAM_ONLY = {"maxFilesPerTrigger", "maxBytesPerTrigger", "maxFileAge", "latestFirst"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two multisets of rows: how large they are, and what only one of them holds."""

    found: int
    expected: int
    missing: Counter[Row]
    surplus: Counter[Row]

    @property
    def identical(self) -> bool:
        """Whether both hold the same rows, each as often."""
        return not self.missing and not self.surplus


def compare(found: Counter[Row], expected: Counter[Row]) -> Comparison:
    """Compare the rows that were found with those that were expected; a row that is there twice counts twice."""
    return Comparison(found.total(), expected.total(), missing=expected - found, surplus=found - expected)


def rows_of(frame: DataFrame) -> Counter[Row]:
    """Return a frame's rows as a multiset, with the columns in the order of their names."""
    # Arrow keeps instants; `collect` turns them into local times, of which one hour a year is there twice.
    return Counter(tuple(row.values()) for row in frame.select(*sorted(frame.columns)).toArrow().to_pylist())


def batch_of(spark: SparkSession, job: LoadedJob) -> dict[str, DataFrame]:
    """Return every source and operator of a job as a batch, by name.

    Written here on purpose, and not borrowed from the runtime, whose work it judges.
    """
    frames: dict[str, DataFrame] = {}
    for source in job.spec.sources:
        options = {key: value for key, value in job.options(source).items() if key not in _STREAM_ONLY}
        frames[source.name] = spark.read.format(source.format).schema(source.schema_ddl or "").load(**options)
    for operator in job.spec.operators:
        inputs = [frames[each.name] for each in operator.inputs]
        if operator.sql is None:
            frames[operator.name] = job.resolve(operator)(*inputs)
            continue
        for each in operator.inputs:
            frames[each.name].createOrReplaceTempView(each.name)
        frames[operator.name] = spark.sql(operator.sql)
    return frames


def compare_with_batch(file: Path, output: Path, workdir: Path) -> Comparison:
    """Compare the Parquet files in `output` with the rows that the job's only sink receives from a batch.

    Args:
        file: the job file.
        output: the sink's directory, read as any reader of it would.
        workdir: directory for Spark's scratch files.
    """
    from streamjob_runtime.spark.session import SessionSettings, start_session

    job = load_job(file)
    (sink,) = job.spec.sinks
    spark = start_session(
        SessionSettings(name="compare", parallelism=2, max_parallelism=4, workdir=workdir, python_path=(job.directory,))
    )
    try:
        expected = rows_of(batch_of(spark, job)[sink.input])
        return compare(found=rows_of(spark.read.parquet(str(output))), expected=expected)
    finally:
        spark.stop()
