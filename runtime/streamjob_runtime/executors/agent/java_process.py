"""Starts the Java of an executor, which connects to Spark's driver and to the agent that started it."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamjob_runtime.executors.messages import Welcome
from streamjob_runtime.spark import class_data
from streamjob_runtime.spark.jvm import CLASSES, JAR, JOB_FILES
from streamjob_runtime.spark.process.descriptors import ensure_descriptors
from streamjob_runtime.spark.process.java import Java, find_java
from streamjob_runtime.spark.process.java_logging import logging_options, logging_variables
from streamjob_runtime.spark.session import COMPILER, EXIT_WHEN_FULL, SECRET

log = logging.getLogger("streamjob")

_MAIN = CLASSES["ExecutorProcess"]


@dataclass(frozen=True, slots=True)
class JavaSettings:
    """The settings of an executor's Java.

    Args:
        root: the directory in which it keeps the files of `job:/…` paths.
        scratch: the directory for Spark's scratch files, on the same file system; its content is deleted.
        temporary: a private directory with a short path.
        memory: size of Java's heap, as Java takes it: `1g`.
        cores: number of tasks at a time.
        address: the address on which it listens, and by which other executors reach it.
    """

    root: Path
    scratch: Path
    temporary: Path
    memory: str
    cores: int
    address: str


def java_of_agent(root: Path, environment: Mapping[str, str]) -> Java:
    """Return the Java that an agent starts: finding it takes a start of Java.

    Args:
        root: the agent's work directory.

    Raises:
        NoJava: there is no suitable Java.
        TooFewDescriptors: the process may not open enough files.
    """
    ensure_descriptors()
    java = find_java(environment, root / "java")
    if hint := class_data.hint(java, environment):
        log.info("%s", hint)
    return java


def start_java(
    java: Java,
    settings: JavaSettings,
    welcome: Welcome,
    spark_secret: str,
    socket: Path,
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Start an executor's Java.

    Args:
        welcome: the driver's answer to the registration.
        spark_secret: authenticates it to Spark's driver.
        socket: the Unix socket on which the agent waits.
    """
    shutil.rmtree(settings.scratch, ignore_errors=True)
    settings.scratch.mkdir(mode=0o700, parents=True)
    archived = class_data.java_options(java, environment)
    return subprocess.Popen(
        [str(java.home / "bin" / "java"), *archived, *arguments(settings, welcome, socket, environment)],
        stdin=subprocess.DEVNULL,
        env={
            **environment,
            **logging_variables(),
            "PYTHONPATH": _absolute(environment.get("PYTHONPATH", "")),
            SECRET: spark_secret,
            # As in the driver; the Python workers inherit it.
            "TZ": "UTC",
            "SPARK_LOCAL_DIRS": str(settings.scratch),
            "SPARK_LOCAL_IP": settings.address,
        },
        # Spark keeps the driver's jars in the current directory, and ends if those of another release are there.
        cwd=settings.scratch,
        # A Ctrl-C in the terminal is for the agent, which ends its Java in order.
        start_new_session=True,
    )


def _absolute(python_path: str) -> str:
    """Return a path of Python modules that is the same in another working directory."""
    return os.pathsep.join(str(Path(each).absolute()) for each in python_path.split(os.pathsep) if each)


def arguments(settings: JavaSettings, welcome: Welcome, socket: Path, environment: Mapping[str, str]) -> Sequence[str]:
    """Return the arguments of Java; see `start_java`."""
    import pyspark

    jars = Path(environment.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    return [
        f"-Xmx{settings.memory}",
        "-XX:-UsePerfData",
        *COMPILER,
        EXIT_WHEN_FULL,
        # Java would take a thread for each core of the machine, which it shares with other executors.
        f"-XX:ParallelGCThreads={settings.cores}",
        f"-Djava.io.tmpdir={settings.temporary}",
        f"-D{JOB_FILES}={settings.root}",
        *logging_options(environment),
        # Spark reads these before it asks the driver for its settings.
        "-Dspark.authenticate=true",
        "-Dspark.network.crypto.enabled=true",
        *welcome.java_options,
        *shlex.split(environment.get("SPARK_SUBMIT_OPTS", "")),
        "-cp",
        os.pathsep.join([*class_data.class_path(jars), str(JAR)]),
        _MAIN,
        str(socket),
        "--driver-url",
        welcome.driver_url,
        "--executor-id",
        welcome.executor,
        "--bind-address",
        settings.address,
        "--hostname",
        settings.address,
        "--cores",
        str(settings.cores),
        "--app-id",
        welcome.application,
        "--resourceProfileId",
        "0",
    ]
