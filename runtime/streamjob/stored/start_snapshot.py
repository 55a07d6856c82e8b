"""Finds the snapshot that a job would start from, with a start's rules, but without claiming anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamjob.errors import CannotRestore
from streamjob.job.loading.load import LoadedJob
from streamjob.protocol.log.records import JobId, read
from streamjob.protocol.log.restore import LATEST, NONE, ClaimMode, Resolution, resolve, unusable
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import Store
from streamjob.store.effects import Locate, drive
from streamjob.store.opening import Location, References, open_location, snapshot_reference

FROM_SPARK = "spark:"
"""The prefix for the checkpoint of a plain Structured Streaming query."""

STATE_DIRECTORY = ".streamjob"
"""The default directory for a job's own files, next to the job file."""


@dataclass(frozen=True, slots=True)
class Found:
    """A snapshot to start from: its manifest, the manifest's URI, and a resolver for the objects that it refers to.

    `foreign` means that the job's own log does not name it, and `newest` that it is the log's newest one.
    `finished` means that the job's log ends with it: a start commits its remaining output, and ends. `explain`
    returns the error for a snapshot with unusable files, given the problem; None if there is nothing to add.
    """

    manifest: Manifest
    uri: str
    locate: Locate
    foreign: bool = False
    newest: bool = False
    finished: bool = False
    explain: Callable[[str], CannotRestore | None] = lambda problem: None


def job_location(loaded: LoadedJob, location: str | None) -> Location:
    """Return the location of a job's snapshots: as given, from the job file, or next to it.

    Raises:
        InvalidInput: the location cannot be used.
    """
    beside = str(loaded.directory / STATE_DIRECTORY / "snapshots")
    return open_location(location or loaded.location() or beside, Path.cwd())


@contextmanager
def opened(
    loaded: LoadedJob,
    wanted: str,
    location: str | None = None,
    namespace: str | None = None,
    name: str | None = None,
    progress: Callable[[str], None] = lambda note: None,
    *,
    require_snapshot: bool = False,
) -> Iterator[Found | None]:
    """Yield the snapshot that a job would start from, or None.

    Args:
        wanted: `latest`, `none`, or a snapshot: a URI, a path or, for this job's, a key.
        location: the location of the job's snapshots; None for the job file's.
        namespace: the job's namespace; None for the job file's.
        name: the job's name in the store; None for the job file's.
        progress: receives a description of work that takes long.
        require_snapshot: refuse to start fresh.

    Raises:
        CannotRestore: the snapshot cannot be used, or is required and not there.
        InvalidInput: the location cannot be used.
        StoreError: the store failed.
    """
    job = JobId(namespace or loaded.namespace or "default", name or loaded.spec.name)
    store = job_location(loaded, location).job(job.namespace, job.name).store()
    references = References(store)

    def explain(problem: str) -> CannotRestore | None:
        record = resolution.record
        if record is None or record != view.newest:
            return None
        return drive(store, unusable(view, record, [problem]), find=references.find, progress=progress)

    try:
        named = wanted if wanted in (LATEST, NONE) else snapshot_reference(wanted)
        view = drive(store, read(job))
        program = resolve(view, named, root=store.uri, mode=ClaimMode.NO_CLAIM, require_snapshot=require_snapshot)
        resolution = drive(store, program, find=references.find, progress=progress)
        if resolution.manifest is None:
            yield None
            return
        home = home_of(resolution, store)
        own = References(home) if home is not store else references
        reference = resolution.reference or ""
        yield Found(
            resolution.manifest,
            reference if "://" in reference else store.uri + reference,
            own.find,
            foreign=resolution.record is None,
            newest=resolution.record is not None and resolution.record == view.newest,
            finished=view.finished and not resolution.fork,
            explain=explain,
        )
        if own is not references:
            own.close()
            home.close()
    finally:
        references.close()
        store.close()


def home_of(resolution: Resolution, store: Store) -> Store:
    """Return the store from which a snapshot's relative references are read: `store` itself, or a newly opened one.

    Args:
        resolution: the snapshot.
        store: the store of the job that starts from the snapshot, at the job's root.
    """
    reference = resolution.reference or ""
    whole = reference if "://" in reference else store.uri + reference
    if resolution.manifest is not None and resolution.manifest.kind == "savepoint":
        return open_location(whole.rpartition("/")[0]).store()
    if whole != reference:
        return store
    root, marker, _ = whole.rpartition(f"/{keys.CHECKPOINTS_PREFIX}")
    return open_location(root if marker else whole.rpartition("/")[0]).store()
