"""Spark, servers and what is on them, for the tests of several directories in a session."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.sinks.buckets import bucket
from tests.integration.sinks.databases import database, fragile_database, postgresql_driver, postgresql_server
from tests.integration.sinks.lakes import bucket_lake, lake
from tests.integration.sinks.upserts import mariadb, mariadb_server, redis_server
from tests.servers.kafka import KafkaServer, find_broker
from tests.servers.process import required
from tests.servers.s3 import S3Server
from tests.servers.schema_registry import SchemaRegistryServer, find_registry

from streamjob_runtime.spark.connectors.fetching import CannotFetch
from streamjob_runtime.spark.connectors.finding import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Hundreds of small queries end before the second compiler of Java pays for itself: without it a third less CPU is used.
# Java then reserves a fifth of its usual space for code, which the queries of one worker fill, and Java cannot go on.
# Jobs in processes of their own inherit the variable, which Spark's launcher reads.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")

__all__ = [
    "bucket",
    "bucket_lake",
    "database",
    "fragile_database",
    "lake",
    "mariadb",
    "mariadb_server",
    "postgresql_driver",
    "postgresql_server",
    "redis_server",
]


_HERE = Path(__file__).parent
_TIMEOUT = 300
"""Seconds that a test may take unless it says otherwise."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that may take longest, so that no worker is left with one of them at the end."""
    longest: dict[Path, int] = {}
    total: Counter[Path] = Counter()
    for item in items:
        mark = item.get_closest_marker("timeout")
        seconds = mark.args[0] if mark else _TIMEOUT
        longest[item.path] = max(longest.get(item.path, 0), seconds)
        total[item.path] += seconds

    def order(item: pytest.Item) -> tuple[int, int]:
        return (-longest[item.path], -total[item.path]) if _HERE in item.path.parents else (-(1 << 31), 0)

    items.sort(key=order)


@pytest.fixture(scope="session")
def spark(streamjob_spark: SparkSession) -> SparkSession:
    """Return the session of the tests' own process."""
    return streamjob_spark


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Return an S3 server that is not to be stopped."""
    with S3Server() as server:
        yield server


@pytest.fixture
def checks_credentials(s3_server: S3Server) -> None:
    """Skip a test of a login if the S3 server accepts any."""
    if not s3_server.is_versitygw:
        pytest.skip("moto takes any credentials")


@pytest.fixture
def decides_races(s3_server: S3Server) -> None:
    """Skip a test of creates at the same moment if the S3 server may let two of them win."""
    if not s3_server.is_versitygw:
        pytest.skip("moto checks whether an object exists, and then writes it")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Return an S3 server of the test's own, which the environment names."""
    with S3Server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(scope="session")
def streamjob_connectors() -> tuple[str, ...]:
    """Let the shared Spark session read and write Kafka, also as Protobuf, where the connectors can be had."""
    try:
        jars("kafka", os.environ)
        jars("protobuf", os.environ)
    except CannotFetch:
        if required():
            raise
        return ()
    return ("kafka", "protobuf")


@pytest.fixture(scope="session")
def kafka_server(streamjob_connectors: tuple[str, ...]) -> Iterator[KafkaServer]:
    """Return a broker that is not to be stopped."""
    if "kafka" not in streamjob_connectors or find_broker() is None:
        pytest.skip("there is no Kafka on this machine, and none can be fetched")
    with KafkaServer() as server:
        yield server


@pytest.fixture(scope="session")
def schema_registry() -> Iterator[SchemaRegistryServer]:
    """Return a schema registry that is not to be stopped."""
    if find_registry() is None:
        pytest.skip("there is no schema registry on this machine, and none can be fetched")
    with SchemaRegistryServer() as server:
        yield server


@pytest.fixture
def topic(kafka_server: KafkaServer) -> str:
    """Return the name of an empty topic with two partitions."""
    name = f"test-{secrets.token_hex(6)}"
    kafka_server.create_topic(name, 2)
    return name


@pytest.fixture(scope="session")
def second_broker(kafka_server: KafkaServer) -> Iterator[KafkaServer]:
    """Return another broker; there is one where the first can be had."""
    # Transactions that took too long are looked for every ten seconds otherwise.
    with KafkaServer(transaction_abort_timed_out_transaction_cleanup_interval_ms="200") as server:
        yield server


@pytest.fixture
def fragile_broker(second_broker: KafkaServer) -> Iterator[KafkaServer]:
    """Return a broker that the test may kill."""
    yield second_broker
    if not second_broker.is_running:
        second_broker.start()
