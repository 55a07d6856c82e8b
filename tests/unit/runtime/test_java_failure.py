"""What a start of Java that failed is called, and what it is told to do."""

from __future__ import annotations

import errno
import resource
from pathlib import Path

import pytest

from streamjob.errors import ExitCode, InvalidInput
from streamjob_runtime.spark.process.descriptors import MINIMUM, TooFewDescriptors, soft_limit
from streamjob_runtime.spark.process.java import Java
from streamjob_runtime.spark.process.java_failure import (
    JavaRefusesOptions,
    NoSpace,
    PackagesMissing,
    RepositoryOutOfReach,
    SparkDoesNotStart,
    TooFewThreads,
    TooLittleMemory,
    cause,
    why_not_started,
)

CONF = {"spark.jars.packages": "org.elasticsearch:elasticsearch-spark-30_2.13:8.17.0", "spark.driver.memory": "8g"}
NOT_CREATED = (
    "Error: Could not create the Java Virtual Machine.\nError: A fatal exception has occurred. Program will exit.\n"
)
NO_MEMORY = """OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x0, 2, 0) failed; error='Not enough space'
#
# There is insufficient memory for the Java Runtime Environment to continue.
"""
MAIN = 'Exception in thread "main" '
OF_THE_VM = "Error occurred during initialization of VM\n"
UNRESOLVED = """:: problems summary ::
:::: WARNINGS
\t\tmodule not found: org.elasticsearch#elasticsearch-spark-30_2.13;8.17.0
\t==== central: tried
\t  https://repo1.maven.org/maven2/org/elasticsearch/elasticsearch-spark-30_2.13/8.17.0/x.pom
\t\t::          UNRESOLVED DEPENDENCIES         ::
\t\t:: org.elasticsearch#elasticsearch-spark-30_2.13;8.17.0: not found
:: USE VERBOSE OR DEBUG MESSAGE LEVEL FOR MORE DETAILS
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: \
org.elasticsearch#elasticsearch-spark-30_2.13;8.17.0: not found, unresolved dependency: a.b#c;1.0: not found]
\tat org.apache.spark.util.MavenUtils$.resolveMavenCoordinates(MavenUtils.scala:492)
"""
OUT_OF_REACH = UNRESOLVED.replace(
    "\t\t::          UNRES",
    ":::: ERRORS\n\tServer access error at url https://repo1.maven.org/maven2/x.pom (java.net.UnknownHostException:"
    " repo1.maven.org)\n\t\t::          UNRES",
)

CAUSES: list[tuple[str, type[InvalidInput], str, str]] = [
    (UNRESOLVED, PackagesMissing, "elasticsearch-spark-30_2.13:8.17.0, a.b:c:1.0", "spark.jars.repositories"),
    (OUT_OF_REACH, RepositoryOutOfReach, "UnknownHostException: repo1.maven.org", "make it reachable from here"),
    (
        MAIN + "java.lang.IllegalArgumentException: requirement failed: The coordinate provided is: x\n\tat scala",
        SparkDoesNotStart,
        "The coordinate provided is: x",
        "correct sparkConf",
    ),
    (
        MAIN + "java.io.FileNotFoundException: /spark/jars/a.jar (Too many open files)\n\tat java.base/x",
        TooFewDescriptors,
        "/spark/jars/a.jar (Too many open files)",
        "`ulimit -n` in a shell",
    ),
    (
        "bin/spark-class: line 82: /dev/fd/63: Too many open files",
        TooFewDescriptors,
        "Too many open files",
        "LimitNOFILE",
    ),
    (OF_THE_VM + "java.lang.OutOfMemoryError: unable to create native thread", TooFewThreads, "native", "`ulimit -u`"),
    (
        "[0.1s][warning][os,thread] Failed to start thread: pthread_create failed (EAGAIN) for attributes: x",
        TooFewThreads,
        "pthread_create failed",
        "pids",
    ),
    (
        NO_MEMORY,
        TooLittleMemory,
        "spark.driver.memory=8g: There is insufficient memory",
        "more memory",
    ),
    (OF_THE_VM + "Could not reserve enough space for 8388608KB object heap", TooLittleMemory, "8388608KB", "lower"),
    ("java.io.IOException: No space left on device", NoSpace, "No space left", "--workdir"),
    ("Unrecognized VM option 'NoSuch'\n" + NOT_CREATED, JavaRefusesOptions, "'NoSuch'", "extraJavaOptions"),
    ("Invalid maximum heap size: -Xmxmuch\n" + NOT_CREATED, JavaRefusesOptions, "-Xmxmuch", "spark.driver.memory"),
    (OF_THE_VM + "Too small maximum heap", JavaRefusesOptions, "Too small maximum heap", "spark.driver.memory"),
    (
        OF_THE_VM + "Could not find agent library nothing on the library path, with error: libnothing.so",
        JavaRefusesOptions,
        "agent library nothing",
        "extraJavaOptions",
    ),
    ("Error opening zip file or JAR manifest missing : none.jar\n" + OF_THE_VM, JavaRefusesOptions, "none.jar", ""),
    ("Improperly specified VM option 'MaxDirectMemorySize=x'\n" + NOT_CREATED, JavaRefusesOptions, "=x'", ""),
    (
        OF_THE_VM + "Initial heap size set to a larger value than the maximum heap size",
        JavaRefusesOptions,
        "Initial heap size",
        "",
    ),
    ("Error: --add-opens requires modules to be specified", JavaRefusesOptions, "--add-opens requires", ""),
    (
        MAIN + "org.apache.spark.SparkException: Master must be yarn\n\tat x",
        SparkDoesNotStart,
        "Spark does not start: SparkException: Master must be yarn",
        "sparkConf",
    ),
    ("something new", SparkDoesNotStart, "ended with code 1 before Spark ran: something new", "log"),
    ("", SparkDoesNotStart, "it said nothing", "sparkConf"),
]


@pytest.mark.parametrize(("said", "kind", "what", "fix"), CAUSES)
def test_each_cause_has_its_own_error_and_remedy(said: str, kind: type[InvalidInput], what: str, fix: str) -> None:
    error = cause(said, 1, CONF)

    assert type(error) is kind
    assert error.exit_code is ExitCode.INVALID_INPUT
    assert what in error.what
    assert fix in error.fix
    assert ("more memory" in error.fix) is (kind is TooLittleMemory)


@pytest.mark.parametrize("code", [-9, 137])
def test_a_java_that_was_killed_is_short_of_memory(code: int) -> None:
    error = cause("", code, {})

    assert type(error) is TooLittleMemory
    assert "it was killed" in error.what


def test_a_java_that_does_not_start_is_asked_again_and_quoted(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho \"Unrecognized VM option 'NoSuch' of $*\" >&2\nexit 1\n")
    program.chmod(0o755)
    conf = {"spark.driver.extraJavaOptions": "-XX:NoSuch", "spark.driver.memory": "1g"}
    exited = RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.")

    error = why_not_started(exited, Java(tmp_path, program, 21), conf)

    assert type(error) is JavaRefusesOptions
    assert error.what == "Java refuses its options: Unrecognized VM option 'NoSuch' of -Xmx1g -XX:NoSuch -version"


def test_a_spark_that_ends_before_it_runs_is_asked_again_and_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java, submit = tmp_path / "java", tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    submit.write_text(f"#!/bin/sh\ncat\ncat <<'END'\n{UNRESOLVED}END\nexit 1\n")
    for each in (java, submit):
        each.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))

    error = why_not_started(RuntimeError("[JAVA_GATEWAY_EXITED]"), Java(tmp_path, java, 21), CONF)

    assert type(error) is PackagesMissing

    submit.write_text("#!/bin/sh\ncat\n")
    assert why_not_started(RuntimeError("[JAVA_GATEWAY_EXITED]"), Java(tmp_path, java, 21), CONF) is None


def test_a_python_that_may_open_no_more_files_has_too_few_descriptors(tmp_path: Path) -> None:
    nowhere = Java(tmp_path, tmp_path / "none", 21)

    error = why_not_started(OSError(errno.EMFILE, "Too many open files", "pipe"), nowhere, {})

    assert type(error) is TooFewDescriptors
    assert why_not_started(OSError(errno.ENOENT, "No such file"), nowhere, {}) is None


def test_settings_that_spark_refuses_are_invalid_input_and_any_other_error_is_not(tmp_path: Path) -> None:
    class IllegalArgumentException(Exception):
        pass

    nowhere = Java(tmp_path, tmp_path / "none", 21)
    error = why_not_started(IllegalArgumentException("System memory 1 must be at least 2\nat x"), nowhere, {})

    assert error is not None
    assert error.what == "Spark refuses its settings: System memory 1 must be at least 2"
    assert why_not_started(RuntimeError("the port is taken"), nowhere, {}) is None


@pytest.mark.parametrize(
    ("soft", "hard", "wanted"),
    [
        (1024, 1024, 1024),
        (4096, 524288, 4096),
        (256, 1024, MINIMUM),
        (256, resource.RLIM_INFINITY, MINIMUM),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, resource.RLIM_INFINITY),
    ],
)
def test_a_limit_of_open_files_below_the_minimum_is_raised_where_it_may_be(soft: int, hard: int, wanted: int) -> None:
    assert soft_limit(soft, hard) == wanted


@pytest.mark.parametrize(("soft", "hard"), [(64, 64), (1023, 1023), (200, 1000)])
def test_a_limit_of_open_files_that_cannot_be_raised_enough_is_refused(soft: int, hard: int) -> None:
    with pytest.raises(TooFewDescriptors, match=f"`ulimit -n` is {soft}, and may be raised to {hard} only") as caught:
        soft_limit(soft, hard)

    assert "raise the limit to 1024 or more" in caught.value.fix
