"""Parts of the jobs in the graph tests: a sink that records the batch of each row, and slow operators.

Imported by the jobs' processes as well, by its full name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from streamjob.ids import BatchId, CheckpointId
from streamjob.sink import SinkContext, Staged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SECONDS_PER_ROW = 0.01


class Sink:
    """Publishes, for each checkpoint, a file of batch numbers and their rows."""

    def open(self, context: SinkContext) -> None:
        """Take the directory from the option `path`."""
        self._directory = Path(context.options["path"])
        self._directory.mkdir(parents=True, exist_ok=True)

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Hand the rows themselves to the checkpoint."""
        # A stop interrupts this; with toArrow one was seen to wait for the batch.
        rows: list[JsonValue] = [[_plain(value) for value in row] for row in batch.collect()]
        return Staged([batch_id, rows] if rows else None, len(rows))

    def commit(self, checkpoint: CheckpointId, committables: Sequence[JsonValue]) -> None:
        """Write the file as a whole; again is the same."""
        temporary = self._directory / f".{checkpoint}"
        temporary.write_text(json.dumps(list(committables)))
        temporary.rename(self._directory / f"{checkpoint:08d}.json")

    def abort(self) -> None:
        """Nothing is staged outside of checkpoints."""

    def close(self) -> None:
        """Nothing is open."""


def recorded(directory: Path) -> list[tuple[int, list[tuple[Any, ...]]]]:
    """Return what a sink has published, batch by batch in the order of the checkpoints."""
    return [
        (number, [tuple(row) for row in rows])
        for file in sorted(directory.glob("*.json"))
        for number, rows in json.loads(file.read_text())
    ]


def _plain(value: object) -> JsonValue:
    return value.isoformat() if isinstance(value, datetime) else value  # type: ignore[return-value]


def slowed(rows: DataFrame) -> DataFrame:
    """Return the rows, each after a while."""
    from pyspark.sql.functions import col, udf

    seconds = SECONDS_PER_ROW

    def wait(number: int) -> int:
        time.sleep(seconds)
        return number

    return rows.withColumn("n", udf(wait, "bigint")(col("n")))


def gated(rows: DataFrame) -> DataFrame:
    """Return the rows, once the files exist that their column `gate` names; the column is dropped."""
    from pyspark.sql.functions import col, udf

    def wait(number: int, gate: str) -> int:
        while gate and not Path(gate).exists():
            time.sleep(0.01)
        return number

    return rows.withColumn("n", udf(wait, "bigint")(col("n"), col("gate"))).drop("gate")


def fragile(rows: DataFrame) -> DataFrame:
    """Return the rows without the column `gate`; fail, once, where that names a file that does not exist."""
    from pyspark.sql.functions import col, udf

    def check(number: int, gate: str) -> int:
        if gate and not Path(gate).exists():
            Path(gate).touch()
            raise ValueError("the goods are on fire")
        return number

    return rows.withColumn("n", udf(check, "bigint")(col("n"), col("gate"))).drop("gate")
