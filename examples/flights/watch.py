"""Follows a job from outside, by the records of its log in the local snapshot store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from streamjob.snapshot.manifest import Manifest
from streamjob.snapshot.record import LogRecord, RecordKind

Position = tuple[str, ...]
"""How far each source was read, as its manifest says; empty if none was read at all."""


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
        before = read_log(root / "log")
        self._epoch_before = before[-1].epoch if before else 0
        self._restored_position: Position = ()
        self.claim: LogRecord | None = None
        self.restored: LogRecord | None = None
        self.positions: dict[int, Position] = {}
        """How far each completion of this life has read, by id; it is remembered when the log forgets the record."""

    def look(self) -> None:
        """Take in what the log has gained."""
        records = read_log(self._root / "log")
        newest = last_claim(records)
        # The log forgets a claim once enough checkpoints lie above it.
        if newest is not None and newest.epoch > self._epoch_before:
            if self.claim is None:
                self.restored = restored_from(records, newest)
                self._restored_position = self._position(self.restored) if self.restored else ()
            self.claim = newest
        if self.claim is None:
            return
        for record in completions_of(records, self.claim):
            if record.id is not None and record.id not in self.positions:
                self.positions[record.id] = self._position(record)

    @property
    def progress(self) -> list[int]:
        """The ids of the completions that have read further than the one before, or than what was restored."""
        reached, ids = self._restored_position, []
        for number, position in sorted(self.positions.items()):
            if position and position != reached:
                reached = position
                ids.append(number)
        return ids

    def _position(self, record: LogRecord) -> Position:
        """Return how far a completion's sources were read; nothing if none was, or if its manifest is gone already."""
        try:
            manifest = Manifest.model_validate_json((self._root / str(record.manifest)).read_bytes())
        except FileNotFoundError:
            return ()
        return tuple(json.dumps(source.position) for source in manifest.sources if source.position is not None)


def wait_until(condition: Callable[[], bool], deadline: float, poll: float = 0.05) -> bool:
    """Wait until a condition holds; return whether it did before `deadline`, in seconds of the monotonic clock."""
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll)
    return True
