"""Computes the rows of an operator's new state from its former rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob.errors import CannotRestore
from streamjob.ids import BatchId, OperatorUid
from streamjob.job.model.spec import STATE
from streamjob.job.query.quoting import quoted
from streamjob.migration.state import Family, FamilyMigration, KeptState, Migration, columns_in_words
from streamjob.migration.tables import Table, TableColumn, columns_of, tables_in_words, tables_of
from streamjob.migration.widening import cast, widens
from streamjob_runtime.spark.gateway import frame_of, java_frame, java_session, our_java

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession


class MigrationQueryRefused(CannotRestore):
    """The query of a migration does not return the state that its operator needs."""


@dataclass(frozen=True, slots=True)
class OperatorMigration:
    """The migration of the state of one operator of a restored checkpoint.

    Args:
        checkpoint: Spark's checkpoint directory of a chain whose query is not running.
        location: the URI by which Spark opens it.
        batch: its last committed batch.
        described: a checkpoint directory in which Spark has described the new state.
        number: the operator's number in the new query, and in the checkpoint.
        label: its name in messages: `the state of 'counts'`.
        before: the state that the checkpoint has.
        after: the state that the query needs.
        migration: how it follows.
        initial: the buffers of the new operator's aggregates before any input, in one row; None if none begins so.
    """

    spark: SparkSession
    checkpoint: Path
    location: str
    batch: BatchId
    described: Path
    number: int
    uids: Set[OperatorUid]
    label: str
    before: KeptState
    after: KeptState
    migration: Migration
    initial: DataFrame | None

    @property
    def operators(self) -> tuple[OperatorUid, ...]:
        """The operator that keeps it; several if either may."""
        return tuple(sorted(self.uids))

    def rows(self, family: Family) -> DataFrame:
        """Return the rows of a column family that the checkpoint has, with the columns `key` and `value`."""
        java, place = our_java(self.spark).StateRows, (self.location, self.number, family.store, family.name)
        return frame_of(self.spark, java.read(java_session(self.spark), *place, self.batch))

    def shown_rows(self, state: KeptState) -> DataFrame:
        """Return the rows of a state's first table with the columns `key` and `row`, as a query of the author sees it.

        Args:
            state: the one that the checkpoint has.
        """
        columns = ", ".join(f"{each.read} AS {each.quoted}" for each in columns_of(state, state.families[0]))
        return self.rows(state.families[0]).selectExpr("key", f"struct({columns}) AS row")


def transform(each: OperatorMigration) -> Mapping[tuple[str, str], DataFrame]:
    """Return the rows of the new state by store and column family, with the columns `key` and `value`; not computed.

    Raises:
        MigrationQueryRefused: the author's query is not valid, or returns other columns.
    """
    inferred = {
        (family.target.store, family.target.name): _inferred(each, family, each.rows(family.source))
        for family in each.migration.families
        if family.source is not None
    }
    returned = _by_query(each, _numbered)
    return {**inferred, **{place: frame_of(each.spark, java_frame(frame)) for place, frame in returned.items()}}


def _numbered(each: OperatorMigration, table: Table) -> DataFrame:
    rows = each.rows(table.families[0].target).selectExpr("*", "monotonically_increasing_id() AS place")
    return rows.selectExpr(*[f"{column.read} AS {column.quoted}" for column in table.columns])


def _inferred(each: OperatorMigration, family: FamilyMigration, rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    if each.initial is not None:
        rows = rows.crossJoin(f.broadcast(each.initial.select(f.struct("*").alias("initial"))))
    new = rows.select(_struct("k", family.key).alias("key"), _struct("v", family.value).alias("value"))
    if not family.merged:
        return new
    return new.select("key", "value.*").groupBy("key").agg(_struct("v", family.merged).alias("value"))


def _struct(prefix: str, expressions: Sequence[str]) -> SparkColumn:
    from pyspark.sql import functions as f

    return f.struct(*[f.expr(expression).alias(f"{prefix}{number}") for number, expression in enumerate(expressions)])


def check_query(each: OperatorMigration) -> None:
    """Check the author's queries, if there are any, without the state.

    Raises:
        MigrationQueryRefused: one is not valid, or returns other columns.
    """
    _by_query(each, _empty)


def _empty(each: OperatorMigration, table: Table) -> DataFrame:
    return each.spark.createDataFrame([], ", ".join(f"{column.quoted} {column.type}" for column in table.columns))


def _by_query(
    each: OperatorMigration, former: Callable[[OperatorMigration, Table], DataFrame]
) -> dict[tuple[str, str], DataFrame]:
    """Return what the author's queries make of the former tables, by store and column family."""
    from pyspark import StorageLevel
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    found: dict[tuple[str, str], DataFrame] = {}
    if not each.migration.sql:
        return found
    # A session of its own: an operator of the job may be called as a table.
    each, wanted = replace(each, spark=each.spark.newSession()), tables_of(each.after)
    for name, table in tables_of(each.before).items():
        former(each, table).createOrReplaceTempView(quoted(name))
    for name, sql in each.migration.sql.items():
        try:
            returned = each.spark.sql(sql)
        except PySparkException as error:
            raise _refused(each, name, str(error).partition("\n")[0]) from error
        table = wanted[name]
        rows = returned.selectExpr(*_ordered(each, name, returned, table.columns))
        if table.order:
            rows = rows.repartition(*table.order[:-1]).sortWithinPartitions(*table.order)
        if len(table.families) > 1:
            # Compute the rows once: a query that reads a clock would return other rows for each family.
            rows = rows.localCheckpoint(eager=False, storageLevel=StorageLevel.DISK_ONLY)
        for family in table.families:
            parts = [_struct("k", family.key).alias("key"), _struct("v", family.value).alias("value")]
            many = rows.groupBy(*map(f.expr, family.by)).agg(*parts) if family.by else rows.select(*parts)
            found[family.target.store, family.target.name] = many.select("key", "value")
    return found


def _ordered(each: OperatorMigration, name: str, found: DataFrame, wanted: Sequence[TableColumn]) -> list[str]:
    """Return the expressions of the wanted columns over those that a query returns."""
    types = {field.name.lower(): field.dataType.simpleString() for field in found.schema.fields}
    if len(types) != len(found.columns) or types.keys() != {column.name.lower() for column in wanted}:
        raise _refused(each, name, f"it returns ({', '.join(found.columns)})")
    expressions = []
    for column in wanted:
        had = types[column.name.lower()]
        if not widens(had, column.type):
            raise _refused(each, name, f"its {column.name} is of type {had}, and not {column.type}")
        expressions.append(f"{cast(column.quoted, had, column.type)} AS {column.quoted}")
    return expressions


def _refused(each: OperatorMigration, name: str, reason: str) -> MigrationQueryRefused:
    wanted, of = columns_in_words(tables_of(each.after)[name].columns), "" if name == STATE else f" {name!r} in"
    return MigrationQueryRefused(
        f"The query that migrates{of} {each.label} cannot be used: {reason}",
        f"select {wanted} from {tables_in_words(tables_of(each.before))}",
    )
