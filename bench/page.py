"""Measures what the page and profiles cost a running job, and how soon it paints: `python -m bench.page --help`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench.entry import Benchmark, parser, run
from bench.proc import cpu_seconds, descendants
from bench.processes import REPOSITORY
from bench.running import RunningJob, command, running

from streamjob.client.profile_models import ProfileState

REPORT = REPOSITORY / "bench" / "PAGE.md"
PAGES = 3
ROUNDS = 3
ROWS_PER_SECOND = 5000


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


def body(benchmark: Benchmark) -> None:
    """Measure, and write the report."""
    from tests.integration.page.browser import chromium

    seconds = 3.0 if benchmark.options.quick else 8.0
    begun, load = time.time(), os.getloadavg()[0]
    work = benchmark.work
    arguments = command(write_job(work), str(work / "store"), work / "work", {})
    found: dict[str, list[tuple[float, float]]] = {"alone": [], "pages": [], "profile": []}
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
    loads = f"Load average of the machine: {load:.1f} before, {os.getloadavg()[0]:.1f} behind."
    text = f"{report(found, first, paints, seconds)}\n{benchmark.circumstances(begun)} {loads}\n"
    benchmark.console.print(text)
    if not benchmark.options.quick:
        REPORT.write_text(text)


def report(
    found: dict[str, list[tuple[float, float]]], first: tuple[float, float], paints: list[float], seconds: float
) -> str:
    """Return the figures as Markdown."""

    def cell(kind: str, part: Callable[[tuple[float, float]], float]) -> str:
        values = [100 * part(each) for each in found[kind]]
        return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"

    rows = [
        f"| {label} | {cell(kind, lambda each: each[0])} | {cell(kind, lambda each: each[1])} |"
        for kind, label in (("alone", "nobody looks"), ("pages", f"{PAGES} open pages"), ("profile", "a profile"))
    ]
    return "\n".join(
        [
            "# The page and profiles",
            "",
            "<!-- Written by `make bench-page`; change bench/page.py. -->",
            "",
            f"A job that counts {ROWS_PER_SECOND:,} generated rows per second, with a checkpoint every five seconds.",
            f"Each figure is the median of {ROUNDS} turns of {seconds:g} s, in percent of a core, with the range.",
            "",
            "| | Driver's Python | Its Java, and all else |",
            "|---|---|---|",
            *rows,
            "",
            f"The first profile of a process loads the recorder: {100 * first[0]:.1f} and {100 * first[1]:.1f}.",
            "",
            f"First paint: {median(paints):.0f} ms ({min(paints):.0f} to {max(paints):.0f}), {len(paints)} pages.",
            "",
        ]
    )


if __name__ == "__main__":
    options = parser("make bench-page", __doc__, "short turns").parse_args()
    raise SystemExit(run(options, body))
