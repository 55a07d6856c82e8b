"""The end of a job at a record or row that it cannot process: another attempt would end there, too."""

from __future__ import annotations

import re
import shlex
from urllib.parse import unquote

from streamjob.errors import ExitCode, JobFailed
from streamjob.job.connectors.changes import DEBEZIUM
from streamjob.job.loading.load import LoadedJob
from streamjob_runtime.chain.sources.broken_records import Undecoded, undecoded_in
from streamjob_runtime.chain.sources.discovered_files import replaced_object_in
from streamjob_runtime.chain.sources.file_records import described
from streamjob_runtime.chain.sources.lake.table_search import table_refused_in
from streamjob_runtime.chain.sources.null_event_times import column_without_event_time_in, part_without_event_time_in
from streamjob_runtime.chain.sources.trying import FailedRow, failed_row_in
from streamjob_runtime.spark.text.error_text import header_said
from streamjob_runtime.spark.text.text_records import HEADER_FIX, UnreadRecord, unread_record_in

_UNREADABLE = re.compile(
    r"\[FAILED_READ_FILE\.\w+\] Encountered error while reading file (?:file://)?(\S+?)\.? .*?SQLSTATE: \w+"
)
_DAMAGES = (
    "Unexpected end of input stream", "not a gzip file", "ZipException", "ZstdIOException", "incorrect header check",
    "is not a Parquet file", "Malformed ORC file", "Not an Avro data file", "Not a data file",
    "InvalidProtocolBufferException", "The end of the Avro file is missing",
)  # fmt: skip
"""What readers say of a damaged file. Anything else may be the store's fault, and another attempt may read the file."""


class BadInput(JobFailed):
    """A record, row or file cannot be processed; the job's last completed checkpoint is intact."""

    exit_code = ExitCode.INVALID_INPUT


class RecordNotDecoded(BadInput):
    """A record of a source does not have the declared form."""


class HeaderDiffers(BadInput):
    """The header of a CSV file has other columns than the schema."""


class FileUnreadable(BadInput):
    """A file of a source is damaged, or of another format."""


class ObjectReplaced(BadInput):
    """An object that a source has read was replaced."""


class RowFailed(BadInput):
    """An operator cannot compute a row."""


class EventTimeMissing(BadInput):
    """The event time of a row is NULL."""


def bad_input_in(text: str, loaded: LoadedJob) -> JobFailed | None:
    """Return the error for the record, row or file that the text of a Spark error is about; None without one."""
    if (undecoded := undecoded_in(text)) is not None:
        return record_not_decoded(undecoded, loaded)
    if (record := unread_record_in(text)) is not None:
        return file_record_not_decoded(record, loaded)
    if (said := header_said(text)) is not None:
        return HeaderDiffers(f"A source of CSV files: {said}", HEADER_FIX)
    if (part := part_without_event_time_in(text)) is not None:
        return event_time_missing(part, loaded)
    if (column := column_without_event_time_in(text)) is not None:
        return EventTimeMissing(
            f"An operator waits for the watermark of {column!r}, and reads a row in which it is NULL, as behind an "
            "outer join: it would keep this row for ever",
            f"leave such rows out before the operator, WHERE {column} IS NOT NULL; or let a sink take them as they are",
        )
    if (replaced := replaced_object_in(text)) is not None:
        return object_replaced(*replaced)
    if (refused := table_refused_in(text)) is not None:
        return refused
    if (unreadable := _UNREADABLE.search(text)) is not None and any(each in text for each in _DAMAGES):
        return file_unreadable(unreadable[1], text[unreadable.end() :].partition("\n")[0])
    return row_failed(row, loaded) if (row := failed_row_in(text)) is not None else None


def record_not_decoded(undecoded: Undecoded, loaded: LoadedJob) -> RecordNotDecoded:
    """Return the error for a record that could not be decoded."""
    source = loaded.spec.source(undecoded.source)
    encoding = source.key if undecoded.part == "key" else source.value
    assert encoding is not None
    form = encoding.described()
    if source.changes == DEBEZIUM and undecoded.part == "value":
        form = f"a change of Debezium in {form}"
    skip = f"sources.{source.name}.skip={', '.join(filter(None, [source.skip, undecoded.record]))}"
    return RecordNotDecoded(
        f"Source {source.name!r}: the {undecoded.part} of partition {undecoded.partition} of topic "
        f"{undecoded.topic!r} at offset {undecoded.offset} is not {form}: {undecoded.error}",
        f"go on without this record: streamjob run {shlex.quote(loaded.origin)} --set {shlex.quote(skip)}; or correct "
        "the schema; or drop all such records: onError: drop",
    )


def file_record_not_decoded(record: UnreadRecord, loaded: LoadedJob) -> JobFailed:
    """Return the error for a record or the header of a file that does not fit the schema of its source."""
    what = f"Source {record.source!r}: {record.is_not(described(loaded.spec.source(record.source)))}"
    if record.record is None:
        return HeaderDiffers(what, HEADER_FIX)
    setting = shlex.quote(f"sources.{record.source}.onError=drop")
    return RecordNotDecoded(
        what,
        f"go on without this record and others like it: streamjob run {shlex.quote(loaded.origin)} --set {setting}; or "
        "correct the schema; or keep such records: onError: deadLetter",
    )


def event_time_missing(name: str, loaded: LoadedJob) -> EventTimeMissing:
    """Return the error for a row without an event time.

    Args:
        name: the source or operator that declares the watermark.
    """
    watermark = loaded.spec.inputs()[name].watermark
    assert watermark is not None
    kind, parts = (
        ("Source", "sources") if any(each.name == name for each in loaded.spec.sources) else ("Operator", "operators")
    )
    setting = shlex.quote(f"{parts}.{name}.watermark.nullEventTime=drop")
    return EventTimeMissing(
        f"{kind} {name!r} has a row whose event time {watermark.column!r} is NULL: no watermark ever passes it, "
        "so what waits for the watermark would keep it for ever",
        f"go on without such rows: streamjob run {shlex.quote(loaded.origin)} --set {setting}; or keep them: "
        "nullEventTime: deadLetter; or give them an event time: columns: ['*', 'coalesce(…) AS at']",
    )


def object_replaced(source: str, uri: str) -> ObjectReplaced:
    """Return the error for an object that a source has read, and that has another version now."""
    return ObjectReplaced(
        f"Source {source!r} has read {uri}, and the object was replaced since then",
        f"to have the new version read as well: --set sources.{source}.options.onReplaced=read; to go on without it: "
        "onReplaced=ignore, which counts such objects",
    )


def file_unreadable(uri: str, cause: str) -> FileUnreadable:
    """Return the error for a file that is damaged, or has another format than the source."""
    return FileUnreadable(
        f"The file {unquote(uri)} cannot be read: {cause.lstrip(': ')}",
        "put a whole file in its place, move it away, or give its source another format; or go on without any row of "
        "such files: onError: drop, or deadLetter to keep their paths",
    )


def row_failed(row: FailedRow, loaded: LoadedJob) -> RowFailed:
    """Return the error for a row that an operator cannot compute."""
    setting = shlex.quote(f"operators.{row.operator}.onError=drop")
    return RowFailed(
        f"Operator {row.operator!r} cannot compute the row {row.row}: {row.error}",
        f"go on without this row and others like it: streamjob run {shlex.quote(loaded.origin)} --set {setting}; or "
        "correct the operator; or keep such rows: onError: deadLetter",
    )
