"""Servers and connectors that the tests of several directories share in a session."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest
from tests.servers.kafka import KafkaServer, find_broker
from tests.servers.process import required

from streamjob_runtime.connectors.fetching import CannotFetch
from streamjob_runtime.connectors.finding import jars


@pytest.fixture(scope="session")
def streamjob_connectors() -> tuple[str, ...]:
    """Let the shared Spark session read and write Kafka, where its connector can be had."""
    try:
        jars("kafka", os.environ)
    except CannotFetch:
        if required():
            raise
        return ()
    return ("kafka",)


@pytest.fixture(scope="session")
def kafka_server(streamjob_connectors: tuple[str, ...]) -> Iterator[KafkaServer]:
    """Return a broker that is not to be stopped."""
    if "kafka" not in streamjob_connectors or find_broker() is None:
        pytest.skip("there is no Kafka on this machine, and none can be fetched")
    with KafkaServer() as server:
        yield server


@pytest.fixture
def topic(kafka_server: KafkaServer) -> str:
    """Return the name of an empty topic with two partitions."""
    name = f"test-{secrets.token_hex(6)}"
    kafka_server.create_topic(name, 2)
    return name
