"""Notes which lives of a sink have nothing left to remove, so that later starts do not list their files again."""

from __future__ import annotations

from pyarrow import fs

from streamjob_runtime.sinks.lakes.lives import Life, has_directories


class Sweeps:
    """Empty files below the table, named after lives; VACUUM leaves such a directory alone. A lost one does no harm."""

    def __init__(self, files: fs.FileSystem, identity: str) -> None:
        self._files = files
        self._directory = f"_streamjob/{identity}"

    def done(self) -> frozenset[str]:
        """Return the names of the lives. Raises OSError."""
        found = self._files.get_file_info(fs.FileSelector(self._directory, allow_not_found=True))
        return frozenset(each.base_name for each in found)

    def note(self, life: Life) -> None:
        """Note a life. Raises OSError."""
        if has_directories(self._files):
            self._files.create_dir(self._directory, recursive=True)
        with self._files.open_output_stream(f"{self._directory}/{life}") as stream:
            stream.write(b"")
