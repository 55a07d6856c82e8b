"""The layout of a sink's data files: below the table's data, one directory for each life of the sink.

    <data>/streamjob/<identity>/<life>/<number of the batch>/<partition>/<file>.parquet

A file stays in place when it becomes part of the table. So the leftovers of a life are found by listing its directory.
Once that contains committed files only, it is never listed again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, cast

from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.metadata import TableMetadata

from streamjob_runtime.sinks.iceberg.committed_batches import Life, life_of
from streamjob_runtime.sinks.staged_hashes import sha256_of

if TYPE_CHECKING:
    from io import FileIO


def data_path(metadata: TableMetadata) -> str:
    """Return the location of a table's data."""
    own = metadata.properties.get("write.data.path")
    return own.rstrip("/") if own else f"{metadata.location.rstrip('/')}/data"


@dataclass(frozen=True, slots=True)
class Found:
    """A file: its location, and the number of its batch."""

    location: str
    number: int


class Directories:
    """The directories of one sink in one table. Raises OSError if the files' store fails.

    Args:
        files: access to the files.
        data: the location of the table's data.
        identity: the sink's identity.
    """

    def __init__(self, files: PyArrowFileIO, data: str, identity: str) -> None:
        self._files = files
        self._root = f"{data}/streamjob/{identity}"
        scheme, host, self._path = PyArrowFileIO.parse_location(self._root, files.properties)
        self._system: fs.FileSystem = files.fs_by_scheme(scheme, host)

    def of_batch(self, life: Life, number: int) -> str:
        """Return the location of a batch's files."""
        return f"{self._root}/{life}/{number}"

    def try_to_write(self, life: Life) -> None:
        """Write a file and remove it, as a test."""
        location = f"{self._root}/{life}/probe"
        with self._files.new_output(location).create(overwrite=True) as stream:
            stream.write(b"")
        self._files.delete(location)
        self._remove_if_empty(str(life))

    def lives(self) -> list[Life]:
        """Return the lives that have files."""
        below = self._system.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        found = [life_of(each.base_name) for each in below if each.type == fs.FileType.Directory]
        return sorted(life for life in found if life is not None)

    def files_of(self, life: Life) -> list[Found]:
        """Return a life's files."""
        start = f"{self._path}/{life}"
        below = self._system.get_file_info(fs.FileSelector(start, allow_not_found=True, recursive=True))
        found = []
        for each in below:
            number, *inner = PurePosixPath(each.path).relative_to(start).parts
            if each.type == fs.FileType.File and inner and number.isdigit():
                found.append(Found(f"{self._root}/{life}/{number}/{'/'.join(inner)}", int(number)))
        return found

    def exists(self, location: str) -> bool:
        """Return whether there is a file."""
        return self._files.new_input(location).exists()

    def sha256(self, location: str) -> str | None:
        """Return the SHA-256 of a file; None if there is none."""
        try:
            with self._files.new_input(location).open() as stream:
                return sha256_of(cast("FileIO", stream))
        except FileNotFoundError:
            return None

    def remove(self, life: Life, files: Iterable[Found]) -> None:
        """Remove files of a life, and directories that become empty, if the store has directories."""
        for file in files:
            self._files.delete(file.location)
        self._remove_if_empty(str(life))

    def _remove_if_empty(self, below: str) -> None:
        if not isinstance(self._system, fs.LocalFileSystem):
            return
        start = f"{self._path}/{below}"
        inside = self._system.get_file_info(fs.FileSelector(start, allow_not_found=True, recursive=True))
        if all(each.type == fs.FileType.Directory for each in inside):
            self._system.delete_dir(start)
