"""Answers a query with plain Spark: Structured Streaming as PySpark installs it, with two task slots."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.plain import DEFAULTS, query, start

from streamjob.ids import BatchId
from streamjob.job.loading.load import load_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main() -> None:
    """Run the query of a job file to the end of its input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="directory for the result; without it, rows are discarded")
    options = parser.parse_args()
    loaded = load_job(options.job, [])
    spark = start(DEFAULTS, loaded, options.scratch, [])
    spark.conf.set("spark.sql.session.timeZone", "UTC")

    def write(batch: DataFrame, _: BatchId) -> None:
        batch.write.mode("append").parquet(str(options.out))

    writer: Any = query(spark, loaded).writeStream.option("checkpointLocation", str(options.scratch / "checkpoint"))
    writer = writer.foreachBatch(write) if options.out else writer.format("noop")
    running = writer.trigger(availableNow=True).start()
    running.awaitTermination()
    last = [json.loads(each.json) for each in running.recentProgress][-1]
    print(json.dumps(last.get("eventTime", {})))
    spark.stop()


if __name__ == "__main__":
    main()
