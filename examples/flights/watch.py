"""Follows a job from outside, by the records of its log in the local snapshot store."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import LogRecord, RecordKind


def read_log(directory: Path) -> list[LogRecord]:
    """Return the records of a job's log in order; none if there is no log yet.

    Args:
        directory: `<location>/<namespace>/<name>/log`.
    """
    records = []
    for file in sorted(directory.glob("*.json")):
        try:
            records.append(LogRecord.model_validate_json(file.read_bytes()))
        except FileNotFoundError:
            continue  # pruned since it was listed
        except ValidationError as error:
            raise SystemExit(f"{file} is no record of a log: {error}") from error
    return records


def last_claim(records: list[LogRecord]) -> LogRecord | None:
    """Return the newest claim: the life of the job that goes on now, or ended last."""
    return next((record for record in reversed(records) if record.kind is RecordKind.CLAIM), None)


def restored_from(records: list[LogRecord], claim: LogRecord) -> LogRecord | None:
    """Return the completion that the owner of `claim` restores: the highest below it; None for a fresh start."""
    below = [record for record in records if record.completes and record.seq < claim.seq]
    return below[-1] if below else None


def completions_of(records: list[LogRecord], claim: LogRecord) -> list[LogRecord]:
    """Return what the owner of `claim` has completed so far."""
    return [record for record in records if record.completes and record.epoch == claim.epoch]


class Follower:
    """Follows one life of a job, from its claim on; made before the job's process is started.

    Args:
        root: the job's root, `<location>/<namespace>/<name>`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        before = last_claim(read_log(root / "log"))
        self._epoch_before = before.epoch if before else 0
        self._restored_batch = -1
        self.claim: LogRecord | None = None
        self.restored: LogRecord | None = None
        self.batches: dict[int, int] = {}
        """The last batch of each completion of this life, by id; old ones are remembered when the log forgets them."""

    def look(self) -> None:
        """Take in what the log has gained."""
        records = read_log(self._root / "log")
        newest = last_claim(records)
        if newest is None or newest.epoch <= self._epoch_before:
            return
        if self.claim is None:
            self.restored = restored_from(records, newest)
            self._restored_batch = self._batch(self.restored) if self.restored else -1
        self.claim = newest
        for record in completions_of(records, newest):
            if record.id is not None and record.id not in self.batches:
                self.batches[record.id] = self._batch(record)

    @property
    def progress(self) -> list[int]:
        """The ids of the completions that cover batches beyond what was restored, each more than the one before."""
        furthest, ids = self._restored_batch, []
        for number, batch in sorted(self.batches.items()):
            if batch > furthest:
                furthest = batch
                ids.append(number)
        return ids

    def _batch(self, record: LogRecord) -> int:
        """Return the last batch that a completion covers; -1 if it covers none, or its manifest is gone already."""
        try:
            manifest = Manifest.model_validate_json((self._root / str(record.manifest)).read_bytes())
        except FileNotFoundError:
            return -1
        return max((chain.batch for chain in manifest.chains), default=-1)


def wait_until(condition: Callable[[], bool], deadline: float, poll: float = 0.05) -> bool:
    """Wait until a condition holds; return whether it did before `deadline`, in seconds of the monotonic clock."""
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll)
    return True
