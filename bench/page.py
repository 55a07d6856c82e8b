"""Measures what the page and profiles cost a running job, and how soon it paints: `python -m bench.page --help`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.entry import Benchmark, parser, run
from bench.proc import cpu_seconds, descendants
from bench.results import Page, Records, Row
from bench.running import RunningJob, command, running
from bench.tables import Table

from streamjob.client.profile_models import ProfileState

PAGES = 3
ROUNDS = 3
SECONDS = 8.0
ROWS_PER_SECOND = 5000
CASES = {"alone": "nobody looks", "pages": f"{PAGES} open pages", "profile": "a profile"}


class Figure(Row):
    """A figure of a case: percent of a core for the driver's Python and for the rest, or ms until the first paint."""

    case: str
    of: str
    count: int
    median: float
    least: float
    most: float

    @staticmethod
    def made(case: str, of: str, values: Sequence[float]) -> Figure:
        """Return the figure of several values."""
        return Figure(case=case, of=of, count=len(values), median=median(values), least=min(values), most=max(values))


FIGURES = Records("page", Figure)


def write_job(directory: Path) -> Path:
    """Write a job that has the same work all the time."""
    file = directory / "job.yaml"
    file.write_text(f"""
name: page
checkpointing: {{interval: 5s}}
sources:
  - name: ticks
    format: rate
    options: {{rowsPerSecond: {ROWS_PER_SECOND}}}
    watermark: {{column: timestamp, delay: 10s}}
operators:
  - name: counts
    inputs: [ticks]
    sql: SELECT window(timestamp, '10 seconds') AS w, value % 1000 AS k, count(*) AS n FROM ticks GROUP BY 1, 2
sinks:
  - {{name: out, input: counts, format: parquet, options: {{path: {directory / "out"}}}}}
""")
    return file


def used(job: RunningJob) -> tuple[float, float]:
    """Return the CPU seconds of the driver's Python, and of its Java and all else."""
    return cpu_seconds(job.pid), sum(map(cpu_seconds, descendants(job.pid)))


def rate(job: RunningJob, seconds: float) -> tuple[float, float]:
    """Return the cores that the driver's Python, and all else, use for some seconds."""
    before, begun = used(job), time.monotonic()
    time.sleep(seconds)
    after, passed = used(job), time.monotonic() - begun
    return (after[0] - before[0]) / passed, (after[1] - before[1]) / passed


@contextmanager
def open_pages(browser: Any, job: RunningJob, number: int) -> Iterator[list[float]]:
    """Open pages of the job; give the milliseconds until each painted first."""
    paints = []
    contexts = []
    for _ in range(number):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.goto(f"{job.client.url}/ui/#code={job.client.new_code().code}")
        page.wait_for_selector(".headline")
        paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    try:
        yield paints
    finally:
        for context in contexts:
            context.close()


def profiled(job: RunningJob, seconds: float) -> tuple[float, float]:
    """Return the cores that are used while a profile is recorded, with what it costs to count its samples."""
    before, begun = used(job), time.monotonic()
    view = job.client.wait_for_profile(job.client.start_profile(seconds), timeout=seconds + 120)
    assert view.state is ProfileState.COMPLETED
    after, passed = used(job), time.monotonic() - begun
    return (after[0] - before[0]) / passed, (after[1] - before[1]) / passed


def bench(benchmark: Benchmark) -> None:
    """Measure; store the results."""
    from tests.integration.page.browser import chromium

    seconds = 3.0 if benchmark.options.quick else SECONDS
    work, load = benchmark.work, os.getloadavg()[0]
    arguments = command(write_job(work), str(work / "store"), work / "work", {})
    found: dict[str, list[tuple[float, float]]] = {case: [] for case in CASES}
    paints: list[float] = []
    with running(arguments, work / "work", work / "log", 180.0) as job, chromium() as browser:
        time.sleep(5 * seconds)
        first = profiled(job, seconds)
        for number in range(ROUNDS):
            benchmark.tell(f"round {number + 1} of {ROUNDS}")
            found["alone"].append(rate(job, seconds))
            with open_pages(browser, job, PAGES) as painted:
                paints += painted
                time.sleep(1.0)
                found["pages"].append(rate(job, seconds))
            found["profile"].append(profiled(job, seconds))
    figures = [Figure.made("first", "paint", paints)]
    for case, turns in {**found, "first": [first]}.items():
        figures += [Figure.made(case, of, [100 * turn[n] for turn in turns]) for n, of in enumerate(("python", "rest"))]
    remark = f"Load average of the machine: {load:.1f} before, {os.getloadavg()[0]:.1f} behind."
    benchmark.keep(FIGURES, figures, remark=remark)
    benchmark.show("percent of a core", table(figures))


def table(figures: Sequence[Figure]) -> Table:
    """Return what each case costs."""
    by = {(each.case, each.of): each for each in figures}

    def cell(of: str) -> Callable[[str], str]:
        return lambda case: f"{(it := by[case, of]).median:.1f} ({it.least:.1f} to {it.most:.1f})"

    columns = (("", CASES.__getitem__), ("Driver's Python", cell("python")), ("Its Java, and all else", cell("rest")))
    return Table.of(CASES, *columns)


def _render() -> str:
    measured = FIGURES.load()
    by = {(each.case, each.of): each for each in measured.runs}
    paint, python, rest = (by["first", of] for of in ("paint", "python", "rest"))
    return f"""\
# The page and profiles

<!-- Written by `make bench-page`; change bench/page.py. -->

A job that counts {ROWS_PER_SECOND:,} generated rows per second, with a checkpoint every five seconds.
Each figure is the median of {ROUNDS} turns of {SECONDS:g} s, in percent of a core, with the range.

{table(measured.runs).markdown()}
The first profile of a process loads the recorder: {python.median:.1f} and {rest.median:.1f}.

First paint: {paint.median:.0f} ms ({paint.least:.0f} to {paint.most:.0f}), {paint.count} pages.

{measured.where}
"""


PAGE = Page("PAGE", _render)

if __name__ == "__main__":
    run(parser("make bench-page", __doc__, "short turns").parse_args(), PAGE, bench)
