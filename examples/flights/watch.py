"""Follows a job from outside, by the records of its log in the local snapshot store."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

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


def wait_until(condition: Callable[[], bool], deadline: float, poll: float = 0.05) -> bool:
    """Wait until a condition holds; return whether it did before `deadline`, in seconds of the monotonic clock."""
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll)
    return True
