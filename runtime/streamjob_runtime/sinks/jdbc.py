"""The JDBC sink: Spark writes to any database with a driver, at least once. Problems are found at the start.

Spark looks for drivers among its own classes only. So the sink finds a driver that a job brings along, and names it to
Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from streamjob.errors import refuse
from streamjob.job.options import option, redacted, secrets_in
from streamjob_runtime.sinks.batch import BatchSink
from streamjob_runtime.sinks.column_mismatches import no_column
from streamjob_runtime.sinks.errors import DatabaseRefuses, DatabaseUnreachable, UnusableSink, UnusableTable
from streamjob_runtime.spark.gateway import first_of_class, java_errors, java_of, thrown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from streamjob.sink import SinkContext

_NOT_FOUND = ("42", "S0")
"""SQLSTATE classes of a table that does not exist, or that may be written but not read."""
_REFUSED = ("28", "3D")
"""SQLSTATE classes of a failed login and of a missing database."""

log = logging.getLogger("streamjob")


class JdbcSink(BatchSink):
    """Appends each batch to a table.

    Args:
        name: the sink's name, for messages.
    """

    def __init__(self, name: str) -> None:
        super().__init__("jdbc")
        self._label = f"sink {name}"

    def preview(self, context: SinkContext, schema: StructType | None) -> None:
        """Check the database and the rows with Spark. Raises the errors of `check_schema`."""
        self.open(context)
        if schema is not None:
            self.check_schema(schema)

    def check_schema(self, schema: StructType) -> None:
        """Find the driver, and check that the table has the rows' columns; Spark creates a missing table.

        Raises:
            UnusableSink: no driver supports the URL.
            DatabaseUnreachable: the database does not answer.
            DatabaseRefuses: it refuses the role.
            UnusableTable: the table lacks columns.
        """
        from pyspark.sql import SparkSession

        spark = SparkSession.active()
        options = dict(self.context.options)
        if option(options, "driver") is None:
            options["driver"] = self._find_driver(spark, option(options, "url") or "")
        columns = self._columns(spark, options)
        if columns is not None:
            self._compare(schema.names, columns, exactly=spark.conf.get("spark.sql.caseSensitive") == "true")
        self.context = replace(self.context, options=options)

    def _find_driver(self, spark: SparkSession, url: str) -> str:
        """Return the class of the driver for a URL, among Spark's and the job's drivers."""
        util, lang = java_of(spark).java.util, java_of(spark).java.lang
        loader = lang.Thread.currentThread().getContextClassLoader()
        drivers = util.ServiceLoader.load(lang.Class.forName("java.sql.Driver"), loader).iterator()
        while drivers.hasNext():
            driver = drivers.next()
            if driver.acceptsURL(url):
                return str(driver.getClass().getName())
        kind = ":".join(url.split(":")[:2])
        raise UnusableSink(
            f"{self._label}: there is no JDBC driver for {kind}:…",
            "bring it: sparkConf: {spark.jars.packages: group:name:version}, or spark.jars with its file; one that "
            "does not announce itself is named by the option 'driver'",
        )

    def _columns(self, spark: SparkSession, options: Mapping[str, str]) -> list[str] | None:
        """Return the table's columns; None if they cannot be read, although the table may be writable."""
        table = option(options, "dbtable")
        try:
            return spark.read.format("jdbc").options(**options).load().columns
        except java_errors() as error:
            cause = first_of_class(thrown(error), "java.sql.SQLException")
            if cause is None:
                raise
            state, said = str(cause.getSQLState() or ""), self._shown(str(cause.getMessage()), options)
        if state[:2] in _NOT_FOUND:
            log.warning("%s: table %s cannot be read, and is made if it is missing: %s", self._label, table, said)
            return None
        if state[:2] in _REFUSED:
            raise DatabaseRefuses(f"{self._label}: {said}", "correct url, user and password, or the role's rights")
        raise DatabaseUnreachable(
            f"{self._label}: {said}",
            "start the database, or correct the address; the job continues from its checkpoint",
        )

    def _compare(self, rows: list[str], table: list[str], *, exactly: bool) -> None:
        known = set(table) if exactly else {name.lower() for name in table}
        missing = [name for name in rows if (name if exactly else name.lower()) not in known]
        where = f"{self._label}: table {option(self.context.options, 'dbtable')}"
        refuse(UnusableTable, where, (no_column(name, table, exactly=exactly) for name in missing))

    def _shown(self, said: str, options: Mapping[str, str]) -> str:
        """Return the driver's message in one line, without values from the environment."""
        return redacted(" ".join(said.split()), secrets_in(options) | {option(options, "url") or ""})
