"""What scenarios wait for in a job's life."""

from __future__ import annotations

import time

from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs, condition
from e2e.harness.snapshots import manifest_of

_PATIENCE = 240.0
_POLL = 0.3


def wait_until_ready(jobs: StreamJobs, name: str, *, within: float = _PATIENCE) -> Object:
    """Wait as `kubectl wait --for=condition=Ready` does, and return the status: it is of the spec as it is."""
    return jobs.wait(
        name,
        lambda status: status.get("conditions") and condition(status, "Ready")["status"] == "True",
        within=within,
        what="Ready",
    )


def files_read(jobs: StreamJobs, name: str) -> int:
    """Return how many files a job had read at its newest snapshot."""
    last = jobs.status(name)["checkpoint"]["lastCompleted"]
    (source,) = manifest_of(jobs, last["path"])["sources"]
    return int(source["position"]["logOffset"]) + 1


def wait_until_read(jobs: StreamJobs, name: str, files: int, *, within: float = _PATIENCE) -> None:
    """Wait until a job has read so many files, and has completed a snapshot behind them."""
    end = time.monotonic() + within
    while (read := files_read(jobs, name)) < files:
        assert time.monotonic() < end, f"after {within:g} s {name} has read {read} files, and not {files}"
        time.sleep(_POLL)
