"""A job on executors that sums consecutive numbers: its output shows by itself whether a row is lost or doubled."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from typing import Any

from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, last_checkpoint
from e2e.harness.namespace import SMALL
from e2e.harness.stores import opened

NAME = "numbers"
KEYS = 3


def output(jobs: StreamJobs) -> str:
    """Return where the job writes: executors have no volume in common."""
    return f"{jobs.namespace.location}-output"


def apply(jobs: StreamJobs, **spec: Any) -> None:
    """Create the job: it sums numbers by key and second, and its state is on both executors."""
    source = {
        "name": "numbers",
        "format": "rate",
        "options": {"rowsPerSecond": 30},
        "watermark": {"column": "timestamp", "delay": "1s"},
    }
    sums = {
        "name": "sums",
        "inputs": ["numbers"],
        "sql": f"SELECT value % {KEYS} AS key, window.start AS start, min(value) AS low, max(value) AS high,"
        f" count(*) AS rows FROM numbers GROUP BY window(timestamp, '1 second'), value % {KEYS}",
    }
    sink = {"name": "report", "input": "sums", "format": "json", "options": {"path": output(jobs)}}
    wanted: dict[str, Any] = {
        "job": {"sources": [source], "operators": [sums], "sinks": [sink]},
        "parallelism": 2,
        "maxParallelism": 4,
        "checkpointing": {"location": jobs.namespace.location, "interval": "2s"},
        "storage": jobs.namespace.storage,
        "driver": SMALL,
        "executor": SMALL,
    }
    jobs.namespace.apply("streamjob.io/v1alpha1", "StreamJob", NAME, spec={**wanted, **spec})


def executors(jobs: StreamJobs) -> dict[str, Object]:
    """Return the pods of the executors, by name."""
    labels = f"streamjob.io/name={NAME},app.kubernetes.io/component=executor"
    return {pod["metadata"]["name"]: pod for pod in jobs.namespace.all("Pod", labels)}


def report(jobs: StreamJobs) -> list[Object]:
    """Return the rows that the job has published."""
    with opened(jobs.namespace, output(jobs)) as store:
        files = [each.key for each in store.list("") if each.key.endswith(".json") and "_streamjob" not in each.key]
        return [json.loads(line) for key in files for line in store.get(key).decode().splitlines()]


def flaw(rows: list[Object]) -> str:
    """Return how rows differ from what a batch job would compute of the numbers so far; nothing if they do not.

    Of each key, each number is in one row, and none is missing between the first and the last.
    """
    by_key: defaultdict[int, list[Object]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: int(row["low"])):
        by_key[row["key"]].append(row)
    if len(by_key) != KEYS:
        return f"there are only the keys {sorted(by_key)}"
    for key, found in by_key.items():
        following = key
        for row in found:
            if row["low"] != following or row["rows"] != (row["high"] - row["low"]) // KEYS + 1:
                return f"the row of key {key} that begins with {following} is {row}"
            following = row["high"] + KEYS
    return ""


def wait_for_numbers(jobs: StreamJobs, more_than: int = 0, *, within: float = 300.0) -> int:
    """Wait until the output is exact and has more than so many numbers, and return how many it has.

    The files of one checkpoint appear one after another, so a gap may be seen for a moment.
    """
    end = time.monotonic() + within
    while True:
        rows = report(jobs)
        numbers, wrong = sum(int(row["rows"]) for row in rows), flaw(rows)
        if numbers > more_than and not wrong:
            return numbers
        assert time.monotonic() < end, f"after {within:g} s the output has {numbers} numbers; {wrong}"
        time.sleep(1)


def wait_for_executors(jobs: StreamJobs, number: int, later_than: Object | None = None) -> Object:
    """Wait until so many executors are ready and the job has completed a later checkpoint, and return the status."""
    known = 1 if later_than is None else last_checkpoint(later_than) + 2
    return jobs.wait(
        NAME,
        lambda status: (
            status.get("lifecycleState") == "STABLE"
            and status.get("executors") == {"desired": number, "ready": number, "lost": 0}
            and last_checkpoint(status) >= known
        ),
        what=f"checkpoint {known} on {number} executors",
        within=420,
    )
