"""Records a file sink's commits next to its files: a missing staged file is then known to be committed or lost."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, ValidationError

from streamjob.ids import CheckpointId
from streamjob_runtime.sinks.file_systems import Place
from streamjob_runtime.sinks.newest_files import NewestFiles

_RECORDS_KEPT = 1000


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)

    batches: tuple[str, ...]


class CommitRecords:
    """One file for each committed checkpoint, written before its first staged file moves.

    Args:
        place: the place to which the sink writes.
        directory: the directory of the records, relative to the place.
    """

    def __init__(self, place: Place, directory: str) -> None:
        # Only the newest completion is committed again. The others serve a superseded process that wakes up, and a job
        # that returns to a former location.
        self._files = NewestFiles(place, directory, _RECORDS_KEPT)

    def covers(self, checkpoint: CheckpointId, batches: Sequence[str]) -> bool:
        """Return whether a commit of these batches has begun; all of their files existed then."""
        content = self._files.read(_name(checkpoint, batches))
        if content is None:
            return False
        try:
            return set(batches) <= set(_Record.model_validate_json(content).batches)
        except ValidationError:
            return False

    def add(self, checkpoint: CheckpointId, batches: Sequence[str]) -> None:
        """Record that all files of these batches exist and are about to be committed.

        Raises:
            PlaceFull: no space is left.
        """
        content = {"formatVersion": 1, "checkpoint": checkpoint, "batches": list(batches)}
        self._files.write(_name(checkpoint, batches), json.dumps(content).encode())


def _name(checkpoint: CheckpointId, batches: Sequence[str]) -> str:
    # Another location of the same job starts its checkpoint numbers at 1 again.
    return f"{checkpoint}-{batches[0]}.json"
