"""Finds out what a location holds: one job's snapshots, several jobs' snapshots, or a single snapshot."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from streamjob.errors import InvalidInput
from streamjob.ids import Key
from streamjob.protocol.log.records import JobId, find_highest
from streamjob.protocol.manifests.stored_manifests import MANIFEST_NAME
from streamjob.snapshot import keys
from streamjob.store.base import ObjectMissing, Store
from streamjob.store.effects import drive
from streamjob.store.opening import Location, open_location

_OF_A_JOB = (keys.LOG_PREFIX, keys.COPIES_PREFIX, keys.CHECKPOINTS_PREFIX)
_IN_A_LOG = re.compile(rf"([^/]+)/([^/]+)/({'|'.join((*_OF_A_JOB, keys.SHARED_PREFIX))}).+")
_IN_A_JOB = re.compile(rf"(?:^|.*/){keys.CHECKPOINTS_PREFIX}\d+-\d+/{re.escape(MANIFEST_NAME)}")


class NothingStored(InvalidInput):
    """The location holds no snapshots."""


@dataclass(frozen=True, slots=True)
class JobLocation:
    """The root of a job's snapshots."""

    job: JobId
    store: Store


@dataclass(frozen=True, slots=True)
class SnapshotLocation:
    """One snapshot, named by its manifest.

    Its relative references start from `home`: the job's root for a checkpoint, its own directory for a savepoint.
    `reference` is the manifest's key there.
    """

    home: Location
    reference: Key

    @property
    def uri(self) -> str:
        """The manifest's absolute URI."""
        return self.home.uri + self.reference


def find_jobs(location: str, namespace: str | None = None, name: str | None = None) -> tuple[JobLocation, ...]:
    """Return the jobs whose snapshots are at a location, in order; opens a store for each.

    Args:
        location: a location shared by jobs, or the root of one job.
        namespace: only jobs in this namespace; `default` if only `name` is given.
        name: only the job with this name.

    Raises:
        NothingStored: there is no log of a job.
        InvalidInput: the location cannot be used.
    """
    base = open_location(location)
    if name is not None:
        job = JobId(namespace or "default", name)
        store = base.job(job.namespace, job.name).store()
        if not _holds_job(store):
            raise NothingStored(f"{store.uri} holds no log of a job", "check location, --namespace and --name")
        return (JobLocation(job, store),)
    store = base.store()
    if _holds_job(store):
        return (JobLocation(_whose(store), store),)
    found = [job for job in _jobs_below(store) if namespace in (None, job.namespace)]
    store.close()
    jobs = [JobLocation(job, base.job(job.namespace, job.name).store()) for job in found]
    if not jobs:
        raise NothingStored(
            f"{base.uri} holds no log of a job",
            "name a location, the root of a job (<location>/<namespace>/<name>) or the manifest of a snapshot",
        )
    return tuple(jobs)


def find_snapshot(location: str) -> SnapshotLocation | None:
    """Return the snapshot whose manifest or directory a location names, or None if it names none."""
    directory = location.removesuffix(f"/{MANIFEST_NAME}")
    if directory != location:
        base = open_location(directory)
    else:
        base = open_location(location)
        store = base.store()
        alone = _any(store, MANIFEST_NAME)
        store.close()
        if not alone:
            return None
    whole = base.uri + MANIFEST_NAME
    if not _IN_A_JOB.fullmatch(whole):
        return SnapshotLocation(base, Key(MANIFEST_NAME))
    root, _, rest = whole.rpartition(keys.CHECKPOINTS_PREFIX)
    return SnapshotLocation(Location(root), Key(keys.CHECKPOINTS_PREFIX + rest))


def _holds_job(store: Store, root: str = "") -> bool:
    """Return whether a job's log is or was there. If records were lost, reading the log reports the problem."""
    return any(_any(store, root + prefix) for prefix in _OF_A_JOB)


def _any(store: Store, prefix: str) -> bool:
    return next(iter(store.list(prefix)), None) is not None


def _jobs_below(store: Store) -> list[JobId]:
    """Return the jobs whose roots are in a store; sends a request or two for each job, not one for each object."""
    found: list[JobId] = []
    after: str | None = ""
    while after is not None:
        start, after = after, None
        for entry in store.list("", start):
            match = _IN_A_LOG.fullmatch(entry.key)
            if match is not None:
                root = f"{match[1]}/{match[2]}"
                if _holds_job(store, f"{root}/"):
                    found.append(JobId(match[1], match[2]))
                # "0" follows the slash: all keys below the root sort before it.
                after = f"{root}0"
                break
    return found


def _whose(store: Store) -> JobId:
    """Return the job that a log belongs to, from its newest record, or else from the directory names."""
    highest = drive(store, find_highest())
    namespace, name = (["default", "", *store.uri.rstrip("/").split("/")])[-2:]
    if highest is not None:
        try:
            fields = json.loads(store.get(keys.log_record(highest)))
            namespace, name = fields.get("namespace") or namespace, fields.get("job") or name
        except (ValueError, AttributeError, ObjectMissing):
            # Reading the log reports the problem with the record.
            pass
    return JobId(str(namespace), str(name))
