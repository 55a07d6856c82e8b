"""Describes an error for people, with the file whose name ends a job."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

import streamjob_runtime.spark.text.error_text
from streamjob.errors import Superseded
from streamjob_runtime.spark.text.error_text import describe


def test_an_error_for_people_is_told_in_its_own_words() -> None:
    assert describe(Superseded("another owner holds the log", "nothing is to be done")) == "another owner holds the log"


def test_any_other_error_is_told_with_its_class_and_without_the_stack_of_java() -> None:
    error = RuntimeError("no such column\n\tat org.apache.spark.Query(Query.scala:1)\n\tat java.lang.Thread.run")

    assert describe(error) == "RuntimeError: no such column"


SPARK = "/venv/lib/python3.11/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py"
PANDAS = "/venv/lib/python3.11/site-packages/pandas/core/generic.py"
OURS = streamjob_runtime.spark.text.error_text.__file__
THROWN = "An exception was thrown from the Python worker:\n"
TASK = (
    "An error occurred while calling o573.save\n: org.apache.spark.SparkException: Job aborted due to stage failure: "
    "Task 1 in stage 7.0 failed 1 times, most recent failure: Lost task 1.0 in stage 7.0 (TID 11) "
    "(192.0.2.2 executor driver): "
)
STACK = "\n\tat org.apache.spark.rdd.RDD.count(RDD.scala:1370)\n\tat java.lang.Thread.run\n"


def trace(*frames: tuple[str, int, str], raised: str) -> str:
    """Return a trace as Python writes it."""
    lines = [f'  File "{file}", line {line}, in {function}\n    work()\n    ^^^^^^' for file, line, function in frames]
    return "\n".join(["Traceback (most recent call last):", *lines, raised])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            THROWN + trace(("/job/steps.py", 12, "check"), raised="ValueError: the goods are on fire"),
            "ValueError: the goods are on fire (/job/steps.py:12, in check)",
            id="a function of the job",
        ),
        pytest.param(
            THROWN
            + trace(
                (SPARK, 9, "f"), ("/job/a.py", 1, "g"), ("/job/b.py", 2, "h"), (PANDAS, 3, "i"), raised="KeyError: 1"
            ),
            "KeyError: 1 (/job/b.py:2, in h)",
            id="a library that the job calls",
        ),
        pytest.param(
            THROWN + trace((OURS, 9, "f"), (PANDAS, 3, "<lambda>"), (PANDAS, 4, "g"), raised="KeyError: 1"),
            f"KeyError: 1 ({PANDAS}:3, in <lambda>)",
            id="a function of an installed package",
        ),
        pytest.param(
            THROWN + trace((SPARK, 2845, "read_udfs"), raised="ModuleNotFoundError: No module named 'pyarrow'"),
            "ModuleNotFoundError: No module named 'pyarrow'",
            id="a worker that cannot load the function",
        ),
        pytest.param(
            THROWN
            + trace(("/job/a.py", 1, "f"), raised="KeyError: 1")
            + "\n\nThe above exception was the direct cause of the following exception:\n\n"
            + trace(("/job/a.py", 3, "g"), raised="ValueError: no such airport\n\n  and a second line"),
            "ValueError: no such airport (/job/a.py:3, in g)",
            id="an exception because of another one",
        ),
        pytest.param(
            THROWN + trace(("/job/a.py", 3, "g"), raised="AssertionError"),
            "AssertionError (/job/a.py:3, in g)",
            id="an exception without a message",
        ),
        pytest.param(
            f"{TASK}org.apache.spark.SparkException: [TASK_WRITE_FAILED] a task failed{STACK}"
            "Caused by: org.apache.spark.api.python.PythonException: "
            + trace(("/job/a.py", 3, "g"), raised="ValueError: no such airport")
            + STACK
            + "\nDriver stacktrace:"
            + STACK,
            "ValueError: no such airport (/job/a.py:3, in g)",
            id="a trace among those of Java",
        ),
        pytest.param(
            f"{TASK}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).{STACK}"
            f"Caused by: java.io.EOFException{STACK}",
            "SparkException: Python worker exited unexpectedly (crashed).",
            id="a worker that died",
        ),
        pytest.param(
            f"{TASK}java.io.IOException: Mkdirs failed to create /a{STACK}\nDriver stacktrace:{STACK}"
            f"Caused by: java.io.IOException: Mkdirs failed to create /a{STACK}",
            "IOException: Mkdirs failed to create /a",
            id="a failed task",
        ),
        pytest.param(
            f"An error occurred while calling o7.save\n: java.lang.ClassNotFoundException: org.pg.Driver{STACK}",
            "ClassNotFoundException: org.pg.Driver",
            id="a call of Java",
        ),
        pytest.param(
            "[STREAM_FAILED] Query [id = 19ea-1, runId = 7bed-5] terminated with exception: the topic is gone "
            f"SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: 1\n\nJVM stacktrace:{STACK}"
            f"Caused by: org.apache.kafka.UnknownTopic: orders{STACK}",
            "RuntimeError: the topic is gone SQLSTATE: XXKST: UnknownTopic: orders",
            id="a query, and its deepest cause",
        ),
    ],
)
def test_the_first_line_names_the_cause_and_its_place_in_the_job(text: str, expected: str) -> None:
    assert describe(RuntimeError(text)).splitlines()[0] == expected


def test_the_trace_from_the_code_of_the_job_on_follows() -> None:
    frames = [(SPARK, 9, "f"), ("/job/b.py", 2, "h"), (PANDAS, 3, "i")]
    told = describe(RuntimeError(THROWN + trace(*frames, raised="KeyError: 1")))

    assert told.partition("\n")[2] == trace(*frames[1:], raised="KeyError: 1").partition("\n")[2]


def test_an_error_in_code_of_the_job_in_the_driver_has_its_place() -> None:
    namespace: dict[str, Any] = {}
    exec(compile("def write(rows):\n    rows[1]", "/job/sink.py", "exec"), namespace)
    with pytest.raises(IndexError) as caught:
        namespace["write"]([])

    caught.value.__traceback__ = caught.tb.tb_next
    assert describe(caught.value) == "IndexError: list index out of range (/job/sink.py:2, in write)"


def test_a_failed_task_is_told_below_its_cause() -> None:
    told = describe(RuntimeError(f"{TASK}java.io.IOException: no such bucket{STACK}"))

    assert told.splitlines() == [
        "IOException: no such bucket",
        TASK.partition("\n: ")[2] + "java.io.IOException: no such bucket",
    ]


def test_an_error_without_words_is_told_by_its_class() -> None:
    assert describe(ValueError()) == "ValueError"


def test_a_full_disk_is_told_with_the_path_that_the_error_names() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/var/job/1/counts/state/0/1.delta")

    assert describe(full).startswith("no space left at /var/job/1/counts/state/0/1.delta; free space there. ")
    failed = RuntimeError("the batch failed")
    failed.__cause__ = full
    assert describe(failed).startswith("no space left at /var/job/1/counts/state/0/1.delta; ")


def test_a_full_disk_is_told_with_the_work_directory_where_java_names_no_path() -> None:
    stack = "\n\tat org.apache.Task\nCaused by: java.io.IOException: No space left on device"

    told = describe(RuntimeError(f"[STREAM_FAILED] a task failed{stack}"), Path("/var/job/1"))
    assert told == "no space left at /var/job/1; free space there. RuntimeError: [STREAM_FAILED] a task failed"
    java = "java.io.FileNotFoundException: /var/job/spark/blockmgr-1/0c/temp_1 (No space left on device)"
    assert describe(RuntimeError(java), Path("/var/job")).startswith(
        "no space left at /var/job/spark/blockmgr-1/0c/temp_1;"
    )


@pytest.mark.parametrize(
    ("place", "path", "expected"),
    [
        ("10.0.0.7 executor 2", "", "the work directory of executor 2 on 10.0.0.7"),
        ("10.0.0.7 executor 2", ": /var/job/spark/temp_1", "/var/job/spark/temp_1 of executor 2 on 10.0.0.7"),
        ("machine executor driver", "", "/var/job/1"),
    ],
)
def test_a_full_disk_of_an_executor_is_told_with_the_executor(place: str, path: str, expected: str) -> None:
    java = f"failed 4 times, most recent failure: Lost task 0.3 ({place}): java.io.IOException: No space left on device"

    assert describe(RuntimeError(java + path), Path("/var/job/1")).startswith(f"no space left at {expected}; free")


def test_any_other_error_names_no_disk() -> None:
    assert describe(OSError(errno.EACCES, "Permission denied", "/var/job")) == (
        "PermissionError: [Errno 13] Permission denied: '/var/job'"
    )
