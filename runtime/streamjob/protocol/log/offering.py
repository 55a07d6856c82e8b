"""Finds an older completion to offer if the newest is unusable: reads and hashes its every byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from streamjob.protocol.log.records import LogView
from streamjob.protocol.manifests.stored_manifests import find_problems, is_uri, list_shared_sizes, read_completed
from streamjob.snapshot.record import LogRecord, RecordKind
from streamjob.store.effects import Hash, Program
from streamjob.store.hashing import Part

_BATCH_BYTES = 1 << 30
_BATCH_PARTS = 1000


def newest_intact(view: LogView, *, below: LogRecord) -> Program[LogRecord | None]:
    """Return the newest older completion whose manifest and files are intact, or None.

    Reads the files of one completion after the other; shared files are read once.
    """
    stored = yield from list_shared_sizes()
    known: dict[Part, str | None] = {}
    for record in reversed(view.completions):
        if record.seq < below.seq and record.manifest is not None:
            problems = yield from find_problems(record, stored)
            if not problems and (yield from is_intact(record, known)):
                return record
    return None


def is_intact(record: LogRecord, known: dict[Part, str | None]) -> Program[bool]:
    """Return whether every file of a completion is intact; its manifest exists.

    Args:
        known: known hashes of parts; new ones are added.
    """
    assert record.manifest is not None
    manifest = yield from read_completed(record)
    # A savepoint carries its files with it.
    home = f"{record.manifest.rpartition('/')[0]}/" if record.kind is RecordKind.SAVEPOINT else ""
    expected: dict[Part, str] = {}
    for file in manifest.files():
        part = Part(file.object if is_uri(file.object) else home + file.object, file.offset, file.length)
        if expected.setdefault(part, file.sha256) != file.sha256:
            return False
    if not _agree(expected, known):
        return False
    due = [part for part in expected if part not in known]
    done, total = 0, sum(part.length for part in due)
    for batch in _batches(due):
        note = f"Verifying {record.kind} {record.id}, to offer it: {_megabytes(done)} of {_megabytes(total)} MB"
        hashes = yield Hash(tuple(batch), note)
        assert isinstance(hashes, list)
        known.update(zip(batch, hashes, strict=True))
        done += sum(part.length for part in batch)
        if not _agree(expected, known):
            return False
    return True


def _agree(expected: Mapping[Part, str], known: Mapping[Part, str | None]) -> bool:
    return all(known[part] == sha256 for part, sha256 in expected.items() if part in known)


def _batches(parts: Sequence[Part]) -> Iterator[list[Part]]:
    batch: list[Part] = []
    size = 0
    for part in parts:
        if batch and (size + part.length > _BATCH_BYTES or len(batch) == _BATCH_PARTS):
            yield batch
            batch, size = [], 0
        batch.append(part)
        size += part.length
    if batch:
        yield batch


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"
