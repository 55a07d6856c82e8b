"""What a person is told of an error."""

from __future__ import annotations

from streamjob.errors import Superseded
from streamjob_runtime.chain import describe


def test_an_error_for_people_is_told_in_its_own_words() -> None:
    assert describe(Superseded("another owner holds the log", "nothing is to be done")) == "another owner holds the log"


def test_any_other_error_is_told_with_its_class_and_without_the_stack_of_java() -> None:
    error = RuntimeError("no such column\n\tat org.apache.spark.Query(Query.scala:1)\n\tat java.lang.Thread.run")

    assert describe(error) == "RuntimeError: no such column"


def test_of_a_trace_of_python_the_last_frame_is_told() -> None:
    trace = [
        "An exception was thrown from the Python worker.",
        "Traceback (most recent call last):",
        '  File "/opt/worker.py", line 1, in main',
        "    process()",
        "    ^^^^^^^^^",
        '  File "/job/steps.py", line 12, in check',
        '    raise RuntimeError("the goods are on fire")',
        "RuntimeError: the goods are on fire",
    ]

    assert describe(ValueError("\n".join(trace))).splitlines() == [f"ValueError: {trace[0]}", *trace[5:]]


def test_an_error_without_words_is_told_by_its_class() -> None:
    assert describe(ValueError()) == "ValueError"
