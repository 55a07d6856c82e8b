"""Proves that snapshots are complete: reads every object once and compares every file in it with its SHA-256."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from streamjob.errors import InvalidInput
from streamjob.ids import Key
from streamjob.protocol.log.repair import plan_repair
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import FileRef
from streamjob.store.base import ObjectInfo, ObjectMissing, Store, StoreDenied, StoreError, StoreUnavailable
from streamjob.store.effects import drive
from streamjob.store.names import InvalidKey
from streamjob.store.opening import References
from streamjob.stored.locations import JobLocation
from streamjob.stored.reading import StoredSnapshot

_WHOLE_BELOW = 32 << 20
_PIECE = 16 << 20


@dataclass(frozen=True, slots=True)
class Verified:
    """The result: each snapshot's problems in words, and the amount that was read."""

    problems: tuple[tuple[StoredSnapshot, tuple[str, ...]], ...]
    objects: int
    size: int

    @property
    def whole(self) -> bool:
        """Whether no problem was found."""
        return not any(found for _, found in self.problems)


@dataclass(slots=True)
class _Object:
    store: Store
    key: Key
    name: str
    parts: dict[tuple[int, int, str], list[tuple[int, str]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def end(self) -> int:
        return max(offset + length for offset, length, _ in self.parts)


def verify(
    snapshots: Sequence[StoredSnapshot], threads: int = 4, progress: Callable[[int], None] = lambda _: None
) -> Verified:
    """Read all objects that snapshots refer to; shared ones are read once.

    Args:
        snapshots: the snapshots to verify; those that their job has deleted are skipped.
        threads: number of objects read at a time; each needs up to 32 MB of memory.
        progress: receives the number of bytes of each object read.

    Raises:
        StoreUnavailable, StoreDenied: the store did not answer or refused, so the result is unknown.
    """
    subjects = [each for each in snapshots if not each.gone]
    problems: dict[int, list[str]] = {number: [] for number in range(len(subjects))}
    homes = {each.home: each.home.store() for each in subjects}
    references = {home: References(store) for home, store in homes.items()}
    objects: dict[str, _Object] = {}
    try:
        for number, subject in enumerate(subjects):
            if subject.manifest is None:
                problems[number].append(subject.problem or f"{subject.uri} cannot be read")
                continue
            for file in subject.manifest.files():
                try:
                    _add(objects, references[subject.home], number, file)
                except (InvalidKey, InvalidInput) as error:
                    problems[number].append(f"{file.path}: {error.what}")
        with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
            for found in pool.map(lambda each: _check(each, progress), objects.values()):
                for number, problem in found:
                    problems[number].append(problem)
    finally:
        for opened in references.values():
            opened.close()
        for store in homes.values():
            store.close()
    return Verified(
        tuple((subject, tuple(sorted(problems[number]))) for number, subject in enumerate(subjects)),
        len(objects),
        sum(each.end for each in objects.values()),
    )


@dataclass(frozen=True, slots=True)
class VerifiedCopies:
    """Copies of log records, one sentence each: those that differ, and those that are missing, which is no damage."""

    differing: tuple[str, ...]
    missing: tuple[str, ...]


def verify_copies(location: JobLocation) -> VerifiedCopies:
    """Compare the records of a log, which must be complete, with their copies.

    Raises:
        StoreUnavailable, StoreDenied: the store did not answer or refused.
    """
    plan = drive(location.store, plan_repair(location.job))
    there = {entry.key for entry in location.store.list(keys.COPIES_PREFIX)}
    again = "`streamjob log repair --yes` writes it again"
    missing = {seq for seq in plan.copies if keys.record_copy(seq) not in there}
    return VerifiedCopies(
        tuple(
            f"{keys.record_copy(seq)} is not what {keys.log_record(seq)} is: {again}"
            for seq in sorted(plan.copies.keys() - missing)
        ),
        tuple(
            f"{keys.record_copy(seq)} is missing, so the loss of {keys.log_record(seq)} might not be noticed: {again}"
            for seq in sorted(missing)
        ),
    )


def damaged_rows(location: JobLocation, threads: int = 4) -> list[str]:
    """Return one sentence for each object of staged rows whose content has another hash than its name says.

    Raises:
        StoreUnavailable, StoreDenied: the store did not answer or refused.
    """

    def problem(entry: ObjectInfo) -> str | None:
        recorded = keys.staged_sha256(entry.key)
        if recorded is None:
            return None
        subject = _Object(location.store, entry.key, entry.key)
        subject.parts[(0, entry.size, recorded)] = []
        try:
            ((_, found),) = _hashes(subject)
        except ObjectMissing:
            # Its sink has published the rows meanwhile.
            return None
        if found == recorded:
            return None
        hashes = f"its SHA-256 is {found}, and was {recorded} when it was staged"
        return f"{entry.key}, which holds staged rows, is damaged: {hashes}"

    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        found = pool.map(problem, location.store.list(keys.STAGED_PREFIX))
        return [each for each in found if each is not None]


def _add(objects: dict[str, _Object], references: References, number: int, file: FileRef) -> None:
    store, key = references.find(file.object)
    known = objects.setdefault(store.uri + key, _Object(store, key, file.object))
    known.parts[(file.offset, file.length, file.sha256)].append((number, file.path))


def _check(subject: _Object, progress: Callable[[int], None]) -> list[tuple[int, str]]:
    try:
        hashes = dict(_hashes(subject))
    except ObjectMissing:
        return [
            (number, f"{subject.name} does not exist; it holds {_named(paths)}")
            for number, paths in _by_snapshot(subject).items()
        ]
    progress(subject.end)
    found: list[tuple[int, str]] = []
    for part, users in subject.parts.items():
        offset, length, expected = part
        actual = hashes[part]
        if actual is None:
            what = f"is not there: {subject.name} ends before byte {offset + length}"
        elif actual != expected:
            what = f"is damaged: bytes {offset} to {offset + length} of {subject.name} have SHA-256 {actual}"
        else:
            continue
        found += [(number, f"{path} {what}") for number, path in users]
    return found


def _hashes(subject: _Object) -> Iterator[tuple[tuple[int, int, str], str | None]]:
    """Yield the hash of each part as stored, or None for a part past the object's end."""
    if subject.end <= _WHOLE_BELOW:
        whole = memoryview(subject.store.get(subject.key))
        for part in subject.parts:
            offset, length, _ = part
            inside = offset + length <= len(whole)
            yield part, hashlib.sha256(whole[offset : offset + length]).hexdigest() if inside else None
        return
    for part in subject.parts:
        yield part, _streamed(subject, part[0], part[1])


def _streamed(subject: _Object, offset: int, length: int) -> str | None:
    digest = hashlib.sha256()
    for start in range(offset, offset + length, _PIECE):
        try:
            digest.update(subject.store.get_range(subject.key, start, min(_PIECE, offset + length - start)))
        except (ObjectMissing, StoreUnavailable, StoreDenied):
            raise
        except StoreError:
            return None
    return digest.hexdigest()


def _by_snapshot(subject: _Object) -> dict[int, list[str]]:
    paths: dict[int, list[str]] = defaultdict(list)
    for users in subject.parts.values():
        for number, path in users:
            paths[number].append(path)
    return paths


def _named(paths: Sequence[str]) -> str:
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
