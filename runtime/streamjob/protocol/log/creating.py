"""Creates a record of the log with one conditional create, and determines the outcome for every answer of the store."""

from __future__ import annotations

from streamjob.protocol.log.records import encode_record, exists_above
from streamjob.snapshot import keys
from streamjob.snapshot.record import LogRecord
from streamjob.store.base import ObjectMissing, StoreError, StoreUnavailable
from streamjob.store.effects import Program, get, put, put_if_absent

TRIES = 5
"""How often a write with unknown outcome is checked and repeated; the store itself also retries, with pauses."""


class OutcomeUnknown(StoreError):
    """The store cannot tell whether a record was created, and it may be created late. The epoch cannot continue."""


def create(record: LogRecord) -> Program[bool]:
    """Create a record; return False if another record has its number."""
    key, content = keys.log_record(record.seq), encode_record(record)
    unknown: StoreError | None = None
    for _ in range(TRIES):
        taken = False
        try:
            if (yield from put_if_absent(key, content)):
                return True
            taken = True
        except StoreUnavailable as error:
            unknown = error
        except StoreError as error:
            if unknown is None:
                raise
            unknown = error
        try:
            stored = yield from get(key)
        except ObjectMissing:
            if taken:
                # Pruned meanwhile, by a process that holds the log.
                return False
        except StoreError as error:
            unknown = error
        else:
            return stored == content
    raise OutcomeUnknown(
        f"whether {key} of job {record.namespace}/{record.job} was created is unknown: {_reason(unknown)}",
        "nothing is lost: the next claim of the log finds out",
    ) from unknown


def copy(record: LogRecord) -> Program[None]:
    """Write the copy by which readers notice that the highest record was lost."""
    try:
        yield from put(keys.record_copy(record.seq), encode_record(record))
    except StoreError:
        # As if the writer had died here. The next record protects this one, since it contains its hash.
        return


def is_followed(record: LogRecord) -> Program[bool]:
    """Return whether the log continues above a record that was just created."""
    unknown: StoreError | None = None
    for _ in range(TRIES):
        try:
            return (yield from exists_above(record.seq))
        except StoreError as error:
            unknown = error
    raise OutcomeUnknown(
        f"whether {keys.log_record(record.seq)} of job {record.namespace}/{record.job} counts is unknown: "
        f"{_reason(unknown)}",
        "nothing is lost: the next claim of the log finds out",
    ) from unknown


def _reason(error: StoreError | None) -> str:
    return error.what if error else "the store contradicts itself"
