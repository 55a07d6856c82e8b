"""Access to a table's log by deltalake, and to its files by pyarrow, with the same storage options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, DeltaProtocolError, SchemaMismatchError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from streamjob.errors import StreamJobError
from streamjob.job.connectors.delta import storage_options
from streamjob.job.connectors.options import option, redacted, secrets_in
from streamjob_runtime.sinks.errors import UnusableTable

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SHOWN = 300


class DeltaUnreachable(StreamJobError):
    """The table's files cannot be read or written; the job continues from its checkpoint once they can."""


class _Output:
    """A file that deltalake writes; it takes bytes, and pyarrow hands it buffers."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, content: pa.Buffer | bytes) -> int:
        return int(self._inner.write(bytes(content)))


class _Handler(DeltaStorageHandler):
    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
        return pa.PythonFile(_Output(self._handler.open_output_stream(path, metadata)), mode="w")


@dataclass(frozen=True, slots=True)
class TableFiles:
    """Opens a table's directory as a file system, in any process.

    Args:
        uri: the table's location.
        storage: deltalake's storage options.
    """

    uri: str
    storage: tuple[tuple[str, str], ...]

    def __call__(self) -> fs.FileSystem:
        """Return the file system; its root is the table's directory."""
        parts = urlsplit(self.uri)
        if parts.scheme == "file":
            return fs.SubTreeFileSystem(unquote(parts.path), fs.LocalFileSystem())
        return fs.PyFileSystem(_Handler(self.uri, dict(self.storage)))


class Storage:
    """A table's location."""

    def __init__(self, label: str, options: Mapping[str, str]) -> None:
        self._label = label
        self._secrets = secrets_in(options)
        self._path = option(options, "path") or ""
        self._storage = storage_options(options)

    def find(self) -> DeltaTable | None:
        """Return the table as it is now; None if there is none. Raises DeltaUnreachable, UnusableTable."""
        with self.explaining("cannot be read"):
            try:
                return DeltaTable(self._path, storage_options=self._storage)
            except TableNotFoundError:
                return None

    def create(self, schema: Schema, partition_by: Sequence[str]) -> DeltaTable:
        """Create the table, unless another process has. Raises DeltaUnreachable, UnusableTable."""
        with self.explaining("cannot be made"):
            return DeltaTable.create(
                self._path,
                schema,
                mode="ignore",
                partition_by=list(partition_by) or None,
                storage_options=self._storage,
            )

    def files_of(self, table: DeltaTable) -> TableFiles:
        """Return access to a table's files."""
        return TableFiles(table.table_uri, tuple(sorted(self._storage.items())))

    @contextmanager
    def explaining(self, what: str) -> Iterator[None]:
        """Translate errors of deltalake and the files' store into the sink's, without secrets."""
        try:
            yield
        except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
            raise self.explained(error, what) from None

    def explained(self, error: Exception, what: str) -> StreamJobError:
        """Return the sink's error for another one.

        Args:
            error: the other error.
            what: the failed operation, as in "cannot be read".
        """
        text = redacted(" ".join(_COLOURS.sub("", str(error)).split()), self._secrets)
        message = f"{self._label}: the table {what}: {type(error).__name__}: {text[:_SHOWN]}"
        if isinstance(error, DeltaProtocolError | SchemaMismatchError):
            return UnusableTable(message, "name a table that deltalake can write and that fits")
        return DeltaUnreachable(message, "see that path and storage.… are right, and the files can be reached")
