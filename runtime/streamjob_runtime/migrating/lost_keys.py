"""Finds the keys of the former state that become one, and those that have no row any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamjob.ids import BatchId
from streamjob.job.model.spec import STATE
from streamjob.job.query.quoting import quoted
from streamjob.migration.state import Column, Family
from streamjob.migration.widening import cast, widens
from streamjob_runtime.migrating.transforming import OperatorMigration, read_rows, transform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class LostKeys:
    """Keys that merge or vanish; None where it cannot be seen, or where there are none.

    Args:
        merged: the new keys that several former rows have: `key`, by the names of its columns, and `rows`, how many.
        vanished: the former keys that no row of the new state has: `key`.
    """

    merged: DataFrame | None = None
    vanished: DataFrame | None = None


def lost_keys(spark: SparkSession, each: OperatorMigration, location: str, batch: BatchId) -> LostKeys:
    """Return the keys that merge or vanish by a migration; not computed.

    Keys vanish by a query of the author only, and are then found by the names of their columns.

    Args:
        location: the URI by which Spark opens the checkpoint with the former state.
        batch: its last committed batch.
    """
    for family in each.migration.families:
        if family.merged and family.source is not None:
            former = _keys(read_rows(spark, location, each.number, family.source, batch), family.target, family.key)
            return LostKeys(_several(former))
    # Several tables have keys of their own.
    if [*each.migration.sql] != [STATE]:
        return LostKeys()
    source, target = each.before.families[0], each.after.families[0]
    key = [_former(source.key, column) for column in target.key]
    if None in key:
        return LostKeys()
    former = _keys(read_rows(spark, location, each.number, source, batch), target, [part for part in key if part])
    new = transform(spark, each, location, batch)[target.store, target.name]
    there = _keys(new, target, [f"key.k{number}" for number in range(len(target.key))])
    return LostKeys(_several(former), former.subtract(there))


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
    from pyspark.sql import functions as f

    return keys.groupBy("key").agg(f.count("*").alias("rows")).where("rows > 1")
