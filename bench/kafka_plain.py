"""From topic to topic by Spark's own Kafka source and sink: the process that the benchmark compares with."""

from __future__ import annotations

import argparse
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
    return parser.parse_args()


def main() -> None:
    """Run the query to where the topic ends now, or for ever if its source is not bounded."""
    options = arguments()
    loaded = load_job(options.job, options.overrides)
    spec = loaded.spec
    (sink,) = spec.sinks
    options.scratch.mkdir(parents=True)
    spark = start_session(settings_of(loaded, options.scratch, "kafka"))
    writer = query(spark, loaded).writeStream.format("kafka").options(**loaded.options(sink))
    writer = writer.option("checkpointLocation", str(options.scratch / "checkpoint"))
    bounded = all(source.bounded for source in spec.sources)
    (writer.trigger(availableNow=True) if bounded else writer).start().awaitTermination()
    # Spark's own end takes seconds, and nothing of it is needed.
    os._exit(0)


if __name__ == "__main__":
    main()
