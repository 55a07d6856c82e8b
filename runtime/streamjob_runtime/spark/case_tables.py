"""Loads the tables of upper and lower case before a row needs them, which takes Java up to a second.

Spark keeps them in static fields of a class, for functions such as `upper`.
"""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from streamjob.job.model.spec import JobSpec
from streamjob_runtime.spark.gateway import call_errors, load_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLES = "org.apache.spark.sql.catalyst.util.CollationAwareUTF8String"
_FUNCTIONS = re.compile(r"\b(upper|lower|ucase|lcase|initcap)\s*\(", re.IGNORECASE)


def needs_tables(spec: JobSpec) -> bool:
    """Return whether a query of the job has a function that uses the tables; one in Python may use them, too."""
    return any(operator.sql and _FUNCTIONS.search(operator.sql) for operator in spec.operators)


def load_early(spec: JobSpec, spark: SparkSession) -> None:
    """Load the tables in the background if the job needs them; if this fails, the first batch loads them."""
    if needs_tables(spec):
        threading.Thread(target=_load, args=(spark,), name="case-tables", daemon=True).start()


def load_tables(spark: SparkSession) -> None:
    """Load the tables."""
    load_class(spark, _TABLES)


def _load(spark: SparkSession) -> None:
    with suppress(*call_errors()):
        load_tables(spark)
