"""The processes of a job that can be profiled: the driver's Python and Java, and the executors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from streamjob_runtime.control.profiles import Language, Recorder
from streamjob_runtime.executors.driver.driver_side import DriverSide
from streamjob_runtime.profiling.python import sample
from streamjob_runtime.profiling.stacks import Stacks, parse
from streamjob_runtime.spark.gateway import our_java
from streamjob_runtime.spark.holder import SparkHolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = "driver"


def recorders(spark: SparkHolder, executors: DriverSide | None) -> Sequence[Recorder]:
    """Return the processes that run now.

    Args:
        spark: the driver's Spark, which may not have started yet.
        executors: the job's executors; None if the driver computes.
    """
    found = [Recorder(DRIVER, ("python",), _own_python)]
    if spark.started is not None:
        found.insert(0, Recorder(DRIVER, ("java",), partial(_own_java, spark.started)))
    if executors is not None:
        found += [
            Recorder(each.name, ("java", "python"), partial(_executor, executors, each.id))
            for each in executors.fleet.live()
        ]
    return found


def _own_python(seconds: float) -> dict[Language, Stacks]:
    return {"python": sample(seconds, threading.Event())}


def _own_java(session: SparkSession, seconds: float) -> dict[Language, Stacks]:
    return {"java": parse(our_java(session).Profiler.record(round(seconds * 1000)))}


def _executor(executors: DriverSide, executor: str, seconds: float) -> dict[Language, Stacks]:
    found = executors.profile(executor, seconds)
    return {"java": parse(found.java), "python": parse(found.python)}
