"""Where a bounded file source ends: at the files that were there when the job started for the first time.

Spark's file source takes whatever lies in its directory, also what came after a restart. So the list of files is made
once, kept in every manifest, and each start reads by a pattern that matches those files and no others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue

from streamjob.errors import CannotRestore, InvalidInput
from streamjob.ids import BatchId, OperatorUid
from streamjob_runtime.spark.checkpoint_dir.files_read import files_read, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Hadoop's patterns have no reliable escape inside braces: any one character stands for a special one, and a check
# sees to it that the pattern matches nothing else.
_SPECIAL = re.compile(r"[\\{}\[\]*?,^]")


class AmbiguousFiles(InvalidInput):
    """The files of a bounded source cannot be told from others by a pattern."""


class BoundedFilesGone(CannotRestore):
    """Files of a bounded source that the job was to read are no longer there."""


@dataclass(frozen=True, slots=True)
class BoundedEnd:
    """The end of a bounded file source: the files to read, relative to `root`, an absolute path or URI."""

    root: str
    files: tuple[str, ...]

    def to_json(self) -> JsonValue:
        """Return the form that manifests keep."""
        return {"root": self.root, "files": list(self.files)}

    @staticmethod
    def from_json(value: Any) -> BoundedEnd:
        """Read back what `to_json` returned."""
        return BoundedEnd(root=value["root"], files=tuple(value["files"]))

    @property
    def paths(self) -> frozenset[str]:
        """The files' absolute paths, or URIs."""
        return frozenset(f"{self.root}/{file}" for file in self.files)

    def unread(self, checkpoint: Path, batch: BatchId | None, line: int, directory: int) -> str | None:
        """Return what a query has not read that it should have, one thing of it; see `end_of_input.End`."""
        read = frozenset() if batch is None else files_read(checkpoint, line, batch, directory)
        return min(self.paths - read, default=None)

    @property
    def pattern(self) -> str:
        """A path that matches these files, and nothing if there are none."""
        names = [_SPECIAL.sub("?", file) for file in self.files] or [".none"]
        if len(names) > 1:
            return f"{self.root}/{{{','.join(names)}}}"
        # Without a special character Spark would take it for the directory of a table.
        directory, slash, name = names[0].rpartition("/")
        first = name[0] if name[0] == "?" else f"[{name[0]}]"
        return f"{self.root}/{directory}{slash}{first}{name[1:]}"


@dataclass(frozen=True, slots=True)
class FileReader:
    """How a file source is read: its format, schema and options, without its path."""

    format: str
    schema: str | None
    options: Mapping[str, str]

    def files(self, spark: SparkSession, path: str) -> tuple[str, ...]:
        """Return the absolute paths of the files that Spark reads for `path`, sorted; none if nothing is there."""
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
    """Return the end of a bounded source that starts for the first time: the files that are there now."""
    files = reader.files(spark, path)
    if not files:
        return BoundedEnd(root=path.rstrip("/"), files=())
    directory = path.rstrip("/")
    root = directory if all(file.startswith(f"{directory}/") for file in files) else _common_root(files)
    return BoundedEnd(root=root, files=tuple(file[len(root) + 1 :] for file in files))


def check_end(
    spark: SparkSession, reader: FileReader, end: BoundedEnd, uid: OperatorUid, read: frozenset[str] = frozenset()
) -> None:
    """Check that the pattern of an end matches its files, all that are still to be read, and no others.

    Args:
        spark: the session.
        reader: how the files are read.
        end: the end.
        uid: the source, for the error.
        read: absolute paths of the files that the job has read already: they may be gone.

    Raises:
        BoundedFilesGone: files are missing.
        AmbiguousFiles: other files match, too.
    """
    expected = end.paths
    if end.root.startswith("/") and not any(_SPECIAL.search(file) for file in end.files):
        # Without special characters the pattern matches nothing else, and a local file is looked up in no time.
        found = {file for file in expected if Path(file).exists()}
    else:
        found = set(reader.files(spark, end.pattern)) if expected else set()
    if missing := sorted(expected - found - read):
        raise BoundedFilesGone(
            f"Source {uid!r}: {len(missing)} of the {len(expected)} files that it is to read are gone: {missing[0]}, …",
            "put them back, or start without state with --from none",
        )
    if others := sorted(found - expected):
        raise AmbiguousFiles(
            f"Source {uid!r}: {others[0]} came later, and only a special character tells it from a file of the job",
            r"rename the files so that they have none of \ { } [ ] * ? , ^ in their names",
        )


def _common_root(files: tuple[str, ...]) -> str:
    return os.path.commonprefix([f"{file.rpartition('/')[0]}/" for file in files]).rpartition("/")[0]  # noqa: RUF071 - URIs, too
