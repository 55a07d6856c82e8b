"""The files of a source, which our own stream reads: what there is, and what its query is offered."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjob.clock import Clock
from streamjob.errors import CannotRestore, InvalidInput, StreamJobError
from streamjob.ids import Key
from streamjob.job.connectors.file_source import (
    CANNOT_ARCHIVE,
    FileSourceFields,
    bucket_and_prefix,
    can_archive,
    fields_of,
    in_bucket,
    not_for,
)
from streamjob.job.connectors.lake_source import SOURCES
from streamjob.job.connectors.option_model import option_names
from streamjob.job.connectors.options import option, without
from streamjob.job.model.formats import FILE_FORMATS
from streamjob.job.model.spec import SourceSpec
from streamjob.job.planning.dead_letters import leaves_out_damaged
from streamjob.store.base import StoreError
from streamjob.stored.sparks_output import SINK_LOG, UnknownSinkLog
from streamjob_runtime.chain.sources.bounded_files import BoundedEnd, BoundedFilesGone
from streamjob_runtime.discovery.committed_files import CommittedFiles
from streamjob_runtime.discovery.directory_lister import (
    DirectoryLister,
    UnreadableDirectory,
    on_one_file_system,
    resolved,
)
from streamjob_runtime.discovery.hadoop_directories import HadoopDirectories
from streamjob_runtime.discovery.objects import Classified, Found, Lister, Refused, base_of, key_of, pages
from streamjob_runtime.discovery.patterns import SourceFiles, UnreadableKey, directory_of
from streamjob_runtime.discovery.rereading import changed_since
from streamjob_runtime.spark.checkpoint_dir.file_entries import last_read, last_read_by_spark
from streamjob_runtime.spark.checkpoint_dir.files_read import local_path, sparks_files
from streamjob_runtime.spark.checkpoint_dir.logs import VOID_OFFSET
from streamjob_runtime.spark.connectors.buckets import NothingInBucket, access_of, settings_of_bucket
from streamjob_runtime.spark.gateway import frame_of, java_schema, java_session, our_java
from streamjob_runtime.spark.text.error_positions import error_text, position_in

if TYPE_CHECKING:
    from pydantic import JsonValue
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streamjob.store.s3_connection import S3Connection, S3Credentials
    from streamjob_runtime.discovery.after_reading import AfterReading
    from streamjob_runtime.discovery.discoverer import Check, Discoverer
    from streamjob_runtime.discovery.known import Known
    from streamjob_runtime.discovery.notifications import Notifications
    from streamjob_runtime.discovery.s3_lister import S3Lister

_OWN = ("path", "recursiveFileLookup", "pathGlobFilter", "modifiedBefore", "modifiedAfter", "basePath")
"""Options about which files there are, which Spark does not see."""
_KIND = "object-refused"
_DEFAULT = "spark.hadoop.fs.defaultFS"
_SPECIAL, _ESCAPED = re.compile(r"[\\{}\[\]*?,]"), r"\\\g<0>"
_LOG = logging.getLogger("streamjob")
_REFUSED: dict[str, Found] = {}
"""By path, the last object whose directories name columns that the plan of an earlier attempt did not have."""


class WrittenBySpark(InvalidInput):
    """The directory of a source has a log that says which of its files count, and cannot be read by it."""


class ArchiveNotApart(InvalidInput):
    """A source would find the files that it has archived, or archive them where it reads."""


class ArchiveElsewhere(InvalidInput):
    """A source cannot move files to its archive: it is another kind of place, or another file system."""


class OnlyInBuckets(InvalidInput):
    """A source has an option for buckets, and its path, whose variables are resolved now, is in none."""


class SourceMoved(CannotRestore):
    """The state of a source is about files in another place; nothing was started."""


class ObjectReplaced(StreamJobError):
    """An object was replaced while a batch read it; the next attempt reads the new one."""


@dataclass(frozen=True, slots=True)
class UnreadFiles:
    """Files that were found and whose batch has not ended: their number, their bytes, and the time of the oldest one.

    The time is in ms since 1970; None without a file.
    """

    files: int
    bytes: int
    oldest_ms: int | None = None


class DiscoveredFiles:
    """The files of a source.

    Args:
        options: its options, resolved.

    Raises:
        InvalidPattern: the path, or an option that chooses among its files, cannot be used.
        OnlyInBuckets: there is an option that is for buckets only.
        ArchiveNotApart: `archiveTo` and `path` overlap.
        ArchiveElsewhere: files cannot be moved from `path` to `archiveTo`.
    """

    once = False
    """Whether it reads only what the first search of a query finds, which lists everything."""

    def __init__(self, spark: SparkSession, source: SourceSpec, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._source = source
        self._who = f"Source {source.name!r}"
        self.given: FileSourceFields = fields_of(options)
        self._path = option(options, "path") or ""
        if not option(options, "timeZone") and (option(options, "modifiedAfter") or option(options, "modifiedBefore")):
            options = {**options, "timeZone": str(spark.conf.get("spark.sql.session.timeZone"))}
        self._place = SourceFiles(self._path, options)
        self._is_in_bucket = in_bucket(self._path)
        if not self._is_in_bucket:
            if wrong := [name for name in not_for(self._path) if option(options, name) is not None]:
                raise OnlyInBuckets(
                    f"{self._who} has {', '.join(wrong)}, and its path {self._path} is in no bucket", "leave it out"
                )
            if self._place.base != "/":
                # As Spark's own stream has noted the files that it has read.
                self._place.base = HadoopDirectories(spark).qualified(self._place.base).rstrip("/") + "/"
        self.base = self._place.base
        self._cheap = not self._is_in_bucket
        self._archive = None if self.given.archive_to is None else self._archive_at(self.given.archive_to)
        self._sample: tuple[Found, ...] | None = None
        self._whole: list[Found] | None = None
        self._last_read: tuple[Path, int] | None = None
        self._java: Any = None
        self._directories: list[str] = []
        self._connection: S3Connection | None = None

    @classmethod
    def of(cls, spark: SparkSession, source: SourceSpec, options: Mapping[str, str]) -> DiscoveredFiles | None:
        """Return the files of a source, also of one that is a lake table; None for a source of something else.

        Raises as the constructor does.
        """
        if source.format in SOURCES:
            from streamjob_runtime.chain.sources.discovered_table import DiscoveredTable

            return DiscoveredTable(spark, source, options)
        if source.format not in FILE_FORMATS:
            return None
        path = option(options, "path") or ""
        if path.startswith("/") and not (default := spark.conf.get(_DEFAULT, "file:///") or "").startswith("file:"):
            # Spark and Hadoop have another file system for a path without a scheme.
            options = {**without(options, "path"), "path": default.rstrip("/") + path}
        return cls(spark, source, options)

    def stream(
        self, form: str, options: Mapping[str, str], schema: StructType | None, surplus: Any = None
    ) -> DataFrame:
        """Return the rows of the files.

        Args:
            form: Spark's name of the format.
            options: of the source, resolved.
            schema: the columns of the files and directories; None where the format has its own.
            surplus: Spark's accumulator for the number of records beyond the rows that Spark counts.

        Raises:
            UnreadableDirectory: the directory does not exist, or cannot be listed.
            WrittenBySpark: it is the output of a plain query, of which the job would remove files.
            BucketMissing, CredentialsRejected, CredentialsExpired, AccessDenied: S3 refuses.
            StoreUnavailable: S3 does not answer.
            PySparkException: Spark refuses the schema, the options or the directories.
        """
        self._check_log()
        if self.given.access is not None:
            for name, value in settings_of_bucket(self._bucket, self._environment()).items():
                self._spark.conf.set(name, value)
        sample = "\n".join(self.line(each) for each in self._first_page())
        spark = self._spark
        if surplus is None:
            surplus = java_session(spark).sparkContext().longAccumulator()
        self._java = our_java(spark).DiscoveredFiles(
            java_session(spark),
            form,
            None if schema is None else java_schema(spark, schema),
            without(options, *_OWN, *option_names(FileSourceFields)),
            self.base + self._place.prefix,
            sample,
            surplus,
            leaves_out_damaged(self._source),
        )
        self._directories = [each.lower() for each in self._java.directories()]
        return frame_of(spark, self._java.stream())

    def overlaps(self, other: DiscoveredFiles) -> bool:
        """Return whether an object may be of both."""
        return self._overlaps(other.base, other._place.prefix)

    def _overlaps(self, base: str, prefix: str) -> bool:
        prefixes = prefix, self._place.prefix
        one, other = sorted(map(resolved, prefixes) if base == "/" else prefixes, key=len)
        return base == self.base and other.startswith(one)

    def _archive_at(self, given: str) -> tuple[str, str]:
        """Return the bucket of the archive and what keys begin with there; of a local one no bucket, and the path."""
        if not can_archive(self._path, given):
            raise ArchiveElsewhere(f"{self._who} {CANNOT_ARCHIVE[0]}", CANNOT_ARCHIVE[1])
        bucket, prefix = bucket_and_prefix(given) if self._is_in_bucket else ("", directory_of(given))
        if self._overlaps(base_of(bucket) if bucket else "/", prefix):
            raise ArchiveNotApart(
                f"{self._who}: archiveTo, {given}, and path overlap",
                "name a place beside that of the path, or another bucket",
            )
        if not bucket and not on_one_file_system(self._place.prefix, prefix):
            raise ArchiveElsewhere(
                f"{self._who}: archiveTo, {given}, is on another file system than its path, and files are not copied",
                "name a directory on the same file system, or of the same volume",
            )
        return bucket, prefix

    def go_on(self, log: Path | None, position: JsonValue) -> None:
        """Go on behind what was read; where no object is left, the last ones name the columns of directories.

        Args:
            log: the source's folder below `sources/` of the restored checkpoint.
            position: its position there.

        Raises:
            SourceMoved: it has read files in another kind of place only.
        """
        if log is None:
            return
        read: Collection[str] = ()
        if (entry := last_read(position)) is not None:
            self._last_read = log, entry
            read = [each.key for each in self._last_ones()]
        elif (entry := last_read_by_spark(position)) is not None:
            read = sparks_files(log, entry)
        if read and not any(in_bucket(each) if self._is_in_bucket else each.startswith(self.base) for each in read):
            raise SourceMoved(
                f"{self._who}: its state is about other files, {min(read)} among them, and its path is {self._path}",
                "give it the path of these files; or give it another uid, and it starts from the beginning",
            )

    def begin(self) -> JsonValue:
        """Return where the source begins, to be kept with the positions of sources; None if it need not be kept."""
        return None

    def end(self) -> BoundedEnd:
        """Return the end of a bounded source that starts for the first time: the files that exist.

        Raises:
            NothingInBucket: no object is there. A directory may be empty.
        """
        self._whole = self._all()
        if not self._whole and self._is_in_bucket:
            raise NothingInBucket.at(self._who, self._path)
        return BoundedEnd(self.base[:-1], tuple(sorted(each.key.removeprefix(self.base) for each in self._whole)))

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
            raise BoundedFilesGone(
                f"Source {self._source.uid!r}: {len(gone)} of the {len(wanted)} files that it is to read are gone: "
                f"{gone[0]}, …",
                "put them back, or start without state with --from none",
            )

    def offer_sample(self) -> None:
        """Offer some files to the query that reads them next, for a look at them."""
        self._java.inbox(0).offer("\n".join(self.line(each) for each in self._first_page()))

    def unread(self, directory: int) -> UnreadFiles | None:
        """Return what a query has not read; None before the first search. It costs one call into the JVM.

        Args:
            directory: the number of its reading below `sources/`.
        """
        figures = [int(each) for each in self._java.unread(directory).split()]
        return UnreadFiles(*figures) if figures else None

    def discoverer(self, folder: Path, offset: str, clock: Clock) -> Discoverer:
        """Return what finds the files for a query.

        Args:
            folder: the source's folder below `sources/` of the query's checkpoint.
            offset: the source's line in the offset log; `-` for none.
            clock: seconds since 1970.
        """
        # It loads numpy, which a job without such a source does without; boto3 below likewise.
        from streamjob_runtime.discovery.discoverer import Discoverer

        return Discoverer(
            who=self._who,
            search=self._search,
            inbox=self._java.inbox(int(folder.name)),
            judge=self,
            given=self.given,
            folder=folder,
            of_spark=_of_spark(offset),
            clock=clock,
            whole=self._whole,
            once=self.once,
            cheap=self._cheap,
            after=self._after_reading(folder, clock),
            queue=None if self.once else self._notifications(clock),
        )

    def _search(self, recent: Sequence[Found], known: int) -> Check:
        from streamjob_runtime.discovery.search import Search, check_all

        if self._is_logged or self.once or not self._is_in_bucket:
            check: Check = partial(check_all, self._counting())
            is_fixed = self._is_logged or self._place.is_pattern
            return check if is_fixed else partial(self._still_without_log, check)
        return partial(Search(recent, known, self.given.list_all_every).check, self._lister())

    def _notifications(self, clock: Clock) -> Notifications | None:
        from streamjob_runtime.discovery.notifications import Notifications, queue_client

        url = self.given.queue_url
        if url is None:
            return None
        client, look = queue_client(url, self._environment(), self._credentials()), self._s3_lister(self._place).find
        return Notifications(who=self._who, client=client, url=url, look=look, clock=clock)

    def _after_reading(self, folder: Path, clock: Clock) -> AfterReading | None:
        from streamjob_runtime.discovery.after_reading import (
            AfterReading,
            BucketRemover,
            DirectoryRemover,
            forget_lists,
        )

        if not self.given.removes:
            forget_lists(folder)
            return None
        root = self._place.prefix[: self._place.prefix.rfind("/") + 1]
        remove: Callable[[Found], None]
        if self._is_in_bucket:
            remove = BucketRemover(self._s3(), self._bucket, root, self._archive)
        else:
            archive = None if self._archive is None else Path(f"/{self._archive[1]}")
            remove = DirectoryRemover(DirectoryLister(self._place), f"/{root}", archive)
        return AfterReading(
            who=self._who,
            folder=folder,
            remove=remove,
            age=self.given.delete_after or 0.0,
            clock=clock,
        )

    def check_read(self, folder: Path, before: str, now: str, stopped: Callable[[], bool]) -> int:
        """Check that the objects of a batch are those that were found; return the last entry that it has read.

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

        numbers = range(entry_of(before) + 1, entry_of(now) + 1)
        read = [each for number in numbers for each in read_entry(folder, number)]
        for each in read:
            if each.damage is not None:
                _LOG.warning("%s leaves out %s, which cannot be read: %s", self._who, each.key, each.damage)
        lister = self._lister()
        if isinstance(lister, DirectoryLister):
            other = lister.changed(read)
        else:
            other = changed_since(lister, read, stopped) if read else None
        if other is not None:
            raise ObjectReplaced(
                f"{self._who}: {other.key} was replaced or removed while a batch read it; the rows of this "
                "batch are not published",
                "nothing: the next attempt reads it as it is then",
            )
        return numbers.stop - 1

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
        if names and names != self._directories:
            _REFUSED[self._path] = found
            raise Refused(
                f"{self._who}: the directories of {found.key} name the columns {', '.join(names)}, and those "
                f"of the files before {', '.join(self._directories) or 'none'}: the next attempt has these columns, if "
                "no other directories have others; a source reads directories of one structure"
            )

    def replaced(self, found: Found) -> None:
        """Refuse an object that was read in another version."""
        raise Refused(error_text(_KIND, {"source": self._source.name, "object": found.key}))

    def _environment(self) -> Mapping[str, str]:
        return access_of(self._who, self.given.access, os.environ)

    def _credentials(self) -> S3Credentials | None:
        from streamjob.store.s3_connection import S3Credentials

        return None if self.given.access is None else S3Credentials.from_environment(self._environment())

    def _s3(self) -> S3Connection:
        from streamjob.store.s3_connection import S3Connection, S3Settings

        if self._connection is None:
            self._connection = S3Connection(S3Settings.from_environment(self._environment()), self._credentials())
        return self._connection

    @property
    def _bucket(self) -> str:
        return self.base.removeprefix(base_of("")[:-1]).rstrip("/")

    def _s3_lister(self, place: SourceFiles) -> S3Lister:
        from streamjob_runtime.discovery.s3_lister import S3Lister

        return S3Lister(self._s3(), self._bucket, place.prefix, place.is_of_source, place.named)

    def _lister(self, place: SourceFiles | None = None) -> Lister:
        place = place or self._place
        if self._is_in_bucket:
            return self._s3_lister(place)
        if self.base == "/":
            return DirectoryLister(place)
        directories = HadoopDirectories(self._spark)
        return DirectoryLister(place, directories.scan, directories.stat)

    def _first_page(self) -> tuple[Found, ...]:
        """Return some objects; their directories say what the columns of partitions are."""
        if self._sample is None:
            found = tuple(self._whole or ()) or self._listed(self._counting(), first=True)
            # Those that were read may be gone, and the first ones may be in no directory.
            found += tuple(self._last_ones())
            refused = _REFUSED.get(self._path)
            self._sample = found if refused is None else (*found, refused)
        return self._sample

    def _last_ones(self) -> Sequence[Found]:
        if self._last_read is None:
            return ()
        from streamjob_runtime.discovery.entries import read_entry

        return read_entry(*self._last_read)

    def _check_log(self) -> None:
        """Check that the directory exists, and whether it is the output of a plain query, with a log of the files."""
        place = self._place
        if place.is_pattern:
            return
        lister = self._lister()
        if isinstance(lister, DirectoryLister) and not lister.exists():
            raise UnreadableDirectory(
                f"{self._who}: the directory {self._path} does not exist", "create it, or correct the path"
            )
        if not self._is_logged:
            return
        if self.given.removes or self.given.queue_url is not None:
            raise WrittenBySpark(
                f"{self._who}: {self._path} has {SINK_LOG}, the log of a plain query, which names the files that count",
                "leave archiveTo, deleteAfter and queueUrl out; or stop the query for good, and run "
                f"`streamjob adopt {self._path}`",
            )
        _LOG.info("%s: of %s, the output of a plain query, only what its log names is read", self._who, self._path)

    @cached_property
    def _is_logged(self) -> bool:
        """Whether the directory is the output of a plain query, with a log of the files that count."""
        return not self._place.is_pattern and self._has_log()

    def _has_log(self) -> bool:
        place = SourceFiles(f"{self.base}{_SPECIAL.sub(_ESCAPED, self._place.prefix)}{SINK_LOG}/[0-9]*", {})
        lister = self._lister(place)
        return lister.exists() if isinstance(lister, DirectoryLister) else bool(self._listed(lister, first=True))

    def _counting(self) -> Lister:
        """Return what lists the files that count."""
        if not self._is_logged:
            return self._lister()
        place = f"{self._place.prefix}{SINK_LOG}"
        if self._is_in_bucket:
            from streamjob.store.s3 import S3Store
            from streamjob.store.s3_connection import S3Connection, S3Settings

            # Nothing else can be listed by the connection of a lister.
            connection = S3Connection(S3Settings.from_environment(self._environment()), self._credentials())
            log, lister = S3Store(connection, self._bucket, place), self._s3_lister(self._place)
            return CommittedFiles(
                lambda: [each.key for each in log.list("")],
                lambda name: log.get(Key(name)),
                self._key_of,
                lister,
                lambda key: lister.find(self._bucket, key.removeprefix(self.base)),
            )
        directories, files, uri = HadoopDirectories(self._spark), self._lister(), f"{self.base}{place}"
        assert isinstance(files, DirectoryLister)
        return CommittedFiles(
            lambda: [each.name for each in directories.scan(uri)],
            lambda name: directories.read(f"{uri}/{name}"),
            self._key_of,
            files,
            files.find,
        )

    def _key_of(self, uri: str) -> str:
        """Return the key of a file that the log of a query names."""
        key = key_of(local_path(uri))
        if not key.startswith(self.base + self._place.prefix):
            raise WrittenBySpark(
                f"{self._who}: {SINK_LOG} in {self._path} names {uri}, which is not below that path: the directory was "
                "moved, or has another name there",
                "give the source the path that the query has written to",
            )
        return key

    def _still_without_log(self, check: Check, known: Known, now: float) -> Iterator[Classified]:
        for part in check(known, now):
            # Behind the listing: Spark creates the directory of the log before the first file.
            if self._has_log():
                raise WrittenBySpark(
                    f"{self._who}: {self._path} has become the output of a plain query",
                    "nothing: the next attempt reads only files that its log names",
                )
            yield part

    def _all(self) -> list[Found]:
        return list(self._listed(self._counting(), first=False))

    def _listed(self, lister: Lister, *, first: bool) -> tuple[Found, ...]:
        found: list[Found] = []
        try:
            for page in pages(lister):
                found += page.objects
                if first and found:
                    break
        except (StoreError, UnknownSinkLog, UnreadableDirectory, UnreadableKey) as error:
            raise type(error)(f"{self._who}: {error.what}", error.fix) from error
        return tuple(found)


def _of_spark(offset: str) -> int | None:
    return None if offset == VOID_OFFSET else last_read_by_spark(json.loads(offset))


def entry_of(offset: str) -> int:
    """Return the last entry that a source has read, from its line in the offset log; -1 for none."""
    entry = -1 if offset == VOID_OFFSET else last_read(json.loads(offset))
    if entry is None:
        entry = _of_spark(offset)
    assert entry is not None, offset
    return entry


def replaced_object_in(text: str) -> tuple[str, str] | None:
    """Return the source and the object that the text of one of Spark's errors is about; None if it is another one."""
    position = position_in(_KIND, text)
    return (position["source"], position["object"]) if position else None
