"""Lists the directories of Hadoop's file systems, such as HDFS, by Spark's Java."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from errno import EACCES
from stat import S_IFDIR, S_IFREG
from typing import TYPE_CHECKING, Any

from streamjob.store.base import ObjectMissing, StoreUnavailable
from streamjob_runtime.spark.gateway import first_of_class, java_errors, java_of, java_session, our_java, thrown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class HadoopEntry:
    """A file or directory, as `os.DirEntry` and `os.stat_result` show one."""

    name: str
    directory: bool
    st_size: int
    modified: int

    def is_dir(self) -> bool:
        """Return whether it is a directory."""
        return self.directory

    def stat(self) -> HadoopEntry:
        """Return what is known of it."""
        return self

    @property
    def st_mode(self) -> int:
        """The kind of it."""
        return S_IFDIR if self.directory else S_IFREG

    @property
    def st_mtime_ns(self) -> int:
        """When it was written, in ns since 1970."""
        return self.modified * 1_000_000


class HadoopDirectories:
    """The file systems that a session knows."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def qualified(self, uri: str) -> str:
        """Return a URI with the scheme and authority that Hadoop and Spark give to files there."""
        return str(our_java(self._spark).Directories.qualified(java_session(self._spark), uri))

    def scan(self, uri: str) -> Sequence[HadoopEntry]:
        """Return what is in a directory.

        Raises:
            FileNotFoundError: it does not exist.
            PermissionError: the job may not list it.
            StoreUnavailable: it cannot be listed now.
        """
        return [HadoopEntry(*each) for each in self._asked("list", uri)]

    def stat(self, uri: str) -> HadoopEntry:
        """Return what is known of a file; raises as `scan` does."""
        return HadoopEntry(*self._asked("status", uri))

    def read(self, uri: str) -> bytes:
        """Return the content of a small file. Raises ObjectMissing, and StoreUnavailable if it cannot be read now."""
        path = java_of(self._spark).org.apache.hadoop.fs.Path(uri)
        try:
            stream = path.getFileSystem(java_session(self._spark).sessionState().newHadoopConf()).open(path)
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()
        except java_errors() as error:
            if first_of_class(thrown(error), "java.io.FileNotFoundException") is not None:
                raise ObjectMissing(f"{uri} does not exist") from error
            raise StoreUnavailable(f"{uri} cannot be read now: {thrown(error).getMessage()}") from error

    def _asked(self, what: str, uri: str) -> Any:
        java = our_java(self._spark).Directories
        try:
            answer = getattr(java, what)(java_session(self._spark), uri)
        except java_errors() as error:
            if first_of_class(thrown(error), "org.apache.hadoop.security.AccessControlException") is not None:
                raise PermissionError(EACCES, str(thrown(error).getMessage()), uri) from error
            raise StoreUnavailable(f"{uri} cannot be read now: {thrown(error).getMessage()}") from error
        if answer is None:
            raise FileNotFoundError(uri)
        return json.loads(answer)
