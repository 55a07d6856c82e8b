"""Forms all storage keys, relative to a job's root `<location>/<namespace>/<name>/`. No other module does."""

from __future__ import annotations

import re

from streamjob.ids import CheckpointId, Epoch, Key, LogSeq, OperatorUid

LOG_PREFIX = Key("log/")
COPIES_PREFIX = Key("log-copies/")
"""Not below the log's prefix, whose listing must contain records only."""
CHECKPOINTS_PREFIX = Key("checkpoints/")
SHARED_PREFIX = Key("shared/")
SAVEPOINTS_PREFIX = Key("savepoints/")
"""The prefix of savepoints for which no other location was given."""
STAGED_PREFIX = Key("staged/")

_LOG = re.compile(r"log/(\d{20})\.json")
_COPY = re.compile(r"log-copies/(\d{20})\.json")
_MANIFEST = re.compile(r"checkpoints/(\d+)-(\d+)/manifest\.json")
_MARKER = re.compile(r"(checkpoints/\d+-\d+)/claimed\.json")
_SHARED = re.compile(r"shared/([0-9a-f]{2})/(\d+)-([0-9a-f]{64})(?:-(\d+))?")
_STAGED = re.compile(r"staged/([^/]+)/(\d+)/([^/]+)")
_HASHED = re.compile(r"[0-9a-f]+([0-9a-f]{64})")


def job_prefix(namespace: str, name: str) -> str:
    """Return the prefix of a job's root below the location, with a slash at its end."""
    return f"{namespace}/{name}/"


def job_root(location: str, namespace: str, name: str) -> str:
    """Return the URI of a job's root below the URI of a location, with a slash at its end."""
    return f"{location.rstrip('/')}/{job_prefix(namespace, name)}"


def log_record(seq: LogSeq) -> Key:
    """Return the key of a log record; keys sort like their numbers."""
    return Key(f"{LOG_PREFIX}{seq:020d}.json")


def log_seq(key: Key) -> LogSeq | None:
    """Return the number of the log record at `key`, or None for any other object."""
    match = _LOG.fullmatch(key)
    return LogSeq(int(match[1])) if match else None


def record_copy(seq: LogSeq) -> Key:
    """Return the key of the copy of a log record."""
    return Key(f"{COPIES_PREFIX}{seq:020d}.json")


def copied_seq(key: Key) -> LogSeq | None:
    """Return the number of the log record whose copy is at `key`, or None for any other object."""
    match = _COPY.fullmatch(key)
    return LogSeq(int(match[1])) if match else None


def manifest(epoch: Epoch, checkpoint: CheckpointId) -> Key:
    """Return the key of a checkpoint's manifest."""
    return Key(f"{CHECKPOINTS_PREFIX}{epoch}-{checkpoint}/manifest.json")


def manifest_ids(key: Key) -> tuple[Epoch, CheckpointId] | None:
    """Return the epoch and id of the manifest at `key`, or None for any other object."""
    match = _MANIFEST.fullmatch(key)
    return (Epoch(int(match[1])), CheckpointId(int(match[2]))) if match else None


def claim_marker(manifest: str) -> str:
    """Return the key or URI of the marker that names a snapshot's owner; it lies next to the manifest."""
    directory, slash, _ = manifest.rpartition("/")
    return f"{directory}{slash}claimed.json"


def marked_manifest(key: Key) -> Key | None:
    """Return the manifest of the checkpoint whose marker is at `key`, or None for any other object."""
    match = _MARKER.fullmatch(key)
    return Key(f"{match[1]}/manifest.json") if match else None


def shared_file(epoch: Epoch, sha256: str, generation: int = 0) -> Key:
    """Return the key of a shared file.

    Args:
        epoch: the epoch that uploads the file.
        sha256: the hash of its content, 64 hex digits.
        generation: above 0 if an earlier key for the same content was already given up for deletion: a late deletion of
            that object must not hit this one.
    """
    suffix = f"-{generation}" if generation else ""
    return Key(f"{SHARED_PREFIX}{sha256[:2]}/{epoch}-{sha256}{suffix}")


def shared_epoch(key: Key) -> Epoch | None:
    """Return the epoch that uploaded the shared file at `key`, or None for any other object."""
    match = _SHARED.fullmatch(key)
    return Epoch(int(match[2])) if match else None


def savepoint_prefix(job: str, checkpoint: CheckpointId, suffix: str) -> str:
    """Return a savepoint's directory below the savepoint location, with a slash at its end.

    Args:
        job: the job's name.
        checkpoint: the savepoint's id.
        suffix: random, so that another attempt or another job of the same name never uses this directory.
    """
    return f"{job}-{checkpoint}-{suffix}/"


def savepoint_file(sha256: str) -> Key:
    """Return the key of a savepoint's file, relative to the savepoint's own directory."""
    return Key(f"files/{sha256}")


def staged_prefix(sink: OperatorUid) -> Key:
    """Return the prefix of the objects that a sink stages, with a slash at its end."""
    return Key(f"{STAGED_PREFIX}{sink}/")


def staged_object(sink: OperatorUid, epoch: Epoch, name: str) -> Key:
    """Return the key of an object that a sink stages in an epoch; the name is a single path segment."""
    return Key(f"{staged_prefix(sink)}{epoch}/{name}")


def staged_ids(key: Key) -> tuple[Epoch, str] | None:
    """Return the epoch that staged the object at `key` and its name there, or None for any other object."""
    match = _STAGED.fullmatch(key)
    return (Epoch(int(match[2])), match[3]) if match else None


def staged_sha256(key: Key) -> str | None:
    """Return the SHA-256 of a staged object, with which its name ends; None if an older version staged it."""
    ids = staged_ids(key)
    match = None if ids is None else _HASHED.fullmatch(ids[1])
    return match[1] if match else None
