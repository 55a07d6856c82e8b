"""Finds out why Spark's Java did not start, by running the same Java with the same options."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping

from streamjob.errors import InvalidInput
from streamjob_runtime.spark.java import Java

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MEMORY = "spark.driver.memory"
_LINES = 3
_SECONDS = 60


class SparkDoesNotStart(InvalidInput):
    """Java ended before Spark ran, or Spark refuses its settings; the same settings will fail again."""


def why_not_started(error: Exception, java: Java, conf: Mapping[str, str]) -> SparkDoesNotStart | None:
    """Return the error of a failed start; None if another start may succeed.

    Args:
        error: PySpark's error.
        java: the Java for Spark.
        conf: Spark's configuration.
    """
    if "JAVA_GATEWAY_EXITED" in str(error):
        return SparkDoesNotStart(
            f"Java does not start: {_said_by(java, conf) or str(error)}",
            f"correct {_JAVA_OPTIONS} and {_MEMORY} in sparkConf, or give the process more memory",
        )
    thrown = getattr(error, "java_exception", None)
    names = (type(error).__name__, "" if thrown is None else str(thrown.getClass().getName()))
    if any(name.endswith(("IllegalArgumentException", "NumberFormatException")) for name in names):
        text = str(error) if thrown is None else str(thrown.getMessage())
        return SparkDoesNotStart(f"Spark refuses its settings: {text.splitlines()[0]}", "correct sparkConf")
    return None


def _said_by(java: Java, conf: Mapping[str, str]) -> str:
    """Return Java's error message about these options; empty if it accepts them."""
    memory = [f"-Xmx{conf[_MEMORY]}"] if _MEMORY in conf else []
    command = [str(java.executable), *memory, *shlex.split(conf.get(_JAVA_OPTIONS, "")), "-version"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if asked.returncode == 0:
        return ""
    return "; ".join((asked.stderr or asked.stdout).strip().splitlines()[:_LINES])
