"""What is told of state while it is changed, for whoever shows it or keeps a record of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from streamjob.job.model.spec import STATE
from streamjob.job.query.quoting import quoted
from streamjob.migration.records import MigrationRecord
from streamjob.migration.state import Column, Family
from streamjob.migration.widening import cast, widens
from streamjob_runtime.migrating.transforming import OperatorMigration, transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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


def lost_keys(each: OperatorMigration) -> tuple[DataFrame | None, DataFrame | None]:
    """Return the keys that merge by a migration, and those that vanish; None where it cannot be seen, or for none.

    The first are new keys that several former rows have: `key`, by the names of its columns, and `rows`, how many. The
    others are former keys, as `key`, that no row of the new state has. Keys vanish by a query of the author only, and
    are then found by the names of their columns. Nothing is computed.
    """
    for family in each.migration.families:
        if family.merged and family.source is not None:
            return _several(_keys(each.rows(family.source), family.target, family.key)), None
    # Several tables have keys of their own.
    if [*each.migration.sql] != [STATE]:
        return None, None
    source, target = each.before.families[0], each.after.families[0]
    key = [part for column in target.key if (part := _former(source.key, column)) is not None]
    if len(key) < len(target.key):
        return None, None
    new = transform(each)[target.store, target.name]
    former, there = _keys(each.rows(source), target, key), _keys(new, target, [f"key.k{at}" for at in range(len(key))])
    return _several(former), former.subtract(there)


def _former(key: tuple[Column, ...], wanted: Column) -> str | None:
    same = (
        cast(f"key.k{place}", each.type, wanted.type)
        for place, each in enumerate(key)
        if each.name.lower() == wanted.name.lower() and widens(each.type, wanted.type)
    )
    return next(same, None)


def _keys(rows: DataFrame, target: Family, key: Sequence[str]) -> DataFrame:
    columns = ", ".join(f"{part} AS {quoted(each.name)}" for part, each in zip(key, target.key, strict=True))
    return rows.selectExpr(f"struct({columns}) AS key")


def _several(keys: DataFrame) -> DataFrame:
    return keys.groupBy("key").count().where("count > 1").selectExpr("key", "count AS rows")
