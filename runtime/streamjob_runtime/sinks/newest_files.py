"""A directory of small files, one for each checkpoint, of which the newest are kept."""

from __future__ import annotations

from streamjob_runtime.sinks.file_systems import Place


class NewestFiles:
    """Writes files below a place, and deletes the oldest beyond a number, those of former processes among them.

    Files count by the time of their last write, not by their names: another location of the same job counts its
    checkpoints from 1 again.

    Args:
        place: where the directory is.
        directory: its name, relative to the place.
        kept: the number of files that stay.
    """

    def __init__(self, place: Place, directory: str, kept: int) -> None:
        self._place = place
        self._directory = directory
        self._kept = kept
        self._names: dict[str, None] | None = None
        """The oldest first; None until the first write, which looks at what is there."""

    def read(self, name: str) -> bytes | None:
        """Return a file's content, None if there is no such file."""
        return self._place.read(f"{self._directory}/{name}")

    def write(self, name: str, content: bytes) -> None:
        """Create or replace a file, which becomes the newest, and delete those that are too many.

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
