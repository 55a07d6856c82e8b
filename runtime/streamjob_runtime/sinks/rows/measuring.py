"""Measures rows while an action computes them: their number, and a hash for any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from streamjob.job.query.quoting import quoted
from streamjob.sink import Measured

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def observed(rows: DataFrame) -> tuple[DataFrame, Callable[[], Measured]]:
    """Return the rows to compute, and what tells how many there are, and their hash, once an action has ended."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    observation = Observation()
    each = [part for one in rows.schema.fields for part in _hashable(f.col(quoted(one.name)), one.dataType)]
    # The sum of numbers of 64 bits has no room in one.
    total = f.sum(f.xxhash64(*each).cast("decimal(20,0)"))

    def measured() -> Measured:
        found = observation.get
        return Measured(found["rows"], int(found["hash"] or 0) % 2**64)

    return rows.observe(observation, f.count(f.lit(1)).alias("rows"), total.alias("hash")), measured


def measure(rows: DataFrame) -> Measured:
    """Compute rows, in one Spark action, and return how many there are, and their hash."""
    rows, measured = observed(rows)
    rows.write.format("noop").mode("append").save()
    return measured()


def _hashable(column: Column, of: DataType) -> tuple[Column, Column]:
    """Return what to hash of a column: Spark hashes no maps, and passes over NULLs and the ends of arrays."""
    whole = column.cast("string") if of.simpleString().startswith(("array", "map", "struct")) else column
    return whole, column.isNull()
