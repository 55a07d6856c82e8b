"""Forks Spark's Python workers from a process that has loaded their libraries: `spark.python.daemon.module`.

Spark's own daemon forks first, and each worker loads PySpark, pandas and PyArrow by itself: a second of CPU per worker.
Spark does so because libraries may start threads, and a process with threads cannot be forked safely. So this process
forks only if it has a single thread with all libraries loaded. Otherwise one that has not loaded them takes its place.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from pathlib import Path

from streamjob_runtime.spark.gateway import types_unparsed

DAEMON = "pyspark.daemon"
WORKER = "pyspark.worker"
_UNLOADED = "from streamjob_runtime.spark.python_workers import serve; serve()"
_THREADS = Path("/proc/self/task")
_LIBRARIES = (
    WORKER,
    "pandas",
    "pyarrow.compute",
    "pyarrow.pandas_compat",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
)


def load() -> bool:
    """Load the workers' libraries; return whether the process can be forked now."""
    # PyArrow's allocator would free memory in a thread of its own. So it does when memory is allocated.
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    for library in _LIBRARIES:
        importlib.import_module(library)
    # Objects that no collection touches stay shared between the processes.
    gc.freeze()
    return len(list(_THREADS.iterdir())) == 1


def main() -> None:
    """Do what `python -m pyspark.daemon` does with the same arguments."""
    environment = dict(os.environ)
    # Other programs than the workers of functions need little, and a system without /proc does not tell the threads.
    if sys.argv[1:] == [WORKER] and _THREADS.is_dir() and not load():
        os.execve(sys.executable, [sys.executable, "-c", _UNLOADED, *sys.argv[1:]], environment)
    serve()


def serve() -> None:
    """Run Spark's daemon. Its workers import modules of the job, whose functions may declare their types as text."""
    with types_unparsed():
        importlib.import_module(DAEMON).manager()


if __name__ == "__main__":
    main()
