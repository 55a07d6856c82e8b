"""Passes records on from topic to topic with Flink. Runs in an environment of its own, with nothing but PyFlink."""

from __future__ import annotations

import argparse


def main() -> None:
    """Copy the topic, exactly once, until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("jar", "brokers", "topic", "checkpoints"):
        parser.add_argument(name)
    options = parser.parse_args()

    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    for key, value in {
        "parallelism.default": "2",
        "pipeline.jars": f"file://{options.jar}",
        "pipeline.object-reuse": "true",
        "execution.checkpointing.interval": "10s",
        "execution.checkpointing.dir": f"file://{options.checkpoints}",
    }.items():
        configuration.set_string(key, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    tables = TableEnvironment.create(settings)
    common = f"'connector' = 'kafka', 'format' = 'raw', 'properties.bootstrap.servers' = '{options.brokers}'"
    tables.execute_sql(
        f"CREATE TABLE events (v BYTES) WITH ({common}, 'topic' = '{options.topic}',"
        " 'scan.startup.mode' = 'earliest-offset')"
    )
    # The broker allows transactions of 15 minutes at most.
    tables.execute_sql(
        f"CREATE TABLE copied (v BYTES) WITH ({common}, 'topic' = '{options.topic}-copy',"
        f" 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{options.topic}',"
        " 'properties.transaction.timeout.ms' = '600000')"
    )
    tables.execute_sql("INSERT INTO copied SELECT v FROM events").wait()


if __name__ == "__main__":
    main()
