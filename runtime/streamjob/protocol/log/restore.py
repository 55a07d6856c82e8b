"""Decides which snapshot a job starts from, given its log and the request.

`latest` is the newest completion of the log. If it is unusable, the start fails with an error that names an intact
older one; it is never skipped silently. A start from anything but the last completion is a fork: output that the job's
sinks committed since then stays, and is committed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from streamjob.errors import CannotRestore
from streamjob.ids import CheckpointId, Key
from streamjob.protocol.log.offering import newest_intact
from streamjob.protocol.log.ownership import Claim
from streamjob.protocol.log.records import JOBS_OWN, LogView
from streamjob.protocol.log.registry import Registry
from streamjob.protocol.manifests.stored_manifests import (
    MANIFEST_NAME,
    find_problems,
    list_shared_sizes,
    read_completed,
    read_manifest,
)
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import LogRecord
from streamjob.store.effects import Program

LATEST = "latest"
NONE = "none"


class ClaimMode(StrEnum):
    """The owner of the snapshot that a job starts from."""

    CLAIM = "claim"
    """The job: a snapshot that its own log does not name is marked, and its former owner spares it (`claiming`)."""
    NO_CLAIM = "no-claim"
    """The previous owner: the job refers to none of its files, and its first checkpoint is full."""


class NoSnapshot(CannotRestore):
    """A snapshot is required, and the log names none."""


class NotCompleted(CannotRestore):
    """The log does not name the requested checkpoint, so it does not exist."""


class LatestUnusable(CannotRestore):
    """The log's newest completion cannot be restored; the user decides whether to use an older one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The starting point of a job.

    `manifest` is None for a fresh start. `record` is its record in the job's own log, if any. `reusable` means that the
    first checkpoint may refer to its files. `last_id` is the minimum for new checkpoint ids, exclusive; it includes the
    snapshot's own id, since sinks remember ids.
    """

    manifest: Manifest | None
    reference: str | None
    record: LogRecord | None
    fork: bool
    mode: ClaimMode
    reusable: bool
    last_id: CheckpointId

    @property
    def to_be_claimed(self) -> bool:
        """Whether the snapshot belongs to another job, and must be claimed before it is used."""
        return self.manifest is not None and self.record is None and self.mode is ClaimMode.CLAIM

    def registry(self, claim: Claim) -> Registry:
        """Return the registry for the claimed epoch that starts from here."""
        registry = Registry(claim.epoch)
        if self.manifest is not None and self.record is not None and self.record.kind in JOBS_OWN:
            registry.adopt(self.manifest, reusable=self.reusable)
        return registry


def resolve(
    view: LogView,
    wanted: str = LATEST,
    *,
    root: str,
    mode: ClaimMode = ClaimMode.CLAIM,
    require_snapshot: bool = False,
) -> Program[Resolution]:
    """Decide the starting point of a job.

    Args:
        view: the log below the job's claim.
        wanted: `latest`, `none`, or a snapshot: its manifest or directory, as key or absolute URI.
        root: the absolute URI of the job's root.
        require_snapshot: refuse to start fresh.

    Raises:
        LatestUnusable: the newest completion cannot be restored from.
        NoSnapshot: a snapshot is required, and there is none.
        NotCompleted: the snapshot would be a checkpoint of this job, but its log does not name it.
        SnapshotMissing, SnapshotCorrupt, UnknownManifestVersion: a requested snapshot of another job is unusable.
    """
    if wanted == NONE or (wanted == LATEST and view.newest is None):
        if require_snapshot:
            raise NoSnapshot(
                f"a snapshot is required, and job {view.job} is to start "
                + ("from none" if wanted == NONE else f"from the latest at {root}, where none was completed"),
                "name a snapshot to start from, or do not require one",
            )
        return Resolution(
            manifest=None,
            reference=None,
            record=None,
            fork=view.newest is not None,
            mode=mode,
            reusable=False,
            last_id=view.last_id,
        )
    record = view.newest if wanted == LATEST else view.completion_of(normalise(wanted, root))
    reference = record.manifest if record is not None and record.manifest is not None else normalise(wanted, root)
    if record is None and keys.manifest_ids(Key(reference)) is not None:
        raise NotCompleted(
            f"the log of job {view.job} does not name {reference}: it was never completed, or is no longer retained",
            _what_is_there(view),
        )
    newest = record is not None and record == view.newest
    if newest and record is not None:
        yield from _check_usable(view, record)
    manifest = yield from (read_manifest(reference) if record is None else read_completed(record))
    return Resolution(
        manifest=manifest,
        reference=reference,
        record=record,
        fork=view.newest is not None and not newest,
        mode=mode,
        reusable=newest and record is not None and record.kind in JOBS_OWN and mode is ClaimMode.CLAIM,
        last_id=max(view.last_id, manifest.id),
    )


def normalise(wanted: str, root: str) -> str:
    """Return the log's name for a snapshot: its manifest, as a key if it lies below the job's root."""
    reference = wanted.removeprefix(root)
    if reference.rsplit("/", 1)[-1] != MANIFEST_NAME:
        reference = f"{reference.rstrip('/')}/{MANIFEST_NAME}"
    return reference


def unusable(view: LogView, record: LogRecord, problems: Sequence[str]) -> Program[LatestUnusable]:
    """Return the error for an unusable newest completion: its problems, and the newest intact older one.

    Reads the files of older completions to check them.

    Args:
        problems: the problems, one sentence each, including those found only by reading the files.
    """
    older = yield from newest_intact(view, below=record)
    found = "; ".join(problems[:3]) + (f"; and {len(problems) - 3} more" if len(problems) > 3 else "")
    return LatestUnusable(
        f"{record.kind} {record.id} of job {view.job} ({record.manifest}), its last completion, is unusable: {found}",
        "run `streamjob snapshots verify` first, which reads everything again: a store or a proxy may have given a "
        "wrong answer. If it agrees, "
        + (
            "no older completion is whole: restore the objects from a backup, or start with --from none"
            if older is None
            else f"{older.kind} {older.id} is whole: start with --from {older.manifest}, which makes a fork"
        ),
    )


def _check_usable(view: LogView, record: LogRecord) -> Program[None]:
    stored = yield from list_shared_sizes()
    problems = yield from find_problems(record, stored)
    if problems:
        raise (yield from unusable(view, record, problems))


def _what_is_there(view: LogView) -> str:
    names = ", ".join(str(record.manifest) for record in reversed(view.completions))
    there = f"the log names {names}; `streamjob snapshots verify` shows which of them are intact"
    return there if names else "nothing was completed at this place yet"
