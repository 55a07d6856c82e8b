"""Reads a bucket by Spark's own source of files and s3a: the process that the benchmark compares with."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from bench.plain import query, settings_of

from streamjob.job.loading.load import load_job
from streamjob_runtime.spark.session import start_session


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", type=Path)
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--trigger", type=float, default=5.0, metavar="S", help="seconds from batch to batch")
    parser.add_argument("--report", type=Path, required=True, help="where the end of the server's log and batches go")
    return parser.parse_args()


def main() -> None:
    """Run the query to the end of what is there, or for ever if its source is not bounded."""
    options = arguments()
    loaded = load_job(options.job, options.overrides)
    spec = loaded.spec
    (sink,) = spec.sinks
    options.scratch.mkdir(parents=True)
    # All that `streamjob run` sets, access to the bucket included.
    spark = start_session(settings_of(loaded, options.scratch, "s3a"))
    writer = query(spark, loaded).writeStream.format(sink.format).options(**loaded.options(sink))
    writer = writer.option("checkpointLocation", options.checkpoint)
    bounded = all(source.bounded for source in spec.sources)
    trigger = f"{options.trigger} seconds"
    # The plan has listed the bucket for columns of partitions; the batches come now.
    position = Path(os.environ["VGW_ACCESS_LOG"]).stat().st_size
    running = (writer.trigger(availableNow=True) if bounded else writer.trigger(processingTime=trigger)).start()
    ended = False
    while not ended:
        ended = bool(running.awaitTermination(1))
        batches = [json.loads(each.json) for each in running.recentProgress]
        new = options.report.with_suffix(".new")
        new.write_text(json.dumps({"position": position, "batches": batches}))
        new.replace(options.report)
    # Spark's own end takes seconds, and nothing of it is needed.
    os._exit(0)


if __name__ == "__main__":
    main()
