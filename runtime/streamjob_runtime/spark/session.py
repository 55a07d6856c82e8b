"""Starts the embedded Spark with the settings for exact and cheap checkpoints.

The effect of each setting was measured on Spark 4.3; see `docs/decisions/` for the numbers.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.errors import InvalidInput, refuse
from streamjob.job.model.spark_settings import Owner, overridden, values_of
from streamjob_runtime.spark import class_data
from streamjob_runtime.spark.connectors.buckets import S3A, s3a_settings
from streamjob_runtime.spark.connectors.finding import jars as find_jars
from streamjob_runtime.spark.gateway import authenticate_callbacks, launch_java, our_java
from streamjob_runtime.spark.job_files import JobFiles, copying_hint
from streamjob_runtime.spark.jvm import (
    EXECUTORS_MASTER,
    JAR,
    JOB_FILES,
    PLAN_RULES,
)
from streamjob_runtime.spark.page import VARIABLE as PAGE_SECRET
from streamjob_runtime.spark.page import new_secret, settings_of_page
from streamjob_runtime.spark.process.descriptors import ensure_descriptors
from streamjob_runtime.spark.process.java import find_java, quoted_option
from streamjob_runtime.spark.process.java_failure import why_not_started
from streamjob_runtime.spark.process.java_logging import logging_options, logging_variables
from streamjob_runtime.spark.process.sockets import socket_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "_SPARK_AUTH_SECRET"
"""The environment variable in which Spark looks for the secret of its connections."""
_STREAMING = "spark.sql.streaming."
_EXTENSIONS = "spark.sql.extensions"
_STATE = _STREAMING + "stateStore."

DEFAULTS: Mapping[str, str] = {
    # Opening state reads all changes since the last snapshot, so a snapshot is used within a second of its creation.
    _STATE + "maintenanceInterval": "1s",
    _STATE + "rocksdb.trackTotalNumberOfRows": "false",
    # The default of 10 ms costs an idle job a tenth of a core.
    _STREAMING + "pollingDelay": "50ms",
    "spark.sql.session.timeZone": "UTC",
    # Spark's default, INT96, is what pyarrow and pandas misread before 1678 and after 2261.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.python.daemon.module": "streamjob_runtime.spark.python_workers",
    # Our extension loads them itself, and MLlib's, which takes a second, only when a job uses it.
    "spark.sql.extensions.test.loadFromCp": "false",
}
"""Settings that a job may change in its `sparkConf`."""

EXIT_WHEN_FULL = "-XX:+ExitOnOutOfMemoryError"
"""Spark ends Java only if a task runs out of memory; where another thread does, a job may seem to run for ever."""

COMPILER = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""How often code runs before Java optimises it: ten times the defaults, at which it optimises all of Spark's planning.

Loops over rows reach these numbers in milliseconds.
"""

RPC_PORT = 7078
BLOCK_MANAGER_PORT = 7079
"""The ports of a driver and its executors, unless all are on one machine."""


@dataclass(frozen=True, slots=True)
class SparkExecutors:
    """Executors in other processes, which register by themselves.

    Args:
        cores: of each.
        secret: authenticates their connections.
        address: the address by which they reach the driver; None if all are processes of this machine.
    """

    cores: int
    secret: str = field(repr=False)
    address: str | None = None

    def defaults(self) -> dict[str, str]:
        """Return the settings that a job may change."""
        java_options = {"spark.executor.extraJavaOptions": DEFAULTS["spark.driver.extraJavaOptions"]}
        if self.address is None:
            return java_options
        return {
            **java_options,
            "spark.driver.host": self.address,
            "spark.driver.bindAddress": "0.0.0.0",
            "spark.driver.port": str(RPC_PORT),
            "spark.blockManager.port": str(BLOCK_MANAGER_PORT),
        }

    def fixed(self) -> dict[str, str]:
        """Return the settings that a job cannot change."""
        return {**values_of(Owner.EXECUTORS), "spark.executor.cores": str(self.cores)}


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """A job's settings for its Spark.

    Args:
        parallelism: task slots, which are local cores.
        max_parallelism: state partitions.
        workdir: directory for Spark's scratch files.
        conf: the job's `sparkConf`.
        python_path: directories in which the Python workers find the job's modules.
        connectors: the formats of the connectors whose jars Spark needs.
        root: the directory in which the process keeps the files of `job:/…` paths; None for `workdir`.
        executors: the executors in other processes; None if this process computes.
        page_secret: opens Spark's page, if the job has it.
    """

    name: str
    parallelism: int
    max_parallelism: int
    workdir: Path
    conf: Mapping[str, str] = field(default_factory=dict)
    python_path: tuple[Path, ...] = ()
    connectors: tuple[str, ...] = ()
    root: Path | None = None
    executors: SparkExecutors | None = None
    page_secret: str = field(default_factory=new_secret, repr=False)

    @property
    def master(self) -> str:
        """Spark's name for where a job is computed."""
        return f"local[{self.parallelism}]" if self.executors is None else EXECUTORS_MASTER

    def spark_conf(self) -> dict[str, str]:
        """Return Spark's configuration: defaults, then the job's settings, then fixed ones."""
        java_options = "spark.driver.extraJavaOptions"
        return {
            **DEFAULTS,
            "spark.local.dir": str(self.workdir / "spark"),
            "spark.sql.warehouse.dir": str(self.workdir / "warehouse"),
            **(self.executors.defaults() if self.executors else {}),
            **(s3a_settings(os.environ) if S3A in self.connectors else {}),
            **self.conf,
            **values_of(Owner.RUNTIME),
            **settings_of_page(self.conf),
            **(self.executors.fixed() if self.executors else {}),
            # The job's own options follow, and win over those before them.
            java_options: " ".join(
                [
                    self._leaving_nothing(),
                    *COMPILER,
                    EXIT_WHEN_FULL,
                    self.conf.get(java_options, DEFAULTS[java_options]),
                    quoted_option(f"-D{JOB_FILES}={self.files.root.absolute()}"),
                    *logging_options(os.environ),
                ]
            ),
            "spark.sql.shuffle.partitions": str(self.max_parallelism),
            "spark.jars": ",".join(filter(None, [str(JAR), self.conf.get("spark.jars", "")])),
            _EXTENSIONS: ",".join(filter(None, [PLAN_RULES, self.conf.get(_EXTENSIONS, "")])),
        }

    @property
    def temporary(self) -> Path:
        """Java's directory for temporary files, including unpacked libraries; removed together with `workdir`."""
        return self.workdir / "tmp"

    @property
    def files(self) -> JobFiles:
        """Where the process keeps a job's files."""
        return JobFiles(self.root or self.workdir)

    def _leaving_nothing(self) -> str:
        # Java keeps its performance data in the system's directory for temporary files, regardless of this option.
        return f"-XX:-UsePerfData {quoted_option(f'-Djava.io.tmpdir={self.temporary}')}"


class SettingOverridden(InvalidInput):
    """A setting in the job's `sparkConf` would be overridden."""


def refuse_overridden(settings: SessionSettings) -> None:
    """Check that the job's `sparkConf` gives no other value to a setting that it cannot change.

    Raises:
        SettingOverridden: it does.
    """
    of_executors = None if settings.executors is None else settings.executors.fixed()
    refuse(SettingOverridden, "sparkConf:", overridden(settings.conf, of_executors))


def connector_jars(settings: SessionSettings) -> list[Path]:
    """Return the jars of a job's connectors, downloaded if necessary.

    Raises:
        CannotFetch: they are missing and cannot be downloaded.
        NoJava: there is no Java to run Ivy.
    """
    return [jar for each in settings.connectors for jar in find_jars(each, os.environ, settings.conf)]


def start_session(settings: SessionSettings, on_hint: Callable[[str], None] = lambda hint: None) -> SparkSession:
    """Start Spark inside this process and return its session.

    Args:
        settings: the job's Spark settings.
        on_hint: receives hints how Spark could start or run faster.

    Raises:
        NoJava: no suitable Java was found.
        CannotFetch: a connector's jars are missing and cannot be downloaded.
        SettingOverridden: the job's `sparkConf` has a setting that it cannot change.
        TooFewDescriptors: the process may not open enough files.
        SparkDoesNotStart: Java does not start, or Spark refuses its settings.
    """
    keep_utc()
    refuse_overridden(settings)
    ensure_descriptors()
    java = find_java(os.environ, settings.workdir / "java")
    if hint := class_data.hint(java, os.environ):
        on_hint(hint)
    settings.temporary.mkdir(mode=0o700, parents=True, exist_ok=True)
    java_options = "spark.driver.extraJavaOptions"
    conf = settings.spark_conf()
    if hint := copying_hint(settings.files, conf, os.environ):
        on_hint(hint)
    sockets = socket_directory(settings.workdir)
    if settings.executors is None:
        conf["spark.python.unix.domain.socket.dir"] = str(sockets)
    else:
        # Executors would take that setting for their own. Without it, sockets are among the temporary files.
        conf[java_options] += " " + quoted_option(f"-Djava.io.tmpdir={sockets}")
        conf["spark.executorEnv.PYTHONPATH"] = os.pathsep.join(str(each.absolute()) for each in settings.python_path)
    # Otherwise Spark's own page, if a job enables it, would listen on all addresses.
    os.environ.setdefault("SPARK_LOCAL_IP", conf["spark.driver.bindAddress"])
    conf["spark.jars"] = ",".join([conf["spark.jars"], *map(str, connector_jars(settings))])
    archived = map(quoted_option, class_data.java_options(java, os.environ))
    conf[java_options] = " ".join([conf[java_options], *archived]).strip()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [*map(str, settings.python_path), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))

    from pyspark.sql import SparkSession

    spare_pandas()
    leave_errors_unlogged()
    conf = {"spark.master": settings.master, "spark.app.name": settings.name, **conf}
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    # Java inherits them.
    os.environ.update(logging_variables())
    secret = nullcontext() if settings.executors is None else _variable(SECRET, settings.executors.secret)
    with _variable("JAVA_HOME", str(java.home)), _variable(PAGE_SECRET, settings.page_secret), secret:
        try:
            launch_java(conf)
            session = builder.getOrCreate()
        except Exception as error:
            raise why_not_started(error, java, conf) or error from error
    authenticate_callbacks(session)
    our_java(session).StreamThreadDeaths.install()
    return session


def keep_utc() -> None:
    """Make UTC the local time of this process and of those that it starts, whatever `TZ` says.

    PySpark hands timestamps to functions as local times without a zone. In a zone with daylight saving time, two
    moments have the same local time, so a function that returns its argument would change it.
    """
    os.environ["TZ"] = "UTC"
    time.tzset()


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable temporarily: a second start must not find the first one's Java wrapper."""
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
    """Make PySpark recognise NumPy values by their type.

    PySpark checks every argument of every call into Java for this, and imports its testing tools for the check, which
    import pandas: more than a second of CPU in each start.
    """
    from pyspark.sql import types

    def numpys(obj: Any, name: str) -> bool:
        # Another chain's thread may be importing it; then no value of it exists yet.
        kind = getattr(sys.modules.get("numpy"), name, None)
        return kind is not None and isinstance(obj, kind)

    def is_scalar(self: types.NumpyScalarConverter, obj: Any) -> bool:
        return numpys(obj, "generic")

    def is_array(self: types.NumpyArrayConverter, obj: Any) -> bool:
        return numpys(obj, "ndarray") and obj.ndim == 1

    types.NumpyScalarConverter.can_convert = is_scalar  # type: ignore[method-assign]
    types.NumpyArrayConverter.can_convert = is_array  # type: ignore[method-assign]


def leave_errors_unlogged() -> None:
    """Make PySpark and py4j raise errors of queries without logging them.

    PySpark logs each such error as pages of JSON while it creates the error, which itself names the problem. Its way to
    get a logger is not safe for threads. A logger of the wrong class raises a `TypeError` in place of Spark's error.
    """
    # Otherwise it logs the error of a batch once more, where the root logger has a handler.
    logging.getLogger("py4j").propagate = False
    # It tells of a broken connection through the root logger itself; who called into Java handles the error.
    logging.getLogger().addFilter(lambda record: "py4j" not in Path(record.pathname).parts)
    from pyspark.errors import PySparkException

    def raised_only(self: PySparkException) -> None:
        """Log nothing."""

    PySparkException._log_exception = raised_only  # type: ignore[method-assign]
