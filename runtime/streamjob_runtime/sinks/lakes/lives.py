"""The lives of a lake sink, and the layout of its data files: one directory below the table's data for each life.

    streamjob/<identity>/<life>/<number of the batch>/…/<file>.parquet

A life is one opening of a sink: an epoch and a random name. It numbers the batches that it stages. A checkpoint always
covers all of them up to some number, so one number per life shows which batches are committed.

A file stays in place when it becomes part of the table. So the leftovers of a life are found by listing its directory.
Once that contains committed files only, it is never listed again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from pyarrow import fs

from streamjob.ids import Epoch

_NAME = re.compile(r"(\d+)-([0-9a-f]{16})")


@dataclass(frozen=True, slots=True, order=True)
class Life:
    """One opening of a sink: its epoch, and 16 random hexadecimal digits."""

    epoch: Epoch
    distinction: str

    def __str__(self) -> str:
        return f"{self.epoch}-{self.distinction}"


def life_of(name: str) -> Life | None:
    """Return the life with a name; None if it is not such a name."""
    match = _NAME.fullmatch(name)
    return Life(Epoch(int(match[1])), match[2]) if match else None


def has_directories(system: fs.FileSystem) -> bool:
    """Return whether a file system has directories that are made and removed, unlike an object store."""
    base = system.base_fs if isinstance(system, fs.SubTreeFileSystem) else system
    return isinstance(base, fs.LocalFileSystem)


@dataclass(frozen=True, slots=True)
class Found:
    """A file: its location, and the number of its batch."""

    location: str
    number: int


class LifeDirectories:
    """The directories of one sink in one table. Raises OSError if the files' store fails.

    Args:
        system: access to the files.
        path: the sink's directory in that system.
        location: the same directory in the table's own terms; locations begin with it.
    """

    def __init__(self, system: fs.FileSystem, path: str, location: str) -> None:
        self._system = system
        self._path = path
        self._location = location

    def of_batch(self, life: Life, number: int) -> str:
        """Return the location of a batch's files."""
        return f"{self._location}/{life}/{number}"

    def try_to_write(self, life: Life) -> None:
        """Write a file and remove it, as a test."""
        directory = f"{self._path}/{life}"
        if has_directories(self._system):
            self._system.create_dir(directory, recursive=True)
        with self._system.open_output_stream(f"{directory}/probe") as stream:
            stream.write(b"")
        self._system.delete_file(f"{directory}/probe")
        self._remove_if_empty(life)

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
                found.append(Found(f"{self._location}/{life}/{number}/{'/'.join(inner)}", int(number)))
        return found

    def remove(self, life: Life, files: Iterable[Found]) -> None:
        """Remove files of a life, and directories that become empty, if the store has directories."""
        for file in files:
            self._system.delete_file(self._path + file.location.removeprefix(self._location))
        self._remove_if_empty(life)

    def _remove_if_empty(self, life: Life) -> None:
        if not has_directories(self._system):
            return
        start = f"{self._path}/{life}"
        inside = self._system.get_file_info(fs.FileSelector(start, allow_not_found=True, recursive=True))
        if all(each.type == fs.FileType.Directory for each in inside):
            self._system.delete_dir(start)
