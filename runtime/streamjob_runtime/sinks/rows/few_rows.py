"""Says how many of its rows a task sends to the driver instead of writing them itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HANDED_OVER_BYTES = 16 << 20


def few_of(batch: DataFrame) -> int:
    """Return the size in bytes up to which a task sends its rows to the driver, which then holds about 16 MB."""
    tasks = int(batch.sparkSession.conf.get("spark.sql.shuffle.partitions") or "1")
    return _HANDED_OVER_BYTES // max(32, tasks)
