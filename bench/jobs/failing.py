"""An operator that fails once for each request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

VARIABLE = "BENCH_FAILURE"


def when_told(records: DataFrame) -> DataFrame:
    """Return the records; fail, and remove the file that the variable names, if it exists."""
    told = Path(os.environ[VARIABLE])

    # Workers do not know this module: a nested function travels by value.
    def check(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for part in parts:
            if told.exists():
                told.unlink()
                raise ValueError("told to fail")
            yield part

    return records.mapInPandas(check, records.schema)
