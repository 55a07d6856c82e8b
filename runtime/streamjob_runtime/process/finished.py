"""Tells who starts a job that has finished that it reads nothing more, and whether there is something to read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime

from streamjob.errors import InvalidInput
from streamjob.job.connectors.file_source import is_elsewhere
from streamjob.job.connectors.options import option
from streamjob.job.loading.load import LoadedJob
from streamjob.job.model.formats import FILE_FORMATS
from streamjob.protocol.log.records import LogView
from streamjob.protocol.manifests.stored_manifests import read_completed
from streamjob.snapshot.manifest import Manifest
from streamjob.store.base import Store
from streamjob.store.effects import drive
from streamjob_runtime.chain.sources.bounded_files import BoundedEnd
from streamjob_runtime.discovery.directory_lister import DirectoryLister
from streamjob_runtime.discovery.objects import pages
from streamjob_runtime.discovery.patterns import SourceFiles

_FIX = (
    "leave out `bounded: true`, and run it with --available-now whenever there may be something to read; the first of "
    "these runs reads everything again, so give it another --name, and its sinks other paths"
)

log = logging.getLogger("streamjob")


class FinishedBefore(InvalidInput):
    """A job was started that has finished, and there is input that it does not read."""


def tell_of_finished(loaded: LoadedJob, store: Store, view: LogView, *, asked: bool) -> None:
    """Say that a job had finished before it was started.

    Args:
        view: its log, with the final record.
        asked: whether somebody wants it to run, and not only to be there, as a controller does.

    Raises:
        FinishedBefore: somebody does, and local files are there that have come since its first start.
    """
    record = view.newest
    assert record is not None
    at = datetime.fromtimestamp(record.time, UTC)
    what = f"Job {loaded.spec.name!r} finished on {at:%Y-%m-%d at %H:%M:%S} UTC, with all input of its first start"
    new = next(_new_files(loaded, drive(store, read_completed(record))), None) if asked else None
    if new is not None:
        raise FinishedBefore(f"{what}, and does not read what has come since, such as {new}", _FIX)
    log.warning("%s, and reads nothing more. If it is to: %s", what, _FIX)


def _new_files(loaded: LoadedJob, manifest: Manifest) -> Iterator[str]:
    """Yield the local files of bounded sources that are not of those which the job has read."""
    ends = {each.uid: each.end for each in manifest.sources}
    for source in loaded.spec.sources:
        options, end = loaded.options(source), ends.get(source.uid)
        path = option(options, "path") or ""
        if source.format not in FILE_FORMATS or end is None or is_elsewhere(path):
            continue
        read, lister = BoundedEnd.from_json(end).paths, DirectoryLister(SourceFiles(path, options))
        for page in pages(lister):
            yield from (each.key for each in page.objects if each.key not in read)
