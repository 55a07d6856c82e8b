"""Finds out why Spark's Java did not start, by starting it again and reading what it says."""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from streamjob.errors import InvalidInput
from streamjob_runtime.spark.process.descriptors import too_few
from streamjob_runtime.spark.process.java import Java

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_MEMORY = "spark.driver.memory"
_PACKAGES = "spark.jars.packages"
_SECONDS = 120
_KILLED = (-9, 128 + 9)

_UNRESOLVED = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:,\]\s]+): not found")
_THROWN = re.compile(r'^Exception in thread "main" (?:[\w$]+\.)*(.+)', re.MULTILINE)
_NOT_REACHED = re.compile(
    r".*(?:Server access error|UnknownHostException|ConnectException|NoRouteToHost|SocketTimeout|Connection refused"
    r"|Host \S+ not found|SSLHandshakeException|HTTP response code: (?:401|403|407|5\d\d)).*"
)
_THREADS = re.compile(r".*(?:unable to create (?:new )?native thread|pthread_create failed).*")
_NO_MEMORY = re.compile(
    r".*(?:insufficient memory|OutOfMemoryError|Could not reserve enough space|Cannot allocate memory).*"
)
_REFUSED_OPTION = re.compile(
    r".*(?:Unrecognized|Invalid |Could not find agent library|Could not find or load|Error opening|Unable to open"
    r"|Too small |larger (?:value )?than|Conflicting|Missing|Improperly specified|Error: ).*"
)
_OF_NO_USE = re.compile(
    r"Error: (?:Could not create the Java Virtual Machine|A fatal exception has occurred).*"
    r"|Error occurred during initialization of.*|OpenJDK .*warning.*|WARNING: .*|Picked up .*"
)


class SparkDoesNotStart(InvalidInput):
    """Java ended before Spark ran, or Spark refuses its settings; the same settings will fail again."""


class JavaRefusesOptions(SparkDoesNotStart):
    """Java does not know one of its options, or cannot use its value."""


class TooLittleMemory(SparkDoesNotStart):
    """The process, or the machine, has less memory than Java asks for."""


class TooFewThreads(SparkDoesNotStart):
    """The process may not make as many threads as Java needs."""


class NoSpace(SparkDoesNotStart):
    """A disk is full that Java or Spark writes to at its start."""


class PackagesMissing(SparkDoesNotStart):
    """No repository has a package that the job's `sparkConf` names."""


class RepositoryOutOfReach(SparkDoesNotStart):
    """A repository of the packages in the job's `sparkConf` does not answer."""


def why_not_started(error: Exception, java: Java, conf: Mapping[str, str]) -> InvalidInput | None:
    """Return the error of a failed start; None if another start may succeed.

    Args:
        error: PySpark's error.
        java: the Java for Spark.
        conf: Spark's configuration.
    """
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return too_few(str(error))
    if "JAVA_GATEWAY_EXITED" in str(error):
        for command in (_java_alone(java, conf), _spark(conf)):
            code, said = _run(command, java)
            if code != 0:
                return cause(said, code, conf)
        return None
    thrown = getattr(error, "java_exception", None)
    names = (type(error).__name__, "" if thrown is None else str(thrown.getClass().getName()))
    if any(name.endswith(("IllegalArgumentException", "NumberFormatException")) for name in names):
        text = str(error) if thrown is None else str(thrown.getMessage())
        return SparkDoesNotStart(f"Spark refuses its settings: {text.splitlines()[0]}", "correct sparkConf")
    return None


def cause(said: str, code: int, conf: Mapping[str, str]) -> InvalidInput:
    """Return the error that a failed start of Java or Spark amounts to.

    Args:
        said: its output, Ivy's included.
        code: its exit code, negative for a signal.
        conf: Spark's configuration.
    """
    if descriptors := _line_with(re.compile(".*(?:Too many open files|error=24).*"), said):
        return too_few(descriptors)
    missing = list(dict.fromkeys(":".join(found) for found in _UNRESOLVED.findall(said)))
    unreached = _line_with(_NOT_REACHED, said)
    if unreached and _PACKAGES in conf and (missing or "download failed" in said):
        return RepositoryOutOfReach(
            f"A repository for {conf[_PACKAGES]}, which {_PACKAGES} names, does not answer: {unreached}",
            "make it reachable from here, name another one in spark.jars.repositories or spark.jars.ivySettings, or"
            " name the packages' jars in spark.jars instead",
        )
    if missing:
        return PackagesMissing(
            f"No repository has {', '.join(missing)}, which {_PACKAGES} in sparkConf names or needs",
            "correct group, name (it often ends with the version of Scala: _2.13) and version, or name the repository"
            " that has it in spark.jars.repositories",
        )
    if space := _line_with(re.compile(".*No space left on device.*"), said):
        return NoSpace(f"Spark does not start, because a disk is full: {space}", "free space, or choose --workdir")
    if threads := _line_with(_THREADS, said):
        return TooFewThreads(
            f"Java may not make enough threads: {threads}",
            "raise `ulimit -u`, or the limit of processes (pids) of the container",
        )
    memory = _line_with(_NO_MEMORY, said)
    if memory or code in _KILLED:
        wanted = f" with {_MEMORY}={conf[_MEMORY]}" if _MEMORY in conf else ""
        return TooLittleMemory(
            f"Java does not start{wanted}: {memory or 'it was killed, usually because memory is short'}",
            f"lower {_MEMORY} in sparkConf, or give the process more memory",
        )
    if thrown := _THROWN.search(said):
        return SparkDoesNotStart(f"Spark does not start: {thrown[1].strip()}", "correct sparkConf")
    if refused := _line_with(_REFUSED_OPTION, said):
        return JavaRefusesOptions(
            f"Java refuses its options: {refused}", f"correct {_JAVA_OPTIONS} and {_MEMORY} in sparkConf"
        )
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    return SparkDoesNotStart(
        f"Java ended with code {code} before Spark ran: {last or 'it said nothing'}",
        f"correct {_JAVA_OPTIONS} and sparkConf; Java's output is in the log",
    )


def _line_with(pattern: re.Pattern[str], said: str) -> str:
    """Return the first line of some output that matches, without decoration; empty if there is none."""
    for line in said.splitlines():
        found = line.strip(" \t:#")
        if pattern.fullmatch(found) and not _OF_NO_USE.fullmatch(found):
            return found
    return ""


def _java_alone(java: Java, conf: Mapping[str, str]) -> list[str]:
    memory = [f"-Xmx{conf[_MEMORY]}"] if _MEMORY in conf else []
    return [str(java.executable), *memory, *shlex.split(conf.get(_JAVA_OPTIONS, "")), "-version"]


def _spark(conf: Mapping[str, str]) -> list[str]:
    """Return the command by which PySpark starts Java; it ends by itself when its standard input is at its end."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    home = Path(os.environ.get("SPARK_HOME") or Path(found.origin).parent)
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    return [str(home / "bin" / "spark-submit"), *settings, "pyspark-shell"]


def _run(command: list[str], java: Java) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as directory:
        environment = {
            **os.environ,
            "JAVA_HOME": str(java.home),
            "SPARK_CONNECT_MODE": "0",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(Path(directory) / "connection"),
        }
        try:
            asked = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return 1, str(error)
    return asked.returncode, asked.stdout
