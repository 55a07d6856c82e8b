"""Asks Spark whether a query parses, if the parser without Java cannot read it."""

from __future__ import annotations

import tempfile
from pathlib import Path


def parse_with_spark(sql: str) -> str | None:
    """Return why Spark cannot parse a query, or None; starts and stops a separate Spark."""
    from pyspark.errors import ParseException

    from streamjob_runtime.spark.gateway import parse
    from streamjob_runtime.spark.holder import SparkHolder
    from streamjob_runtime.spark.session import SessionSettings

    with tempfile.TemporaryDirectory() as scratch:
        holder = SparkHolder(SessionSettings("parse", 1, 1, Path(scratch)))
        try:
            parse(holder.session(1), sql)
        except ParseException as error:
            return str(error).split("\n== SQL", 1)[0].strip()
        finally:
            holder.stop()
    return None
