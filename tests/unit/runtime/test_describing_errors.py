"""Describes an error for people."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from streamjob.errors import Superseded
from streamjob_runtime.spark.error_text import describe


def test_an_error_for_people_is_told_in_its_own_words() -> None:
    assert describe(Superseded("another owner holds the log", "nothing is to be done")) == "another owner holds the log"


def test_any_other_error_is_told_with_its_class_and_without_the_stack_of_java() -> None:
    error = RuntimeError("no such column\n\tat org.apache.spark.Query(Query.scala:1)\n\tat java.lang.Thread.run")

    assert describe(error) == "RuntimeError: no such column"


def test_of_a_trace_of_python_the_last_frame_is_told() -> None:
    trace = [
        "An exception was thrown from the Python worker.",
        "Traceback (most recent call last):",
        '  File "/opt/var/jober.py", line 1, in main',
        "    process()",
        "    ^^^^^^^^^",
        '  File "/job/steps.py", line 12, in check',
        '    raise RuntimeError("the goods are on fire")',
        "RuntimeError: the goods are on fire",
    ]

    assert describe(ValueError("\n".join(trace))).splitlines() == [f"ValueError: {trace[0]}", *trace[5:]]


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
