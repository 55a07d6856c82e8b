"""The jobs whose queries change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.integration.migrations.lives import Lives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def lives(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    """Return the jobs before their changes; the session gets back the number of partitions that it had."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    yield Lives(spark, tmp_path_factory.mktemp("lives"))
    spark.conf.set(name, str(before))
