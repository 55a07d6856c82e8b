"""The measured times of writing to PostgreSQL, in the form of `postgresql.json`."""

from __future__ import annotations

from bench.model import Circumstances, Model

WARM_ROWS = 50_000
"""Rows that a process writes before it is measured."""


class Done(Model):
    """A writer's result: seconds to write all batches, and to publish them; None if both are one step."""

    write: float
    publish: float | None = None


class PostgresqlRun(Model):
    """One run of one side.

    `driver_bytes` is the peak memory of the driver's processes, Python and Java, together; `worker_bytes` that of the
    Python workers, without shared memory.
    """

    side: str
    round: int
    rows: int
    batches: int
    done: Done
    driver_bytes: int
    worker_bytes: int
    load_before: float

    @property
    def seconds(self) -> float:
        """Until the table has the rows."""
        return self.done.write + (self.done.publish or 0.0)


class Postgresql(Model):
    """All of it."""

    circumstances: Circumstances
    slots: int
    runs: tuple[PostgresqlRun, ...] = ()
