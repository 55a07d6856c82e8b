"""Reads a job's stored snapshots from its log and their manifests."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from streamjob.errors import CannotRestore, InvalidInput
from streamjob.ids import CheckpointId, Key
from streamjob.protocol.log.records import LogView, read
from streamjob.protocol.manifests.stored_manifests import SnapshotMissing, decode_completed, is_uri, read_manifest
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.base import ObjectMissing, Store, StoreDenied
from streamjob.store.effects import drive
from streamjob.store.opening import Location, References
from streamjob.stored.locations import JobLocation, SnapshotLocation

_THREADS = 8


class NoSuchSnapshot(InvalidInput):
    """The log names no snapshot with the requested id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSnapshot:
    """A snapshot that the log names, or that was found by its manifest alone.

    `uri` is the manifest's. `problem` explains why `manifest` is None. `gone` means that the job deleted the snapshot
    when it was subsumed. Relative references start from `home`; a savepoint carries its files with it.
    """

    uri: str
    home: Location
    newest: bool = False
    gone: bool = False
    record: LogRecord | None = None
    manifest: Manifest | None = None
    problem: str | None = None

    @property
    def id(self) -> CheckpointId | None:
        """Its id, if known."""
        if self.record is not None and self.record.id is not None:
            return self.record.id
        return self.manifest.id if self.manifest is not None else None

    @property
    def label(self) -> str:
        """Its name in messages: `checkpoint 17`."""
        kind = self.record.kind.value if self.record else self.manifest.kind if self.manifest else "snapshot"
        return f"{kind} {self.id}" if self.id is not None else f"{kind} {self.uri}"


@dataclass(frozen=True, slots=True)
class JobSnapshots:
    """A job's snapshots, oldest first, and the log that names them."""

    location: JobLocation
    view: LogView
    snapshots: tuple[StoredSnapshot, ...]

    def named(self, checkpoint: CheckpointId | None) -> StoredSnapshot:
        """Return the snapshot with the given id, or the newest one.

        Raises:
            NoSuchSnapshot: the log names no such snapshot.
        """
        if checkpoint is None:
            found = next((each for each in self.snapshots if each.newest), None)
            if found is None:
                raise NoSuchSnapshot(f"job {self.view.job} has completed no snapshot at {self.location.store.uri}")
            return found
        found = next((each for each in self.snapshots if each.id == checkpoint), None)
        if found is None or found.gone:
            there = ", ".join(str(each.id) for each in self.snapshots if not each.gone)
            raise NoSuchSnapshot(
                f"the log of job {self.view.job} names no snapshot {checkpoint}"
                if found is None
                else f"job {self.view.job} has deleted its checkpoint {checkpoint}: it was subsumed",
                f"there are {there}" if there else "there is none",
            )
        return found


def read_job(location: JobLocation) -> JobSnapshots:
    """Read a job's log and the manifests that it names.

    A problem with a manifest is stored in its snapshot; a problem with the log is raised.

    Raises:
        UnknownRecordVersion, LogDamaged, ForeignLog: the log cannot be read.
        StoreUnavailable, StoreDenied: the store did not answer or refused.
    """
    view = drive(location.store, read(location.job))
    records = [record for record in view.completions if record.manifest is not None]
    stored = {entry.key for entry in location.store.list(keys.CHECKPOINTS_PREFIX)}
    references = References(location.store)
    try:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="read-manifest") as pool:
            read_all = list(pool.map(lambda record: _read(references, location.store, record, view, stored), records))
    finally:
        references.close()
    return JobSnapshots(location, view, _note_holes(read_all))


def read_snapshot(location: SnapshotLocation) -> StoredSnapshot:
    """Read one snapshot by its manifest; problems are stored in it."""
    store = location.home.store()
    try:
        manifest = drive(store, read_manifest(location.reference))
    except CannotRestore as error:
        return StoredSnapshot(uri=location.uri, home=location.home, problem=error.what)
    finally:
        store.close()
    return StoredSnapshot(uri=location.uri, home=location.home, manifest=manifest)


def _read(references: References, store: Store, record: LogRecord, view: LogView, stored: set[Key]) -> StoredSnapshot:
    assert record.manifest is not None
    is_newest = record == view.newest
    uri = record.manifest if is_uri(record.manifest) else store.uri + record.manifest
    home = Location(f"{uri.rpartition('/')[0]}/" if record.kind is RecordKind.SAVEPOINT else store.uri)
    found = StoredSnapshot(uri=uri, home=home, newest=is_newest, record=record)
    if not is_uri(record.manifest) and keys.manifest_ids(Key(record.manifest)) and record.manifest not in stored:
        return replace(found, problem=f"{record.manifest} does not exist", gone=not is_newest)
    try:
        return replace(found, manifest=_manifest_of(references, record))
    except CannotRestore as error:
        return replace(found, problem=error.what)


def _manifest_of(references: References, record: LogRecord) -> Manifest:
    assert record.manifest is not None
    store, key = references.find(record.manifest)
    try:
        return decode_completed(record, store.get(key))
    except ObjectMissing as error:
        raise SnapshotMissing(f"{record.manifest} does not exist") from error
    except StoreDenied as error:
        raise SnapshotMissing(f"{record.manifest} cannot be read: {error.what}") from error


def _note_holes(snapshots: Sequence[StoredSnapshot]) -> tuple[StoredSnapshot, ...]:
    """Tell deletion from loss: jobs delete oldest checkpoints first, so one missing above another was lost."""
    noted: list[StoredSnapshot] = []
    older = False
    for each in snapshots:
        if each.gone and older:
            each = replace(each, problem=f"{each.problem}, while an older checkpoint does", gone=False)
        noted.append(each)
        older = older or (each.manifest is not None and each.manifest.kind != "savepoint")
    return tuple(noted)
