"""The settings that a StreamJob's spec gives to Spark: memory of the driver, dependencies, `hadoopConf`, `sparkConf`.

They become the `sparkConf` of the job file (`job_file.py`), or `--set` arguments for an application. In the pod,
`streamjob_runtime/spark/session.py` adds those that the runtime needs, and starts Spark with them. The number of cores
is no such setting: it is the job's `parallelism`. Executors get their memory and cores as arguments of their process.
"""

from __future__ import annotations

from streamjob_operator.resources.parts import Dependencies
from streamjob_operator.resources.pods import HEAP_SHARE, PodSettings
from streamjob_operator.resources.streamjob import StreamJobSpec

HEAP = "spark.driver.memory"
_MIB = 1024**2


def spark_settings(spec: StreamJobSpec) -> dict[str, str]:
    """Return Spark's settings by the spec. The heap follows from the container's size, so nothing overrides it."""
    hadoop = {f"spark.hadoop.{key}": value for key, value in spec.hadoop_conf.items()}
    return {**hadoop, **of_dependencies(spec.deps), **spec.spark_conf, HEAP: heap(spec.driver)}


def of_dependencies(dependencies: Dependencies) -> dict[str, str]:
    """Return the dependencies of a job's code as Spark's settings."""
    lists = {
        "spark.jars": dependencies.jars,
        "spark.files": dependencies.files,
        "spark.submit.pyFiles": dependencies.py_files,
        "spark.archives": dependencies.archives,
        "spark.jars.packages": dependencies.packages,
        "spark.jars.excludes": dependencies.exclude_packages,
        "spark.jars.repositories": dependencies.repositories,
    }
    return {key: ",".join(values) for key, values in lists.items() if values}


def heap(settings: PodSettings) -> str:
    """Return Java's heap, as Spark writes it."""
    return f"{max(1, int(settings.memory * HEAP_SHARE) // _MIB)}m"
