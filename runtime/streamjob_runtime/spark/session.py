"""Starts the embedded Spark with the settings that exact and cheap checkpoints need.

What each setting buys was measured on Spark 4.3; `docs/decisions/` has the numbers.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob_runtime.spark import class_data
from streamjob_runtime.spark.callback_server import authenticate_callbacks
from streamjob_runtime.spark.connectors.finding import jars as find_jars
from streamjob_runtime.spark.java import find_java, quoted_option
from streamjob_runtime.spark.java_failure import why_not_started
from streamjob_runtime.spark.jvm import CHECKPOINT_FILE_MANAGER, JAR
from streamjob_runtime.spark.sockets import socket_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGING = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
_STREAMING = "spark.sql.streaming."
_STATE = _STREAMING + "stateStore."

FIXED: Mapping[str, str] = {
    _STATE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # Names of state files carry a unique id: a batch that is run again never reuses one.
    _STATE + "checkpointFormatVersion": "2",
    _STATE + "rocksdb.changelogCheckpointing.enabled": "true",
    # Format 4 is corrupted silently when its state is rewritten for another number of partitions.
    _STREAMING + "join.stateFormatVersion": "2",
    _STREAMING + "checkpointFileManagerClass": CHECKPOINT_FILE_MANAGER,
    _STREAMING + "checkpoint.fileChecksum.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    # Other users of the machine reach what listens on loopback. In local mode Spark makes the secret itself.
    "spark.authenticate": "true",
    # For the same reason: on loopback the state of `transformWithState` would be open to anybody.
    "spark.python.unix.domain.socket.enabled": "true",
}
"""What the snapshot protocol relies on; a job cannot change it."""

DEFAULTS: Mapping[str, str] = {
    # Whoever opens state reads all changes since the last snapshot: within a second of a snapshot's making it is used.
    _STATE + "maintenanceInterval": "1s",
    _STATE + "rocksdb.trackTotalNumberOfRows": "false",
    # The default of 10 ms costs an idle job a tenth of a core.
    _STREAMING + "pollingDelay": "50ms",
    "spark.sql.session.timeZone": "UTC",
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    # It has no login: everybody who reaches it can read it, and must not end a job's queries.
    "spark.ui.killEnabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}
"""What a job may change in its `sparkConf`."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a job asks of its Spark.

    Args:
        name: the job's name.
        parallelism: task slots, that is local cores.
        max_parallelism: state partitions.
        workdir: directory for Spark's scratch files.
        conf: the job's `sparkConf`.
        python_path: directories in which the Python workers find the job's modules.
        connectors: those whose jars Spark is given, by format.
    """

    name: str
    parallelism: int
    max_parallelism: int
    workdir: Path
    conf: Mapping[str, str] = field(default_factory=dict)
    python_path: tuple[Path, ...] = ()
    connectors: tuple[str, ...] = ()

    def spark_conf(self) -> dict[str, str]:
        """Return Spark's configuration: defaults, then the job's, then what is fixed."""
        java_options = "spark.driver.extraJavaOptions"
        return {
            **DEFAULTS,
            "spark.local.dir": str(self.workdir / "spark"),
            "spark.sql.warehouse.dir": str(self.workdir / "warehouse"),
            **self.conf,
            **FIXED,
            # The job's own options come later, and hold.
            java_options: f"{self._leaving_nothing()} {self.conf.get(java_options, DEFAULTS[java_options])} {_LOGGING}",
            "spark.sql.shuffle.partitions": str(self.max_parallelism),
            "spark.jars": ",".join(filter(None, [str(JAR), self.conf.get("spark.jars", "")])),
        }

    @property
    def temporary(self) -> Path:
        """The directory of Java's temporary files, libraries that it unpacks among them. It goes with `workdir`."""
        return self.workdir / "tmp"

    def _leaving_nothing(self) -> str:
        # Java keeps its performance data in the machine's own directory of temporary files, whatever the option says.
        return f"-XX:-UsePerfData {quoted_option(f'-Djava.io.tmpdir={self.temporary}')}"


def connector_jars(settings: SessionSettings) -> list[Path]:
    """Return the jars of a job's connectors, fetched if need be.

    Raises:
        CannotFetch: they are not here and cannot be had.
        NoJava: there is no Java to fetch them with.
    """
    return [jar for each in settings.connectors for jar in find_jars(each, os.environ, settings.conf)]


def start_session(settings: SessionSettings, on_hint: Callable[[str], None] = lambda hint: None) -> SparkSession:
    """Start Spark inside this process and return its session.

    Args:
        settings: what the job asks of its Spark.
        on_hint: is told what would let Spark start faster.

    Raises:
        NoJava: no Java that Spark can run on was found.
        CannotFetch: a connector's jars are not here and cannot be had.
        SparkDoesNotStart: Java does not start, or Spark refuses its settings.
    """
    java = find_java(os.environ, settings.workdir / "java")
    if hint := class_data.hint(java, os.environ):
        on_hint(hint)
    settings.temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
    java_options = "spark.driver.extraJavaOptions"
    conf = settings.spark_conf()
    conf["spark.python.unix.domain.socket.dir"] = str(socket_directory(settings.workdir))
    # Without this, Spark's own page, if a job enables it, listens on all addresses.
    os.environ.setdefault("SPARK_LOCAL_IP", conf["spark.driver.bindAddress"])
    conf["spark.jars"] = ",".join([conf["spark.jars"], *map(str, connector_jars(settings))])
    conf[java_options] = f"{conf[java_options]} {class_data.java_options(java, os.environ)}".strip()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [*map(str, settings.python_path), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))

    from pyspark.sql import SparkSession

    spare_pandas()
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # They print pages of JSON for each query that Spark refuses. What is wrong is in the error, which names it.
        logging.getLogger(name).disabled = True
    builder = SparkSession.builder.master(f"local[{settings.parallelism}]").appName(settings.name)
    for key, value in conf.items():
        builder = builder.config(key, value)
    with _variable("JAVA_HOME", str(java.home)):
        try:
            session = builder.getOrCreate()
        except Exception as error:
            raise why_not_started(error, java, conf) or error from error
    authenticate_callbacks(session)
    assert session._jvm is not None
    session._jvm.io.streamjob.StreamThreadDeaths.install()
    return session


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for a while: a second start must not take the first one's wrapper for Java."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def spare_pandas() -> None:
    """Let PySpark tell NumPy's values by their type.

    It asks of every argument of every call into Java whether it is one, and imports its testing tools for that, which
    import pandas: more than a second of CPU in each start.
    """
    from pyspark.sql import types

    def numpys(obj: Any, name: str) -> bool:
        # Another chain's thread may be in the middle of importing it: then there is no value of it yet.
        kind = getattr(sys.modules.get("numpy"), name, None)
        return kind is not None and isinstance(obj, kind)

    def is_scalar(self: types.NumpyScalarConverter, obj: Any) -> bool:
        return numpys(obj, "generic")

    def is_array(self: types.NumpyArrayConverter, obj: Any) -> bool:
        return numpys(obj, "ndarray") and obj.ndim == 1

    types.NumpyScalarConverter.can_convert = is_scalar  # type: ignore[method-assign]
    types.NumpyArrayConverter.can_convert = is_array  # type: ignore[method-assign]
