"""Counts the rows of a batch while Spark writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def counted(batch: DataFrame) -> tuple[DataFrame, Callable[[], int | None]]:
    """Return the batch, and what tells its number of rows behind the first Spark action on it; None if Spark does not.

    Args:
        batch: the rows; the action has to compute all of them.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    observation = Observation()
    observed = batch.observe(observation, f.count(f.lit(1)).alias("rows"))
    return observed, lambda: observation.get.get("rows")
