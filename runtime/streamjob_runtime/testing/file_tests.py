"""Runs the tests of a job file, and reports them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from streamjob.errors import StreamJobError
from streamjob.job.loading.job_tests import JobTestSpec, StepSpec
from streamjob.job.loading.load import LoadedJob
from streamjob_runtime.testing.job_test import JobTest
from streamjob_runtime.testing.session import Session


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a test.

    Args:
        seconds: its duration.
        failures: the differences between expected and published rows, or why the job failed; empty if it passed.
    """

    name: str
    seconds: float
    failures: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return not self.failures


def run_tests(
    loaded: LoadedJob,
    tests: Iterable[JobTestSpec],
    session: Session,
    directory: Path,
    *,
    kills: bool = False,
) -> Iterator[Result]:
    """Run tests one after the other, each with a job of its own.

    Args:
        session: the Spark to run on.
        directory: an existing directory below the session's.
        kills: kill and restore the job in every step.
    """
    for test in tests:
        begun = time.monotonic()
        try:
            with JobTest(loaded, session, directory / uuid.uuid4().hex[:8]) as job:
                failures = tuple(_failures(job, test, kills))
        except StreamJobError as error:
            failures = (str(error),)
        yield Result(test.name, time.monotonic() - begun, failures)


def _failures(job: JobTest, test: JobTestSpec, kills: bool) -> Iterator[str]:
    steps = test.all_steps()
    for number, step in enumerate(steps, start=1):
        _take(job, step, kill=step.kill or kills, finish=test.finish and number == len(steps))
        prefix = f"step {number}, " if len(steps) > 1 else ""
        for sink in job.sinks:
            if sink in step.expect:
                yield from _told(prefix, job.difference(sink, step.expect[sink]))
            else:
                job.new_rows(sink)
    for sink, rows in test.expect.items():
        yield from _told("", job.difference(sink, rows, of_all=True))


def _take(job: JobTest, step: StepSpec, *, kill: bool, finish: bool) -> None:
    # The rows of a step see the tables of the step.
    for name in sorted(step.given, key=lambda each: each not in job.tables):
        (job.table if name in job.tables else job.feed)(name, step.given[name])
    if kill:
        job.process(checkpoint=False)
        job.kill()
    if isinstance(step.advance, str):
        job.advance(step.advance)
    elif isinstance(step.advance, Mapping):
        for source, to in step.advance.items():
            job.advance(to, of=source)
    if finish:
        job.finish()
    else:
        job.process()


def _told(prefix: str, difference: str | None) -> Iterator[str]:
    if difference is not None:
        yield prefix + difference


def junit(name: str, results: Sequence[Result]) -> bytes:
    """Return results in the XML of JUnit, which most CI systems show.

    Args:
        name: the name of the suite.
        results: the results of its tests.
    """
    attributes: dict[str, Any] = {
        "name": name,
        "tests": len(results),
        "failures": sum(not each.passed for each in results),
        "errors": 0,
        "time": f"{sum(each.seconds for each in results):.3f}",
    }
    suite = ElementTree.Element("testsuite", {key: str(value) for key, value in attributes.items()})
    for each in results:
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": name, "name": each.name, "time": f"{each.seconds:.3f}"}
        )
        if not each.passed:
            failure = ElementTree.SubElement(case, "failure", {"message": each.failures[0].splitlines()[0]})
            failure.text = "\n".join(each.failures)
    ElementTree.indent(suite)
    text: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text + b"\n"
