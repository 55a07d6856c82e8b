"""Fixtures of the sinks' tests: the shared Spark session under the name that the sink kit asks for."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.integration.sinks.databases import database, postgresql_server
from tests.integration.sinks.lakes import bucket_lake, lake, lake_server
from tests.integration.sinks.topics import topics

__all__ = ["bucket_lake", "database", "lake", "lake_server", "postgresql_server", "spark", "topics"]


@pytest.fixture(scope="session")
def spark(streamjob_spark: SparkSession) -> SparkSession:
    """Return the session that the plugin starts."""
    return streamjob_spark
