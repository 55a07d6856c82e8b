"""The end of a bounded file source: the files that existed when the job started for the first time.

Spark's file source reads everything in its directory, including files that arrive after a restart. So the list of files
is made once and stored in every manifest, and each start reads by a pattern that matches exactly those files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from streamjob.errors import CannotRestore, InvalidInput
from streamjob.ids import BatchId, OperatorUid
from streamjob_runtime.discovery.files_read import files_read
from streamjob_runtime.spark.checkpoint_dir.files_read import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Hadoop's patterns have no reliable escape inside braces. So a wildcard for one character replaces each special one,
# and a check ensures that the pattern matches nothing else.
_SPECIAL = re.compile(r"[\\{}\[\]*?,^]")


class AmbiguousFiles(InvalidInput):
    """No pattern distinguishes the files of a bounded source from others."""


class BoundedFilesGone(CannotRestore):
    """Unread files of a bounded source no longer exist."""

    @classmethod
    def of(cls, uid: OperatorUid, number: int, missing: Sequence[str]) -> BoundedFilesGone:
        """Return the error for a source.

        Args:
            number: how many files it is to read.
            missing: those that are gone, the first one first.
        """
        return cls(
            f"Source {uid!r}: {len(missing)} of the {number} files that it is to read are gone: {missing[0]}, …",
            "put them back, or start without state with --from none",
        )


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

    @property
    def pattern(self) -> str:
        """A path pattern that matches these files, or nothing if there are none."""
        names = [_SPECIAL.sub("?", file) for file in self.files] or [".none"]
        if len(names) > 1:
            return f"{self.root}/{{{','.join(names)}}}"
        # Without a special character, Spark would take it for the directory of a table.
        directory, slash, name = names[0].rpartition("/")
        first = name[0] if name[0] == "?" else f"[{name[0]}]"
        return f"{self.root}/{directory}{slash}{first}{name[1:]}"


@dataclass(frozen=True, slots=True)
class FileReader:
    """A file source's reader: its format, schema and options, without its path."""

    format: str
    schema: str | None
    options: Mapping[str, str]

    def files(self, spark: SparkSession, path: str) -> tuple[str, ...]:
        """Return the absolute paths of the files that Spark reads for `path`, sorted; empty if there are none."""
        from pyspark.errors import AnalysisException

        reader = spark.read.format(self.format).options(**self.options)
        try:
            frame = (reader.schema(self.schema) if self.schema else reader).load(path)
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return ()
            raise
        return tuple(sorted(local_path(uri) for uri in frame.inputFiles()))


def fix_end(spark: SparkSession, reader: FileReader, path: str) -> BoundedEnd:
    """Return the end of a bounded source that starts for the first time: the existing files."""
    files = reader.files(spark, path)
    if not files:
        return BoundedEnd(root=path.rstrip("/"), files=())
    directory = path.rstrip("/")
    root = directory if all(file.startswith(f"{directory}/") for file in files) else _common_root(files)
    return BoundedEnd(root=root, files=tuple(file[len(root) + 1 :] for file in files))


def check_end(
    spark: SparkSession, reader: FileReader, end: BoundedEnd, uid: OperatorUid, read: Container[str] = frozenset()
) -> None:
    """Check that an end's pattern matches all its unread files, and no others.

    Args:
        uid: the source, for the error.
        read: absolute paths of files that the job has read; they may be gone.

    Raises:
        BoundedFilesGone: files are missing.
        AmbiguousFiles: the pattern matches other files, too.
    """
    expected = end.paths
    if end.root.startswith("/") and not any(_SPECIAL.search(file) for file in end.files):
        # Without special characters the pattern matches nothing else, and checking a local file is fast.
        found = {file for file in expected if Path(file).exists()}
    else:
        found = set(reader.files(spark, end.pattern)) if expected else set()
    if missing := sorted(each for each in expected - found if each not in read):
        raise BoundedFilesGone.of(uid, len(expected), missing)
    if others := sorted(found - expected):
        raise AmbiguousFiles(
            f"Source {uid!r}: {others[0]} came later, and only a special character tells it from a file of the job",
            r"rename the files so that they have none of \ { } [ ] * ? , ^ in their names",
        )


def _common_root(files: tuple[str, ...]) -> str:
    return os.path.commonprefix([f"{file.rpartition('/')[0]}/" for file in files]).rpartition("/")[0]  # noqa: RUF071 - URIs, too
