"""Loads the tables of upper and lower case before a row needs them, which takes Java up to a second.

Spark keeps them in static fields of a class, for functions such as `upper`.
"""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from streamjob.job.spec import JobSpec
from streamjob_runtime.spark.gateway import call_errors, load_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLES = "org.apache.spark.sql.catalyst.util.CollationAwareUTF8String"
_FUNCTIONS = re.compile(r"\b(upper|lower|ucase|lcase|initcap)\s*\(", re.IGNORECASE)


class CaseTables:
    """The tables that a job is known to need.

    Args:
        spec: the job.
    """

    def __init__(self, spec: JobSpec) -> None:
        self.needed = any(operator.sql and _FUNCTIONS.search(operator.sql) for operator in spec.operators)
        """Whether a query has a function that uses them. A function in Python may use them too."""

    def load(self, spark: SparkSession) -> None:
        """Load them in the background if they are needed; if this fails, the first batch loads them.

        Args:
            spark: the session.
        """
        if self.needed:
            threading.Thread(target=_load, args=(spark,), name="case-tables", daemon=True).start()


def load_tables(spark: SparkSession) -> None:
    """Load the tables."""
    load_class(spark, _TABLES)


def _load(spark: SparkSession) -> None:
    with suppress(*call_errors()):
        load_tables(spark)
