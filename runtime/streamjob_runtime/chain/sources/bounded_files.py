"""The end of a bounded source of files: those that existed when the job started for the first time.

The list of them is made once, and stored in every manifest.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from streamjob.errors import CannotRestore
from streamjob.ids import BatchId
from streamjob_runtime.discovery.files_read import files_read


class BoundedFilesGone(CannotRestore):
    """Unread files of a bounded source no longer exist."""


@dataclass(frozen=True, slots=True)
class BoundedEnd:
    """The end of a bounded file source: the files to read, relative to `root`, an absolute path or URI."""

    root: str
    files: tuple[str, ...]

    def to_json(self) -> JsonValue:
        """Return the form for manifests."""
        return {"root": self.root, "files": list(self.files)}

    @staticmethod
    def from_json(value: Any) -> BoundedEnd:
        """Parse the form of `to_json`."""
        return BoundedEnd(root=value["root"], files=tuple(value["files"]))

    @property
    def paths(self) -> frozenset[str]:
        """The files' absolute paths, or URIs."""
        return frozenset(f"{self.root}/{file}" for file in self.files)

    def unread(self, checkpoint: Path, batch: BatchId | None, line: int, directory: int) -> str | None:
        """Return one thing that a query should have read but has not; see `end_of_input.End`."""
        read: Container[str] = () if batch is None else files_read(checkpoint, line, batch, directory)
        return min((each for each in self.paths if each not in read), default=None)
