"""What is told of state while it is changed, for whoever shows it or keeps a record of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from streamjob.ids import OperatorUid
from streamjob.migration.records import MigrationRecord
from streamjob_runtime.migrating.lost_keys import LostKeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Step(StrEnum):
    """The steps of the migration of an operator's state, in their order."""

    READING = "reading"
    WRITING = "writing"
    VERIFYING = "verifying"


@dataclass(frozen=True, slots=True)
class Migrating:
    """The migration of the state of an operator, in one of its steps.

    Args:
        operators: the operator that keeps the state; several if either may.
        number: Spark's number of it in the new query.
        rows: returns the rows of its first table as they are now, with the columns `key`, as stored, and `row`, as a
            query of the author sees it: those before the migration while READING, the new ones while VERIFYING.
        lost: finds the keys that merge or vanish, while READING.
        partitions: returns how many partitions the step has done, and how many it has to do, as far as Spark knows.
    """

    operators: tuple[OperatorUid, ...]
    number: int
    step: Step
    rows: Callable[[], DataFrame]
    lost: Callable[[], LostKeys]
    partitions: Callable[[], tuple[int, int]]


class MigrationWatch:
    """Is told of migrations, and does nothing about them."""

    def migrating(self, step: Migrating) -> None:
        """A step begins."""

    def migrated(self, record: MigrationRecord, number: int) -> None:
        """The new state of an operator, which has this number in the new query, is verified and is going to be used."""


def tasks_of(spark: SparkSession) -> tuple[int, int]:
    """Return how many tasks of what Spark runs now are done, and how many there are; a partition has a task."""
    tracker = spark.sparkContext.statusTracker()
    stages = [info for each in tracker.getActiveStageIds() if (info := tracker.getStageInfo(each)) is not None]
    return sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages)
