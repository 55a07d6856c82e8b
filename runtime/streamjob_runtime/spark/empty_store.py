"""Makes the files of a state store without rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from streamjob_runtime.spark.gateway import java_session, our_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_empty_store(spark: SparkSession, directory: Path) -> Path:
    """Write a state store without rows, with the session's settings; return the directory of its one snapshot.

    Args:
        directory: an empty directory for the store and for Spark's scratch files.
    """
    store, scratch = directory / "store", directory / "scratch"
    scratch.mkdir()
    our_java(spark).EmptyStore.write(java_session(spark), str(store), str(scratch))
    return store
