"""What is told of state while it is changed, for whoever shows it or keeps a record of it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from streamjob.migration.records import MigrationRecord
from streamjob_runtime.migrating.transforming import OperatorMigration

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Step(StrEnum):
    """The steps of the migration of an operator's state, in their order."""

    READING = "reading"
    WRITING = "writing"
    VERIFYING = "verifying"


class MigrationWatch:
    """Is told of migrations, and does nothing about them."""

    def migrating(self, each: OperatorMigration, step: Step) -> None:
        """A step of the migration of an operator's state begins."""

    def migrated(self, record: MigrationRecord, number: int) -> None:
        """The new state of an operator, which has this number in the new query, is verified and is going to be used."""


def tasks_of(spark: SparkSession) -> tuple[int, int]:
    """Return how many tasks of what Spark runs now are done, and how many there are; a partition has a task."""
    tracker = spark.sparkContext.statusTracker()
    stages = [info for each in tracker.getActiveStageIds() if (info := tracker.getStageInfo(each)) is not None]
    return sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages)
