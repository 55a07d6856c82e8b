"""Visits of pages, second by second: what scenarios write, and what is counted of them."""

from __future__ import annotations

from collections import Counter

from e2e.harness.cluster import Object
from e2e.harness.namespace import DATA

PAGES = ("home", "search", "cart")


def visits_job(name: str, *, bounded: bool) -> Object:
    """Return a job file that counts visits per page and ten seconds.

    Nothing is published before `last_visit`: files that were written at one time are read in any order.
    """
    source = {
        "name": "visits",
        "format": "csv",
        "schema": "seen TIMESTAMP, page STRING",
        "options": {"path": f"{DATA}/visits", "header": True, "maxFilesPerTrigger": 1},
        "bounded": bounded,
        "watermark": {"column": "seen", "delay": "2m"},
    }
    count = {
        "name": "counts",
        "inputs": ["visits"],
        "sql": "SELECT window.start AS moment, page, count(*) AS visits FROM visits"
        " GROUP BY window(seen, '10 seconds'), page",
    }
    sink = {"name": "report", "input": "counts", "format": "json", "options": {"path": f"{DATA}/report-{name}"}}
    return {"sources": [source], "operators": [count], "sinks": [sink]}


def visits(start: int, end: int) -> dict[str, str]:
    """Return files of visits: one for each second, and one row longer each."""
    lines = {
        f"visits/{number:03}.csv": [f"{_stamp(number)},{PAGES[row % 3]}" for row in range(number % 10 + 1)]
        for number in range(start, end)
    }
    return {name: "\n".join(["seen,page", *rows]) + "\n" for name, rows in lines.items()}


def last_visit() -> dict[str, str]:
    """Return a file whose only visit comes much later: after it all windows before are complete."""
    return {"visits/zzz.csv": "seen,page\n2024-01-02 00:00:00,home\n"}


def expected(end: int, start: int = 0) -> Counter[tuple[str, str]]:
    """Return what there is to be counted in the files of these seconds."""
    return Counter(
        (f"{_stamp(number // 10 * 10).replace(' ', 'T')}.000000Z", PAGES[row % 3])
        for number in range(start, end)
        for row in range(number % 10 + 1)
    )


def _stamp(second: int) -> str:
    return f"2024-01-01 00:{second // 60:02}:{second % 60:02}"
