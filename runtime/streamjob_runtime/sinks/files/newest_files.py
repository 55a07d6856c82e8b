"""A directory with one small file per checkpoint, which keeps only the newest ones."""

from __future__ import annotations

from streamjob_runtime.sinks.files.file_systems import LocalPlace


class NewestFiles:
    """Writes files below a place, and deletes the oldest ones beyond a limit, including those of former processes.

    Age is the time of the last write, not the name: another location of the same job starts its checkpoint numbers at 1
    again.

    Args:
        place: the place with the directory.
        directory: its name, relative to the place.
        kept: number of files to keep.
    """

    def __init__(self, place: LocalPlace, directory: str, kept: int) -> None:
        self._place = place
        self._directory = directory
        self._kept = kept
        self._names: dict[str, None] | None = None
        """Oldest first; None until the first write, which lists the existing ones."""

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None if it does not exist."""
        return self._place.read(f"{self._directory}/{name}")

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a file, which becomes the newest, and delete those beyond the limit.

        Raises:
            PlaceFull: no space is left.
        """
        if self._names is None:
            self._names = dict.fromkeys(self._place.files(self._directory))
        self._place.write(f"{self._directory}/{name}", content)
        self._names.pop(name, None)
        self._names[name] = None
        while len(self._names) > self._kept:
            oldest = next(iter(self._names))
            self._place.remove(f"{self._directory}/{oldest}")
            del self._names[oldest]
