"""Answers a query with Flink. Runs in an environment of its own, with nothing but the standard library and PyFlink."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the query that the file describes to the end of its input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", type=Path, required=True, help="JSON: tables with their columns, statement, sink")
    parser.add_argument("--jars", required=True, help="jars, separated by commas")
    parser.add_argument("--out", type=Path, help="directory for the result; without it, rows are discarded")
    options = parser.parse_args()
    query: dict[str, Any] = json.loads(options.query.read_text())

    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    for key, value in {
        "parallelism.default": "2",
        "pipeline.jars": ";".join(f"file://{each}" for each in options.jars.split(",")),
        "pipeline.object-reuse": "true",
        "table.local-time-zone": "UTC",
        "state.backend.type": "rocksdb",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "2 s",
        "table.exec.mini-batch.size": "50000",
        "table.optimizer.distinct-agg.split.enabled": "true",
        "taskmanager.memory.managed.size": "1g",
    }.items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(settings)
    for name, table in query["tables"].items():
        tables.execute_sql(
            f"CREATE TABLE {name} ({table['columns']}, WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) "
            f"WITH ('connector' = 'filesystem', 'format' = 'parquet', 'path' = '{table['path']}')"
        )
    target = (
        f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{options.out}'"
        if options.out
        else "'connector' = 'blackhole'"
    )
    tables.execute_sql(f"CREATE TABLE answers ({query['result']}) WITH ({target})")
    tables.execute_sql(f"INSERT INTO answers {query['statement']}").wait()


if __name__ == "__main__":
    main()
