"""Finds JDBC drivers: Spark looks for them among its own classes only, and a job may bring one along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamjob.errors import InvalidInput
from streamjob_runtime.spark.gateway import java_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NoDriver(InvalidInput):
    """No JDBC driver supports a URL."""


def find_driver(spark: SparkSession, url: str, label: str) -> str:
    """Return the class of the driver for a URL, among Spark's and the job's drivers.

    Args:
        url: the database's URL.
        label: the part that needs it, for messages.

    Raises:
        NoDriver: no driver supports the URL.
    """
    util, lang = java_of(spark).java.util, java_of(spark).java.lang
    loader = lang.Thread.currentThread().getContextClassLoader()
    drivers = util.ServiceLoader.load(lang.Class.forName("java.sql.Driver"), loader).iterator()
    while drivers.hasNext():
        driver = drivers.next()
        if driver.acceptsURL(url):
            return str(driver.getClass().getName())
    kind = ":".join(url.split(":")[:2])
    raise NoDriver(
        f"{label}: there is no JDBC driver for {kind}:…",
        "bring it: sparkConf: {spark.jars.packages: group:name:version}, or spark.jars with its file; one that "
        "does not announce itself is named by the option 'driver'",
    )
