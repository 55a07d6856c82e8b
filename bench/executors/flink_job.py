"""Submits the job of `live.yaml` to a Flink cluster. Runs with PyFlink and the standard library only."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def main() -> None:
    """Submit the job, and print its id."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=Path, required=True, help="JSON: Flink's settings")
    parser.add_argument("--input", type=Path, required=True, help="directory of Parquet files")
    parser.add_argument("--output", type=Path, required=True, help="directory for the windows")
    options = parser.parse_args()

    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    for key, value in json.loads(options.settings.read_text()).items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(settings)
    tables.execute_sql(
        "CREATE TABLE events (`key` BIGINT, `time` TIMESTAMP(3), `value` DOUBLE, "
        "WATERMARK FOR `time` AS `time` - INTERVAL '10' SECOND) WITH ('connector' = 'filesystem', "
        f"'format' = 'parquet', 'path' = '{options.input}', 'source.monitor-interval' = '100 ms')"
    )
    tables.execute_sql(
        "CREATE TABLE report (`key` BIGINT, `begin` TIMESTAMP(3), `events` BIGINT, `total` DOUBLE, `largest` DOUBLE) "
        f"WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{options.output}')"
    )
    result = tables.execute_sql(
        "INSERT INTO report SELECT `key`, window_start, count(*), sum(`value`), max(`value`) "
        "FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(`time`), INTERVAL '1' MINUTE)) "
        "GROUP BY `key`, window_start, window_end"
    )
    client = result.get_job_client()
    assert client is not None
    print(client.get_job_id(), flush=True)


if __name__ == "__main__":
    main()
