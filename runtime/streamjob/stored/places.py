"""What a place that a person names holds: the snapshots of a job, of several jobs, or one snapshot alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from streamjob.errors import InvalidInput
from streamjob.ids import Key
from streamjob.protocol.log import JobId, find_highest
from streamjob.protocol.manifests import MANIFEST_NAME
from streamjob.snapshot import keys
from streamjob.store.base import ObjectMissing, Store
from streamjob.store.effects import drive
from streamjob.store.opening import Location, open_location

_OF_A_JOB = (keys.LOG_PREFIX, keys.COPIES_PREFIX, keys.CHECKPOINTS_PREFIX)
_IN_A_LOG = re.compile(rf"([^/]+)/([^/]+)/({'|'.join((*_OF_A_JOB, keys.SHARED_PREFIX))}).+")
_IN_A_JOB = re.compile(rf"(?:^|.*/){keys.CHECKPOINTS_PREFIX}\d+-\d+/{re.escape(MANIFEST_NAME)}")


class NothingStored(InvalidInput):
    """The place holds no snapshots."""


@dataclass(frozen=True, slots=True)
class JobPlace:
    """The root of a job's snapshots."""

    job: JobId
    store: Store


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """One snapshot, named by its manifest.

    `home` is where its relative references begin: the job's root for a checkpoint, its own directory for a savepoint.
    `reference` is the manifest's key there.
    """

    home: Location
    reference: Key

    @property
    def uri(self) -> str:
        """The manifest's absolute URI."""
        return self.home.uri + self.reference


def find_jobs(
    location: str, namespace: str | None = None, name: str | None = None, environment: Mapping[str, str] | None = None
) -> tuple[JobPlace, ...]:
    """Return the jobs whose snapshots are at a place, in order; opens one store for each.

    Args:
        location: a location that jobs share, or the root of one job.
        namespace: only jobs of it; with `name` alone it is `default`.
        name: only the job of this name.
        environment: the variables that say how S3 is reached; None for those of this process.

    Raises:
        NothingStored: no log of a job is there.
        InvalidInput: the location cannot be used.
    """
    place = open_location(location)
    if name is not None:
        job = JobId(namespace or "default", name)
        store = place.job(job.namespace, job.name).store(environment)
        if not _holds_job(store):
            raise NothingStored(f"{store.uri} holds no log of a job", "check location, --namespace and --name")
        return (JobPlace(job, store),)
    store = place.store(environment)
    if _holds_job(store):
        return (JobPlace(_whose(store), store),)
    found = [job for job in _jobs_below(store) if namespace in (None, job.namespace)]
    store.close()
    places = [JobPlace(job, place.job(job.namespace, job.name).store(environment)) for job in found]
    if not places:
        raise NothingStored(
            f"{place.uri} holds no log of a job",
            "name a location, the root of a job (<location>/<namespace>/<name>) or the manifest of a snapshot",
        )
    return tuple(places)


def find_snapshot(location: str, environment: Mapping[str, str] | None = None) -> SnapshotPlace | None:
    """Return the one snapshot that a place names by its manifest or its directory, or None if it names none."""
    directory = location.removesuffix(f"/{MANIFEST_NAME}")
    if directory != location:
        place = open_location(directory)
    else:
        place = open_location(location)
        store = place.store(environment)
        alone = _any(store, MANIFEST_NAME)
        store.close()
        if not alone:
            return None
    whole = place.uri + MANIFEST_NAME
    if not _IN_A_JOB.fullmatch(whole):
        return SnapshotPlace(place, Key(MANIFEST_NAME))
    root, _, rest = whole.rpartition(keys.CHECKPOINTS_PREFIX)
    return SnapshotPlace(Location(root), Key(keys.CHECKPOINTS_PREFIX + rest))


def _holds_job(store: Store, root: str = "") -> bool:
    """Return whether a job's log is at a place, or was: reading says what is wrong if its records were lost."""
    return any(_any(store, root + prefix) for prefix in _OF_A_JOB)


def _any(store: Store, prefix: str) -> bool:
    return next(iter(store.list(prefix)), None) is not None


def _jobs_below(store: Store) -> list[JobId]:
    """Return the jobs whose roots lie in a store, with a request or two for each and not one for each object."""
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
                # "0" follows the slash: all keys below the root sort before this.
                after = f"{root}0"
                break
    return found


def _whose(store: Store) -> JobId:
    """Return whose log a store holds: what its newest record says, or else what the names of its directories say."""
    highest = drive(store, find_highest())
    namespace, name = (["default", "", *store.uri.rstrip("/").split("/")])[-2:]
    if highest is not None:
        try:
            fields = json.loads(store.get(keys.log_record(highest)))
            namespace, name = fields.get("namespace") or namespace, fields.get("job") or name
        except (ValueError, AttributeError, ObjectMissing):
            # Reading the log says what is wrong with the record.
            pass
    return JobId(str(namespace), str(name))
