"""The change since the last reading of a sensor; a sensor that was silent for a day begins again.

Trap: the state of a key stays until something removes it, so sensors that are gone for good fill the disk. The TTL of
`transformWithState` counts processing time: a job that catches up after an outage has forgotten sensors that were never
silent. A timer in event time forgets a sensor at the same reading, however often and however late the job runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from streamjob import Job

KEPT_MS = 24 * 60 * 60 * 1000

job = Job("forget-keys")

readings = job.source(
    "readings",
    format="json",
    schema="sensor STRING, value DOUBLE, at TIMESTAMP",
    options={"path": "data/readings"},
    watermark=("at", "1m"),
)


@job.operator(inputs=[readings])
def changes(readings: DataFrame) -> DataFrame:
    """Return each reading with the change since the one before; null for the first one."""
    return readings.groupBy("sensor").applyInPandasWithState(
        compare, "sensor STRING, at TIMESTAMP, change DOUBLE", "value DOUBLE, at LONG", "append", TIMEOUT
    )


TIMEOUT = GroupStateTimeout.EventTimeTimeout


def compare(key: tuple[Any, ...], batches: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Compare the readings of one sensor, and forget it when it has been silent for a day."""
    if state.hasTimedOut:
        state.remove()
        return
    rows = pd.concat(list(batches)).sort_values("at")
    value, last = state.get if state.exists else (None, 0)
    before = rows["value"].shift(fill_value=value if value is not None else float("nan"))
    state.update((float(rows["value"].iloc[-1]), max(last, int(rows["at"].iloc[-1].timestamp() * 1000))))
    # A timer must be ahead of the watermark.
    state.setTimeoutTimestamp(max(state.get[1] + KEPT_MS, state.getCurrentWatermarkMs() + 1))
    yield pd.DataFrame({"sensor": key[0], "at": rows["at"], "change": rows["value"] - before})


job.sink("out", input=changes, format="json", options={"path": "output/changes"})
