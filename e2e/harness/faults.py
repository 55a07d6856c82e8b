"""What goes wrong inside a job, when a file on the volume says so."""

from __future__ import annotations

from typing import Any

from e2e.harness.cluster import Object
from e2e.harness.namespace import DATA, Namespace
from e2e.harness.visits import visits_job

CODE = "faults"
"""The ConfigMap with the code of the operator that does it."""
FAULTY = "faults:faulty"
"""That operator: rows pass it as they are."""

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


def write_faulty_code(namespace: Namespace) -> None:
    """Create the ConfigMap with the operator's code."""
    namespace.create("v1", "ConfigMap", CODE, data={f"{CODE}.py": _MODULE})


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
