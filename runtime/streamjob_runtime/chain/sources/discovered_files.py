"""The files of a source in a bucket, which our own stream reads: what it has, and what its query is offered."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.clock import Clock
from streamjob.errors import InvalidInput, StreamJobError
from streamjob.job.connectors.bucket_source import BucketSourceFields, fields_of, in_bucket
from streamjob.job.connectors.option_model import option_names
from streamjob.job.connectors.options import option, without
from streamjob.job.model.formats import FILE_FORMATS
from streamjob.job.model.spec import SourceSpec
from streamjob.store.base import StoreError
from streamjob_runtime.chain.sources.bounded_files import BoundedEnd, BoundedFilesGone
from streamjob_runtime.discovery.files_read import position_of
from streamjob_runtime.discovery.objects import Found, Lister, Refused
from streamjob_runtime.discovery.patterns import SourceFiles
from streamjob_runtime.discovery.rereading import changed_since
from streamjob_runtime.spark.connectors.buckets import NothingInBucket
from streamjob_runtime.spark.gateway import frame_of, java_schema, java_session, our_java
from streamjob_runtime.spark.text.error_positions import error_text, position_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streamjob.store.s3_connection import S3Connection
    from streamjob_runtime.discovery.discoverer import Discoverer

_OWN = ("path", "recursiveFileLookup", "pathGlobFilter", "modifiedBefore", "modifiedAfter", "basePath")
"""Options about which files there are, which Spark does not see."""
_KIND = "object-refused"
_SPARKS_LOG = "_spark_metadata"


class WrittenBySpark(InvalidInput):
    """The directory of a source has a log that says which of its files count; nothing was started."""


class ObjectReplaced(StreamJobError):
    """An object was replaced while a batch read it; the next attempt reads the new one."""


class DiscoveredFiles:
    """The files of a source in a bucket.

    Args:
        source: the source.
        options: its options, resolved.
    """

    def __init__(self, source: SourceSpec, options: Mapping[str, str]) -> None:
        self._source = source
        self._who = f"Source {source.name!r}"
        self._given: BucketSourceFields = fields_of(options)
        self._path = option(options, "path") or ""
        self._place = SourceFiles(self._path, options)
        self.base = f"s3a://{self._place.bucket}/"
        self._sample: tuple[Found, ...] | None = None
        self._whole: list[Found] | None = None
        self._java: Any = None
        self._connection: S3Connection | None = None

    @classmethod
    def of(cls, source: SourceSpec, options: Mapping[str, str]) -> DiscoveredFiles | None:
        """Return the files of a source in a bucket; None for any other source."""
        if source.format not in FILE_FORMATS or not in_bucket(option(options, "path") or ""):
            return None
        return cls(source, options)

    def stream(
        self, spark: SparkSession, form: str, options: Mapping[str, str], schema: StructType | None, surplus: Any = None
    ) -> DataFrame:
        """Return the rows of the files.

        Args:
            form: Spark's name of the format.
            options: of the source, resolved.
            schema: the columns of the files and directories; None where the format has its own.
            surplus: Spark's accumulator for the number of records beyond the rows that Spark counts.

        Raises:
            BucketMissing, CredentialsRejected, CredentialsExpired, AccessDenied: S3 refuses.
            StoreUnavailable: S3 does not answer.
            PySparkException: Spark refuses the schema, the options or the directories.
        """
        self._check_log()
        sample = "\n".join(self.line(each) for each in self._first_page())
        if surplus is None:
            surplus = java_session(spark).sparkContext().longAccumulator()
        self._java = our_java(spark).DiscoveredFiles(
            java_session(spark),
            form,
            None if schema is None else java_schema(spark, schema),
            without(options, *_OWN, *option_names(BucketSourceFields)),
            self.base + self._place.prefix,
            sample,
            surplus,
            None,
        )
        return frame_of(spark, self._java.stream())

    def end(self) -> BoundedEnd:
        """Return the end of a bounded source that starts for the first time: the objects that exist.

        Raises:
            NothingInBucket: no object is there.
        """
        self._whole = self._all()
        if not self._whole:
            raise NothingInBucket.at(self._who, self._path)
        return BoundedEnd(
            self.base.rstrip("/"), tuple(sorted(each.key.removeprefix(self.base) for each in self._whole))
        )

    def check_end(self, end: BoundedEnd, read: Container[str]) -> None:
        """Let a bounded source that goes on read its unread objects.

        Args:
            read: has the URIs of those that the job has read; they may be gone.

        Raises:
            BoundedFilesGone: objects that it is to read are gone.
        """
        wanted = end.paths
        self._whole = [each for each in self._whole or self._all() if each.key in wanted]
        missing = wanted - {each.key for each in self._whole}
        if gone := sorted(each for each in missing if each not in read):
            raise BoundedFilesGone.of(self._source.uid, len(wanted), gone)

    def offer_sample(self) -> None:
        """Offer some files to the query that reads them next, for a look at them."""
        self._java.inbox(0).offer("\n".join(self.line(each) for each in self._first_page()))

    def discoverer(self, folder: Path, clock: Clock) -> Discoverer:
        """Return what finds the files for a query.

        Args:
            folder: the source's folder below `sources/` of the query's checkpoint.
            clock: seconds since 1970.
        """
        # It loads numpy, which a job without such a source does without; boto3 below likewise.
        from streamjob_runtime.discovery.discoverer import Discoverer

        return Discoverer(
            who=self._who,
            lister=self._lister(),
            inbox=self._java.inbox(int(folder.name)),
            judge=self,
            given=self._given,
            folder=folder,
            clock=clock,
            whole=self._whole,
        )

    def check_read(self, folder: Path, before: str, now: str, stopped: Callable[[], bool]) -> None:
        """Check that the objects of a batch are those that were found: a listing tells their sizes and versions.

        Args:
            folder: the source's folder below `sources/`.
            before: its line in the offset log of the batch before.
            now: its line in that of the batch.
            stopped: whether the answer does not matter any more.

        Raises:
            ObjectReplaced: one of them is another one now, or gone.
            StoreError: S3 refuses, or does not answer.
        """
        from streamjob_runtime.discovery.entries import read_entry

        numbers = range(_entry(before) + 1, _entry(now) + 1)
        read = [each for number in numbers for each in read_entry(folder, number)]
        if read and (other := changed_since(self._lister(), read, stopped)) is not None:
            raise ObjectReplaced(
                f"{self._who}: {other.key} was replaced or removed while a batch read it; the rows of this "
                "batch are not published",
                "nothing: the next attempt reads it as it is then",
            )

    def line(self, found: Found) -> str:
        """Return an object as an entry of the source's log has it."""
        fields = {"path": found.key, "size": found.size, "modified": found.modified_ms, "version": found.version}
        root = self._place.root_of(found.key.removeprefix(self.base))
        if root != self._place.prefix:
            # The directories of partitions begin elsewhere.
            fields["root"] = self.base + root
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    def placed(self, found: Found) -> None:
        """Accept an object whose directories name the columns of the plan, or none."""
        names = [each.lower() for each in self._place.partition_columns(found.key.removeprefix(self.base))]
        planned = [each.lower() for each in self._java.directories()]
        if names and names != planned:
            raise Refused(
                f"{self._who}: the directories of {found.key} name the columns {', '.join(names)}, and those "
                f"of the files before {', '.join(planned) or 'none'}: restart the job if they are the first ones; a "
                "source reads directories of one structure"
            )

    def replaced(self, found: Found) -> None:
        """Refuse an object that was read in another version."""
        raise Refused(error_text(_KIND, {"source": self._source.name, "object": found.key}))

    def _lister(self, prefix: str | None = None) -> Lister:
        from streamjob.store.s3_connection import S3Connection, S3Settings
        from streamjob_runtime.discovery.s3_lister import S3Lister

        if self._connection is None:
            self._connection = S3Connection(S3Settings.from_environment())
        place = self._place
        if prefix is not None:
            return S3Lister(self._connection, place.bucket, prefix, lambda key, modified_ms: True)
        return S3Lister(self._connection, place.bucket, place.prefix, place.is_of_source, place.named)

    def _first_page(self) -> tuple[Found, ...]:
        """Return the first objects; their directories say what the columns of partitions are."""
        if self._sample is None:
            self._sample = tuple(self._whole or ()) or self._listed(self._lister(), first=True)
        return self._sample

    def _check_log(self) -> None:
        """Refuse a directory of Spark's own sink of files, of whose files only those count that its log names."""
        place = self._place
        if place.named is not None and self._listed(self._lister(f"{place.named}/{_SPARKS_LOG}/"), first=True):
            raise WrittenBySpark(
                f"{self._who}: {self.base}{place.named} has {_SPARKS_LOG}, the log of Spark's own sink of files, and "
                "only the files count that it names; a source in a bucket does not read it",
                "let the job that writes there be a streamjob, or copy the files to another prefix",
            )

    def _all(self) -> list[Found]:
        return list(self._listed(self._lister(), first=False))

    def _listed(self, lister: Lister, *, first: bool) -> tuple[Found, ...]:
        found: list[Found] = []
        end: str | None = ""
        try:
            while end is not None and not (first and found):
                page = lister.page(end)
                found += page.objects
                end = page.end
        except StoreError as error:
            raise type(error)(f"{self._who}: {error.what}", error.fix) from error
        return tuple(found)


def _entry(offset: str) -> int:
    position = position_of(offset)
    assert position is not None, offset
    return position


def replaced_object_in(text: str) -> tuple[str, str] | None:
    """Return the source and the object that the text of one of Spark's errors is about; None if it is another one."""
    position = position_in(_KIND, text)
    return (position["source"], position["object"]) if position else None
