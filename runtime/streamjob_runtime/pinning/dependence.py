"""Names what makes a query give other rows when a batch runs again, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streamjob_runtime.spark.gateway import analyzed_plan, execution_of_batch, our_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Unsteady:
    """A part of a query whose result is not a function of the rows that it reads.

    Args:
        what: the part and its problem, a clause.
        fix: what to write instead.
    """

    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class _Kind:
    what: str
    fix: str
    on_executors: bool = False


_KINDS = {
    "value": _Kind(
        "{}() gives another value each time",
        "compute the value from columns of the row, such as xxhash64(id), or take current_timestamp() for the time",
    ),
    "function": _Kind(
        "the Python function {} is declared as not deterministic",
        "let it depend on its arguments only, and leave asNondeterministic() out",
    ),
    "table": _Kind(
        "it reads a table (columns: {}), which may have other rows by then",
        "let the changes of the table be a source, and join with them, as with temporalJoin",
    ),
    "sum": _Kind(
        "{}() of DOUBLE or FLOAT depends on the order in which executors add",
        "add decimals: cast the column AS DECIMAL(38, 6), and the result back",
        on_executors=True,
    ),
    "aggregate": _Kind(
        "{}() depends on the order in which rows come from executors",
        "sort inside, as in sort_array(collect_list(x)); take max_by(x, struct(t, x)) for the last value",
        on_executors=True,
    ),
    "duplicates": _Kind(
        "of duplicates, any one gives the columns {}",
        "select only the key columns before dropDuplicates, or aggregate: min_by(x, struct(t, x))",
        on_executors=True,
    ),
    "limit": _Kind("LIMIT {} takes any rows", "take the first ones by a column, in an aggregation", on_executors=True),
    "state": _Kind(
        "{} gets the rows of a key in the order in which they come from executors",
        "aggregate in SQL as far as possible",
        on_executors=True,
    ),
    "versions": _Kind(
        "a temporal join takes the last one of several versions {}", "give versions distinct times", on_executors=True
    ),
}
_ONE_PROCESS = "; or run the job in one process, where rows have one order"


def unsteady(spark: SparkSession, frame: DataFrame, output_mode: str, *, on_executors: bool) -> tuple[Unsteady, ...]:
    """Return the parts of a chain's query that may give other rows when a batch runs again; nothing is started.

    Args:
        spark: the session.
        frame: the query's result.
        output_mode: the query's output mode.
        on_executors: whether its tasks run on executors, so that a shuffle has no order.

    Raises:
        PySparkException, Py4JJavaError: Spark cannot plan it.
    """
    conf = {"spark.sql.shuffle.partitions": str(spark.conf.get("spark.sql.shuffle.partitions"))}
    batch = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf}
    # Nothing is read or written there: only the plan is made.
    planned = execution_of_batch(spark, frame, output_mode, Path("/nowhere"), 0, batch)
    found = our_java(spark).Dependence.of(analyzed_plan(frame), planned.optimizedPlan())
    return described(found.splitlines(), on_executors=on_executors)


def described(found: Iterable[str], *, on_executors: bool) -> tuple[Unsteady, ...]:
    """Return what `Dependence.java` has found, in words.

    Args:
        found: a kind and a name each.
        on_executors: whether tasks run on executors.
    """
    result = []
    for kind, _, name in (each.partition(" ") for each in found):
        of = _KINDS[kind]
        if on_executors or not of.on_executors:
            result.append(Unsteady(of.what.format(name), of.fix + _ONE_PROCESS * of.on_executors))
    return tuple(result)
