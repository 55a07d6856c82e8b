"""The options of a source of files about which ones it reads and when, in addition to those of its format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from streamjob.durations import Seconds
from streamjob.job.connectors.connector import OptionProblem
from streamjob.job.connectors.option_model import option_names, problems_of
from streamjob.job.connectors.options import environment_names, option
from streamjob.job.model.spec_fields import Spec

if TYPE_CHECKING:
    from streamjob.job.model.spec import SourceSpec

_LIMITS = ("maxFilesPerTrigger", "maxBytesPerTrigger")
_COUNT = re.compile(r"0*[1-9]\d{0,17}")
_ONLY_IN_BUCKETS = ("listAllEvery", "forgetAfter", "access", "queueUrl")
_REMOVING = ("archiveTo", "deleteAfter")
_ELSEWHERE = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*:/")
_IN_BUCKET = re.compile(r"s3a?://", re.IGNORECASE)
_URL = re.compile(r"https?://[^/@\s]+/\S+")
_OF_SPARK = {
    "latestFirst": "say order: time, or order: name",
    "maxFileAge": "leave it out: a file is read whatever its time; forgetAfter saves memory in a bucket",
    "fileNameOnly": "leave it out: a file is known by its path and its version",
    "ignoreCorruptFiles": "leave it out: rows would be missing without an error",
    "ignoreMissingFiles": "leave it out: rows would be missing without an error",
}
"""Options of Spark's own stream of files that ours does not have."""


class FileSourceFields(Spec):
    """Options of a source of files; some of them need a `path` in a bucket."""

    check_interval: Seconds | None = Field(
        default=None,
        gt=0,
        description="How often the source looks for new files. Default: in a bucket `5s` while objects come, and up to "
        "`1m` while none comes; in a directory four times a second, or less if that takes long.",
    )
    list_all_every: Seconds = Field(
        default=86400.0,
        gt=0,
        description="In a bucket: in which time all objects are listed once, a page now and then, so that one is found "
        "that came late into an old directory, or was replaced.",
    )
    order: Literal["time", "name"] = Field(
        default="time",
        description="The order in which the files that one check finds are read: by the time when they were written, "
        "or by their paths.",
    )
    on_replaced: Literal["fail", "read", "ignore"] = Field(
        default="fail",
        description="What to do about a file that was read, and has another version now: end the job, read the new "
        "version as well, or count it.",
    )
    forget_after: Seconds | None = Field(
        default=None,
        gt=0,
        description="In a bucket: the age from which objects are forgotten, to save memory. S3 dates an object by its "
        "upload, so one of such an age was there before, and counts as read; the first start reads all. Default: "
        "never.",
    )
    archive_to: str | None = Field(
        default=None,
        description="Where a file goes that was read, once all retained checkpoints have it: from a bucket to "
        "`s3://bucket/prefix`, from a local directory to one on the same file system. It keeps its path below the "
        "directory of `path`, or before the first wildcard there.",
    )
    delete_after: Seconds | None = Field(
        default=None,
        ge=0,
        description="How long after all retained checkpoints have it a file that was read is deleted, in a bucket or "
        "a local directory; `0s` for at once. Default: never.",
    )
    access: str | None = Field(
        default=None,
        pattern="[A-Z][A-Z0-9_]*",
        description="In a bucket: what the environment variables begin with that say where it is and how to access it, "
        "`OTHER` for `OTHER_AWS_ACCESS_KEY_ID`, `OTHER_AWS_ENDPOINT_URL` and so on. Default: those of the snapshot "
        "store.",
    )
    queue_url: str | None = Field(
        default=None,
        description="In a bucket: the URL of an SQS queue that gets S3's notifications about new objects, for this "
        "source alone. They are found by it, and by a check every `5m`, or `checkInterval`.",
    )

    @property
    def removes(self) -> bool:
        """Whether files that were read go."""
        return self.archive_to is not None or self.delete_after is not None


def in_bucket(path: str) -> bool:
    """Return whether a path is one of S3; `s3a://` is Hadoop's word for it."""
    return _IN_BUCKET.match(path) is not None


def is_elsewhere(path: str) -> bool:
    """Return whether a path is on no local file system: in a bucket, or where only Hadoop reaches it."""
    return _ELSEWHERE.match(path) is not None


def not_for(path: str) -> tuple[str, ...]:
    """Return the options that a source with this path cannot have."""
    if in_bucket(path):
        return ()
    return (*_ONLY_IN_BUCKETS, *_REMOVING) if is_elsewhere(path) else _ONLY_IN_BUCKETS


def bucket_and_prefix(path: str) -> tuple[str, str]:
    """Return the bucket of a path there, and what keys below it begin with: a directory with a slash, or nothing."""
    bucket, _, key = _IN_BUCKET.sub("", path).partition("/")
    directory = key.strip("/")
    return bucket, f"{directory}/" if directory else ""


CANNOT_ARCHIVE = (
    "has the option 'archiveTo', which is not in the same kind of place as its path",
    "say s3://bucket/prefix for a path in a bucket, and a directory for one in a local directory",
)
"""The problem where `can_archive` is false, with its fix."""


def can_archive(path: str, archive: str) -> bool:
    """Return whether files go from one place to the other: both are in buckets, or both local."""
    return in_bucket(archive) if in_bucket(path) else not is_elsewhere(archive)


def fields_of(options: Mapping[str, str]) -> FileSourceFields:
    """Return these options of a source, whose names are in any case.

    Raises:
        pydantic.ValidationError: one has a value that cannot be used; `problems` names it before.
    """
    return FileSourceFields.model_validate(_own(options))


def problems(source: SourceSpec) -> Iterator[OptionProblem]:
    """Yield problems with the options of a source of files that are about which files it reads."""
    path = option(source.options, "path") or ""
    for name in () if any(environment_names(path)) else not_for(path):
        if option(source.options, name) is not None:
            where = "in a bucket or a local directory" if name in _REMOVING else "in a bucket"
            yield OptionProblem(f"has the option {name!r}, which is for a path {where}", "leave it out", name)
    for name, fix in _OF_SPARK.items():
        if option(source.options, name) is not None:
            yield OptionProblem(f"has the option {name!r}, which a source of files does not have", fix, name)
    limits = {name: given for name in _LIMITS if (given := option(source.options, name)) is not None}
    for name, given in limits.items():
        if not any(environment_names(given)) and not _COUNT.fullmatch(given.strip()):
            yield OptionProblem(f"{name} is not a whole number above 0", "give one, such as 100", name)
    if len(limits) > 1:
        yield OptionProblem(f"has both {' and '.join(limits)}", "say one of them")
    yield from problems_of(FileSourceFields, _own(source.options), {}, lambda given: _further(source, given))


def _further(source: SourceSpec, given: FileSourceFields) -> Iterator[OptionProblem]:
    archive, name = given.archive_to, "deleteAfter" if given.archive_to is None else "archiveTo"
    if archive is not None and given.delete_after is not None:
        yield OptionProblem("has both 'archiveTo' and 'deleteAfter'", "say one of them", name)
    path = option(source.options, "path") or ""
    if archive is not None and not any(environment_names(f"{archive}{path}")) and not can_archive(path, archive):
        yield OptionProblem(*CANNOT_ARCHIVE, name)
    queue = given.queue_url
    if queue is not None and not _URL.fullmatch(queue) and not any(environment_names(queue)):
        yield OptionProblem("has a queueUrl that is no URL of a queue", "say https://host/account/name", "queueUrl")
    if queue is not None and source.bounded:
        yield OptionProblem("is bounded and has a queueUrl, which tells of later objects", "leave it out", "queueUrl")
    if given.removes and source.bounded:
        yield OptionProblem(
            f"is bounded and has the option {name!r}: it ends before all retained checkpoints have its last objects",
            "remove them after the job has ended",
            name,
        )


def _own(options: Mapping[str, str]) -> dict[str, str]:
    found = ((name, option(options, name)) for name in option_names(FileSourceFields))
    return {name: value for name, value in found if value is not None}
