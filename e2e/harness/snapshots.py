"""StreamSnapshots as their users see them."""

from __future__ import annotations

import json
import time

from e2e.harness.cluster import Object
from e2e.harness.controller import StreamJobs
from e2e.harness.stores import opened

from streamjob.ids import Key

ORIGIN = "streamjob.io/origin"
_PATIENCE = 240.0
_POLL = 0.3


def snapshots_of(jobs: StreamJobs, job: str, origin: str | None = None) -> list[Object]:
    """Return the StreamSnapshots of a StreamJob by name; those of one origin only, if it is given."""
    found = [
        each
        for each in jobs.namespace.all("StreamSnapshot")
        if each["spec"]["jobRef"]["name"] == job
        and origin in (None, (each["metadata"].get("labels") or {}).get(ORIGIN))
    ]
    return sorted(found, key=name_of)


def is_completed(snapshot: Object) -> bool:
    """Return whether a StreamSnapshot is complete."""
    return bool((snapshot.get("status") or {}).get("state") == "Completed")


def wait_for_completed(
    jobs: StreamJobs, job: str, count: int, origin: str | None = None, *, within: float = _PATIENCE
) -> list[Object]:
    """Wait until a StreamJob has the given number of StreamSnapshots, all of them complete, and return them."""
    end = time.monotonic() + within
    while True:
        found = snapshots_of(jobs, job, origin)
        if len(found) == count and all(map(is_completed, found)):
            return found
        told = {name_of(each): (each.get("status") or {}).get("state") for each in found}
        assert time.monotonic() < end, f"after {within:g} s {job} has {told}, and not {count} that are complete"
        time.sleep(_POLL)


def name_of(snapshot: Object) -> str:
    """Return what a StreamSnapshot is called."""
    return str(snapshot["metadata"]["name"])


def path_of(snapshot: Object) -> str:
    """Return where a StreamSnapshot is stored."""
    return str(snapshot["status"]["path"])


def manifest_of(jobs: StreamJobs, path: str) -> Object:
    """Return what a stored snapshot's manifest says."""
    directory, _, key = path.rpartition("/")
    with opened(jobs.namespace, directory) as store:
        found: Object = json.loads(store.get(Key(key)))
    return found


def stored_below(jobs: StreamJobs, location: str) -> list[str]:
    """Return the keys of all objects below a URI."""
    with opened(jobs.namespace, location) as store:
        return [str(each.key) for each in store.list("")]
