"""An alarm when a machine has sent nothing for ten minutes.

Trap: a query is about rows, and no row says that something is missing. A timer in event time does: it fires when the
watermark passes it, so the events of other machines drive it, and a job that catches up after a failure raises the same
alarms as one that never failed. A timer in processing time would raise an alarm for every machine after each outage.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from streamjob import Job

SILENCE_MS = 10 * 60 * 1000

job = Job("timers")

beats = job.source(
    "beats",
    format="json",
    schema="machine STRING, at TIMESTAMP",
    options={"path": "data/beats"},
    watermark=("at", "1m"),
)


@job.operator(inputs=[beats])
def alarms(beats: DataFrame) -> DataFrame:
    """Return each machine that has become silent, with the time of its last beat."""
    return beats.groupBy("machine").applyInPandasWithState(
        watch, "machine STRING, silent_since TIMESTAMP", "last LONG", "append", GroupStateTimeout.EventTimeTimeout
    )


def watch(key: tuple[Any, ...], batches: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Remember the last beat of one machine, and set its timer again."""
    if state.hasTimedOut:
        (last,) = state.get
        state.remove()
        yield pd.DataFrame({"machine": [key[0]], "silent_since": [pd.Timestamp(last, unit="ms")]})
        return
    last = max(int(batch["at"].max().timestamp() * 1000) for batch in batches)
    if state.exists:
        last = max(last, state.get[0])
    state.update((last,))
    # A timer must be ahead of the watermark; a beat that is later than that rings at once.
    state.setTimeoutTimestamp(max(last + SILENCE_MS, state.getCurrentWatermarkMs() + 1))


job.sink("out", input=alarms, format="json", options={"path": "output/alarms"})
