"""How far a job has read, by its snapshots."""

from __future__ import annotations

import time

from e2e.harness.controller import StreamJobs
from e2e.harness.snapshots import manifest_of

from streamjob.store import ObjectMissing

_PATIENCE = 240.0
_POLL = 0.3


def wait_until_read(jobs: StreamJobs, name: str, files: int, *, within: float = _PATIENCE) -> None:
    """Wait until a job has read the given number of files, and has completed a later snapshot."""
    end = time.monotonic() + within
    while (read := _files_read(jobs, name)) is None or read < files:
        assert time.monotonic() < end, f"after {within:g} s {name} has read {read} files, and not {files}"
        time.sleep(_POLL)


def _files_read(jobs: StreamJobs, name: str) -> int | None:
    """Return how many files a job had read at its newest snapshot; None if another one has taken its place."""
    last = jobs.status(name)["checkpoint"]["lastCompleted"]
    try:
        (source,) = manifest_of(jobs, last["path"])["sources"]
    except ObjectMissing:
        return None
    position = source["position"]
    return 0 if position is None else int(position["files"]) + 1
