"""Compares a job with the snapshot that it would start from, though another process may run the job meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from streamjob.comparison.graphs import compare
from streamjob.comparison.verdicts import Comparison
from streamjob.errors import CannotRestore
from streamjob.job.loading.load import LoadedJob
from streamjob.job.planning.plan import plan
from streamjob.protocol.log.records import JobId
from streamjob.protocol.log.restore import LATEST
from streamjob.stored.start_snapshot import Found, opened

_TRIES = 3

Examine = Callable[[LoadedJob, Found | None, Comparison, bool, JobId], Comparison]
"""Extends a comparison by problems beyond the graphs: `streamjob_runtime.process.checking.start_check.examine`."""


@dataclass(frozen=True, slots=True)
class ComparedStart:
    """A job compared with a snapshot: the snapshot's URI, None for a start without state, and the comparison.

    `finished` means that the job has finished: a start publishes what is left, and ends.
    """

    uri: str | None
    compared: Comparison
    finished: bool = False


def compare_start(
    loaded: LoadedJob,
    restore_from: str,
    location: str | None,
    job: JobId,
    allow: bool,
    examine: Examine | None,
    note: Callable[[str], None] = lambda text: None,
    *,
    require_snapshot: bool = False,
) -> ComparedStart:
    """Return the finding for each part of a job that would start from a snapshot.

    A job that runs deletes old checkpoints. So if the newest one is refused, and there is a newer one meanwhile, that
    one is compared.

    Args:
        restore_from: `latest`, `none`, or a snapshot.
        location: the location of the job's snapshots; None for the job file's.
        job: the job's identity in its store.
        allow: discard state for which the job has no operator.
        examine: asks sinks and Spark; None to compare only the graphs.
        note: receives a description of work that takes long.
        require_snapshot: refuse to start fresh.

    Raises:
        CannotRestore: the snapshot cannot be used, or is required and not there.
        InvalidInput: the location cannot be opened, or the job cannot run.
        StoreError: the store failed.
    """
    tried: list[str] = []

    def moved() -> bool:
        if restore_from != LATEST or len(tried) >= _TRIES:
            return False
        with opened(loaded, LATEST, location, job.namespace, job.name) as found:
            return found is not None and found.uri not in tried

    def once() -> ComparedStart:
        place = (location, job.namespace, job.name)
        with opened(loaded, restore_from, *place, note, require_snapshot=require_snapshot) as found:
            return _compared(loaded, found, job, allow, examine, tried)

    while True:
        try:
            result = once()
        except CannotRestore:
            if not moved():
                raise
        else:
            if not any(isinstance(each, CannotRestore) for each in result.compared.refusals) or not moved():
                return result


def _compared(
    loaded: LoadedJob, found: Found | None, job: JobId, allow: bool, examine: Examine | None, tried: list[str]
) -> ComparedStart:
    nothing = Comparison(findings=(), origins={}, max_parallelism=loaded.spec.max_parallelism)
    if found is not None:
        tried.append(found.uri)
        if found.finished:
            return ComparedStart(found.uri, nothing, finished=True)
    compared = nothing if found is None else compare(loaded.spec, plan(loaded.spec), found.manifest, found.uri, allow)
    if examine is not None:
        compared = examine(loaded, found, compared, allow, job)
    return ComparedStart(None if found is None else found.uri, compared)
