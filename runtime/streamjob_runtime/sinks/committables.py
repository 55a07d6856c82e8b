"""Parses what sinks have stored: committables in snapshots, and their records at the places where they commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from streamjob.journal import JournalRecord
from streamjob_runtime.sinks.errors import UnreadableCommittable, UnreadableRecord

_Model = TypeVar("_Model", bound=BaseModel)
_Batch = TypeVar("_Batch")


def read_committable(model: type[_Model], committable: JsonValue, sink: str) -> _Model:
    """Return a committable of a snapshot.

    Raises:
        UnreadableCommittable: it has an unknown form.
    """
    try:
        return model.model_validate(committable)
    except ValidationError as error:
        raise UnreadableCommittable(
            f"{sink}: a committable of the snapshot cannot be read: {_problem(error)}",
            "start from a snapshot that this version or an older one wrote for this sink",
        ) from error


def that_count(batches: Sequence[_Batch], mode: str) -> Sequence[_Batch]:
    """Return those batches of a checkpoint whose rows become part of a table: in mode `replace`, the last one."""
    return batches[-1:] if mode == "replace" else batches


def read_record(model: type[_Model], content: bytes | str, *, name: str, sink: str, fix: str) -> _Model:
    """Return a record that a sink keeps where it commits.

    Args:
        fix: what the reader can do if the record is damaged.

    Raises:
        UnreadableRecord: it is cut, altered, or of an unknown form.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise UnreadableRecord(f"{sink}: {name} cannot be read: {_problem(error)}", fix) from error


def _problem(error: ValidationError) -> str:
    """Return the first problem in one line."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(each) for each in first["loc"])
    more = f", and {error.error_count() - 1} more" if error.error_count() > 1 else ""
    return f"{where}: {first['msg']}{more}" if where else f"{first['msg']}{more}"


def read_journal_record(text: str, sink: str) -> JournalRecord:
    """Parse a record of the journal. Raises UnreadableRecord: it is damaged, or has an unknown form."""
    return read_record(
        JournalRecord,
        text,
        name="a record of its journal",
        sink=sink,
        fix="run the version that wrote it, or a later one; or start with --from and the newest checkpoint, which "
        "publishes again what was published since",
    )
