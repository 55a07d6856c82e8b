"""Records a file sink's commits next to its files: a missing staged file is then known to be committed or lost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from streamjob.errors import CannotRestore
from streamjob.ids import CheckpointId
from streamjob_runtime.sinks.committables import read_record
from streamjob_runtime.sinks.files.file_systems import LocalPlace
from streamjob_runtime.sinks.files.newest_files import NewestFiles

_RECORDS_KEPT = 1000


class CommitRecord(BaseModel):
    """The record of a commit: the checkpoint, and the ids of its batches."""

    model_config = ConfigDict(frozen=True)

    formatVersion: Literal[1] = 1  # noqa: N815 - as it is stored
    checkpoint: CheckpointId
    batches: tuple[str, ...]


def commit_record(checkpoint: CheckpointId, batches: Sequence[str]) -> bytes:
    """Return the stored form of a record."""
    return json.dumps({"formatVersion": 1, "checkpoint": checkpoint, "batches": list(batches)}).encode()


def read_commit_record(content: bytes, name: str, place: str) -> CommitRecord:
    """Return a stored record.

    Args:
        content: the record.
        name: its name, relative to the place.
        place: the place's name in messages.

    Raises:
        UnreadableRecord: the record is damaged.
    """
    fix = "restore it from a backup; or delete it: the sink then finds out from the files themselves what is published"
    return read_record(CommitRecord, content, name=name, sink=f"sink path {place}", fix=fix)


class CommitRecords:
    """One file for each committed checkpoint, written before its first staged file moves.

    Args:
        place: the place to which the sink writes.
        directory: the directory of the records, relative to the place.
    """

    def __init__(self, place: LocalPlace, directory: str) -> None:
        self._place = place
        self._directory = directory
        # Only the newest completion is committed again. The others serve a superseded process that wakes up, and a job
        # that returns to a former location.
        self._files = NewestFiles(place, directory, _RECORDS_KEPT)

    def covers(self, checkpoint: CheckpointId, batches: Sequence[str]) -> bool:
        """Return whether a commit of these batches has begun; all of their files existed then.

        Raises:
            UnreadableRecord: the record is damaged.
        """
        name = _name(checkpoint, batches)
        content = self._files.read(name)
        return content is not None and set(batches) <= set(self._read(name, content).batches)

    def add(self, checkpoint: CheckpointId, batches: Sequence[str]) -> None:
        """Record that all files of these batches exist and are about to be committed.

        Raises:
            PlaceFull: no space is left.
        """
        self._files.write(_name(checkpoint, batches), commit_record(checkpoint, batches))

    def newest(self) -> CheckpointId | None:
        """Return the checkpoint of the newest record, by the time of its last write; None if there is none.

        Raises:
            UnreadableRecord: the record is damaged.
        """
        names = self._place.files(self._directory)
        content = self._files.read(names[-1]) if names else None
        return None if content is None else self._read(names[-1], content).checkpoint

    def problems(self) -> Iterator[CannotRestore]:
        """Yield an error for each damaged record."""
        for name in self._place.files(self._directory):
            content = self._files.read(name)
            try:
                if content is not None:
                    self._read(name, content)
            except CannotRestore as error:
                yield error

    def _read(self, name: str, content: bytes) -> CommitRecord:
        return read_commit_record(content, f"{self._directory}/{name}", self._place.label)


def _name(checkpoint: CheckpointId, batches: Sequence[str]) -> str:
    # Another location of the same job starts its checkpoint numbers at 1 again.
    return f"{checkpoint}-{batches[0]}.json"
