"""Operators that take their time for each record, without using the processor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame


def one_millisecond(records: DataFrame) -> DataFrame:
    """Return the records, a millisecond a record later."""
    return _slow(records, 0.001)


def five_milliseconds(records: DataFrame) -> DataFrame:
    """Return the records, five milliseconds a record later."""
    return _slow(records, 0.005)


def _slow(records: DataFrame, seconds: float) -> DataFrame:
    # Workers do not know this module: a nested function travels by value.
    def wait(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import time

        for part in parts:
            # One sleep for all: each sleep takes some tens of microseconds longer than asked.
            time.sleep(seconds * len(part))
            yield part

    return records.mapInPandas(wait, records.schema)
