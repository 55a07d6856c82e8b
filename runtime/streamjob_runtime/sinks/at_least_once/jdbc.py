"""The JDBC sink: Spark writes to any database with a driver, at least once. Problems are found at the start.

Spark looks for drivers among its own classes only. So the sink finds a driver that a job brings along, and names it to
Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

from streamjob.errors import refuse
from streamjob.job.connectors.options import option, redacted, secrets_in
from streamjob_runtime.sinks.at_least_once.batch import BatchSink
from streamjob_runtime.sinks.errors import DatabaseRefuses, DatabaseUnreachable, RowsRefused, UnusableTable
from streamjob_runtime.sinks.rows.column_mismatches import CAST, Mismatch, given_twice, no_column
from streamjob_runtime.spark.gateway import first_of_class, java_errors, java_of, thrown
from streamjob_runtime.spark.jdbc import find_driver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streamjob.ids import BatchId
    from streamjob.sink import Staged

_NOT_FOUND = ("42", "S0")
"""SQLSTATE classes of a table that does not exist, or that may be written but not read."""
_OF_ROWS = ("22", "23")
"""SQLSTATE classes of values that a column does not hold, and of violated constraints."""
_REFUSED = ("28", "3D")
"""SQLSTATE classes of a failed login and of a missing database."""

log = logging.getLogger("streamjob")


@dataclass(frozen=True, slots=True)
class DatabaseSaid:
    """The error of a JDBC driver.

    Args:
        state: the SQLSTATE; empty if the driver gives none.
        text: its message in one line, without values from the environment.
    """

    state: str
    text: str

    @property
    def no_table(self) -> bool:
        """Whether there is no such table, or it may not be read."""
        return self.state[:2] in _NOT_FOUND

    def error(self, label: str) -> DatabaseRefuses | DatabaseUnreachable:
        """Return the error to raise for a part of the job."""
        if self.state[:2] in _REFUSED:
            return DatabaseRefuses(f"{label}: {self.text}", "correct url, user and password, or the role's rights")
        return DatabaseUnreachable(
            f"{label}: {self.text}",
            "start the database, or correct the address; the job continues from its checkpoint",
        )


def database_said(error: Exception, options: Mapping[str, str]) -> DatabaseSaid | None:
    """Return the error of a JDBC driver behind an error of Spark; None if it is another one.

    Args:
        error: one of `java_errors`.
        options: those of the connection, whose secrets the message must not show.
    """
    cause = first_of_class(thrown(error), "java.sql.SQLException")
    if cause is None:
        return None
    text = " ".join(str(cause.getMessage()).split())
    secrets = secrets_in(options) | {option(options, "url") or ""}
    return DatabaseSaid(str(cause.getSQLState() or ""), redacted(text, secrets))


class JdbcSink(BatchSink):
    """Appends each batch to a table."""

    def __init__(self, name: str) -> None:
        super().__init__("jdbc")
        self._label = f"sink {name}"

    def check_schema(self, schema: StructType) -> None:
        """Find the driver, and check that the table has the rows' columns; Spark creates a missing table.

        Raises:
            NoDriver: no driver supports the URL.
            DatabaseUnreachable: the database does not answer.
            DatabaseRefuses: it refuses the role.
            UnusableTable: the table lacks columns, or the database has no type for one of the rows'.
        """
        from pyspark.sql import SparkSession

        spark = SparkSession.active()
        options = dict(self.context.options)
        if option(options, "driver") is None:
            options["driver"] = find_driver(spark, option(options, "url") or "", self._label)
        problems = chain(given_twice(schema.names), _not_held(spark, option(options, "url") or "", schema))
        refuse(UnusableTable, f"{self._label}: the table", problems)
        columns = self._columns(spark, options)
        if columns is not None:
            self._compare(schema.names, columns, exactly=spark.conf.get("spark.sql.caseSensitive") == "true")
        self.context = replace(self.context, options=options)

    def stage(self, batch: DataFrame, batch_id: BatchId) -> Staged:
        """Append the batch, in one Spark action. Raises RowsRefused for rows that the database does not take."""
        try:
            return super().stage(batch, batch_id)
        except java_errors() as error:
            said = database_said(error, self.context.options)
            if said is None or said.state[:2] not in _OF_ROWS:
                raise
            raise RowsRefused(f"{self._label}: {said.text}", "correct the job or the table") from error

    def _columns(self, spark: SparkSession, options: Mapping[str, str]) -> list[str] | None:
        """Return the table's columns; None if they cannot be read, although the table may be writable."""
        table = option(options, "dbtable")
        try:
            return spark.read.format("jdbc").options(**options).load().columns
        except java_errors() as error:
            said = database_said(error, options)
            if said is None:
                raise
        if said.no_table:
            log.warning("%s: table %s cannot be read, and is made if it is missing: %s", self._label, table, said.text)
            return None
        raise said.error(self._label)

    def _compare(self, rows: list[str], table: list[str], *, exactly: bool) -> None:
        known = set(table) if exactly else {name.lower() for name in table}
        missing = [name for name in rows if (name if exactly else name.lower()) not in known]
        where = f"{self._label}: table {option(self.context.options, 'dbtable')}"
        refuse(UnusableTable, where, (no_column(name, table, exactly=exactly) for name in missing))


def _not_held(spark: SparkSession, url: str, schema: StructType) -> Iterator[Mismatch]:
    """Yield the columns for which Spark knows no type of the database."""
    java = java_of(spark).org.apache.spark.sql
    dialect, common = java.jdbc.JdbcDialects.get(url), java.execution.datasources.jdbc.JdbcUtils
    for each in schema.fields:
        kind = java.types.DataType.fromJson(each.dataType.json())
        if dialect.getJDBCType(kind).isEmpty() and common.getCommonJDBCType(kind).isEmpty():
            name = each.dataType.simpleString()
            yield Mismatch(f"is given the column {each.name!r} of type {name}, which JDBC does not write here", CAST)
