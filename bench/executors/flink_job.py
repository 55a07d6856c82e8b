"""Submits the job of `live.yaml` to a cluster of Flink. Runs in an environment of its own, with PyFlink."""

from __future__ import annotations

import argparse
from pathlib import Path


def main() -> None:
    """Submit the job; it runs until its cluster ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of the cluster's REST API on this machine")
    parser.add_argument("--jars", required=True, help="jars, separated by commas")
    parser.add_argument("--directory", type=Path, required=True, help="with the input, for the output and checkpoints")
    parser.add_argument("--interval", required=True, help="of the checkpoints, such as 5s")
    options = parser.parse_args()

    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    for key, value in {
        "execution.target": "remote",
        "rest.address": "127.0.0.1",
        "rest.port": str(options.port),
        "parallelism.default": "2",
        "pipeline.jars": ";".join(f"file://{each}" for each in options.jars.split(",")),
        "table.local-time-zone": "UTC",
        # Without it the job has no checkpoints and no restarts: the cluster's setting does not count.
        "execution.checkpointing.interval": options.interval,
        "execution.checkpointing.dir": (options.directory / "checkpoints").as_uri(),
        "state.backend.type": "rocksdb",
    }.items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(settings)
    tables.execute_sql(
        "CREATE TABLE events (`key` BIGINT, `time` TIMESTAMP(3), `value` DOUBLE,"
        " WATERMARK FOR `time` AS `time` - INTERVAL '10' SECOND)"
        f" WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{options.directory}/input',"
        " 'source.monitor-interval' = '500 ms')"
    )
    columns = "`key` BIGINT, `begin` TIMESTAMP(3), events BIGINT, total DOUBLE, largest DOUBLE"
    tables.execute_sql(
        f"CREATE TABLE report ({columns}) WITH ('connector' = 'filesystem', 'format' = 'json',"
        f" 'path' = '{options.directory}/output', 'sink.rolling-policy.rollover-interval' = '1 s',"
        " 'sink.rolling-policy.check-interval' = '500 ms')"
    )
    tables.execute_sql(f"CREATE TABLE printed ({columns}) WITH ('connector' = 'print', 'print-identifier' = 'row')")
    tables.execute_sql(
        "CREATE VIEW minutes AS SELECT `key`, window_start AS `begin`, COUNT(*) AS events, SUM(`value`) AS total,"
        " MAX(`value`) AS largest FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(`time`), INTERVAL '1' MINUTE))"
        " GROUP BY `key`, window_start, window_end"
    )
    both = tables.create_statement_set()
    both.add_insert_sql("INSERT INTO report SELECT * FROM minutes")
    # A row is in the log when it is emitted; the files are visible behind a checkpoint.
    both.add_insert_sql("INSERT INTO printed SELECT * FROM minutes WHERE `key` < 10")
    both.execute()


if __name__ == "__main__":
    main()
