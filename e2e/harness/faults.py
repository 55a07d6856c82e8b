"""Failures inside a job, triggered by a file on the volume."""

from __future__ import annotations

from typing import Any

from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs
from e2e.harness.namespace import DATA
from e2e.harness.visits import visits_job

_CODE = "faults"
_FAULTY = "faults:faulty"

LEAK = "faults/leak"
"""A driver that finds this file removes it, and takes memory until it is killed."""
CRASH = "faults/crash"
"""A driver that finds this file aborts."""

_MODULE = f"""
import os, pathlib, threading, time

def faulty(rows):
    threading.Thread(target=_watch, daemon=True).start()
    return rows

def _watch():
    leak, crash = (pathlib.Path({DATA!r}, name) for name in ({LEAK!r}, {CRASH!r}))
    while not leak.exists():
        if crash.exists():
            os.abort()
        time.sleep(0.2)
    leak.unlink()
    kept = []
    while True:
        kept.append(b"x" * (32 << 20))
"""


def apply_faulty_job(jobs: StreamJobs, name: str, **spec: Any) -> None:
    """Create the job that counts visits, with an operator that does what goes wrong, and its code."""
    jobs.namespace.create("v1", "ConfigMap", _CODE, data={f"{_CODE}.py": _MODULE})
    jobs.apply(name, job=checked_visits_job(name, python=_FAULTY), deps={"configMaps": [_CODE]}, **spec)


def checked_visits_job(name: str, **how: Any) -> Object:
    """Return the job that counts visits, with an operator `checked` between its source and its counts.

    Args:
        name: of the job.
        how: `sql` or `python` of that operator.
    """
    job = visits_job(name, bounded=False)
    (counts,) = job["operators"]
    counts = {**counts, "inputs": ["checked"], "sql": counts["sql"].replace("FROM visits", "FROM checked")}
    return {**job, "operators": [{"name": "checked", "inputs": ["visits"], **how}, counts]}
