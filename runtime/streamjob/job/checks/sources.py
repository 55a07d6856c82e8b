"""Checks sources: formats, schemas, watermarks, ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamjob.job import kafka, kafka_end
from streamjob.job.checks.subject import Subject, where
from streamjob.job.ddl import NotASchema, columns
from streamjob.job.formats import (
    BOUNDED_FILES,
    BOUNDED_FORMATS,
    FILE_FORMATS,
    FIXED_COLUMNS,
    SELF_DESCRIBING_FILES,
    SOURCE_FORMATS,
    is_class_name,
)
from streamjob.job.options import option
from streamjob.job.problem import Problem
from streamjob.job.spec import SourceSpec
from streamjob.job.suggest import did_you_mean, nearest


def formats(subject: Subject) -> Iterator[Problem]:
    """The format is one of Spark's, or a class."""
    for source in subject.spec.sources:
        if source.format not in SOURCE_FORMATS and not is_class_name(source.format):
            fix = did_you_mean(source.format, SOURCE_FORMATS, "formats")
            yield Problem(where(source), f"has the unknown format {source.format!r}", fix)
        if option(source.options, "cleanSource") is not None:
            what = "has the option cleanSource: Spark would remove files that a restored checkpoint reads again"
            yield Problem(
                where(source), what, "leave it out, and remove files older than the oldest checkpoint yourself"
            )


def schemas(subject: Subject) -> Iterator[Problem]:
    """File sources have a schema, and every schema is one that Spark can read."""
    for source in subject.spec.sources:
        if source.schema_ddl is None:
            if source.format in FILE_FORMATS - SELF_DESCRIBING_FILES:
                what = f"has no schema; a stream of {source.format} files needs one"
                yield Problem(where(source), what, "give schema: 'name TYPE, name TYPE'")
        elif source.format in FIXED_COLUMNS:
            yield Problem(
                where(source), f"has a schema, but the columns of {source.format!r} are fixed", "leave it out"
            )
        else:
            try:
                columns(source.schema_ddl)
            except NotASchema as error:
                yield Problem(where(source), f"its schema {error.what}", error.fix)


def watermarks(subject: Subject) -> Iterator[Problem]:
    """A watermark is on a TIMESTAMP column that the source has."""
    for source in subject.spec.sources:
        known = _columns(source)
        if source.watermark is None or known is None:
            continue
        name = source.watermark.column.strip("`")
        found = next((kind for column, kind in known.items() if column.lower() == name.lower()), None)
        if found is None and "." in name and name.split(".")[0] in known:
            what = f"its watermark is on {name!r}, a field inside of a column"
            yield Problem(where(source), what, "the event time has to be a column of its own in the data")
        elif found is None:
            timestamps = [column for column, kind in known.items() if kind == "timestamp"]
            meant = nearest(name, known)
            fix = f"did you mean {meant!r}?" if meant else did_you_mean(name, timestamps, "TIMESTAMP columns")
            yield Problem(where(source), f"its watermark is on {name!r}, which is not a column of its schema", fix)
        elif found != "timestamp":
            what = f"its watermark is on {name!r}, a column of type {found.upper()}"
            yield Problem(where(source), what, "make it a TIMESTAMP in the schema, or take another column")


def connections(subject: Subject) -> Iterator[Problem]:
    """The options of a Kafka source belong to the connector, and are not among those that it refuses."""
    for source in subject.spec.sources:
        if source.format == kafka.FORMAT:
            for what, fix in kafka.problems(source.options):
                yield Problem(where(source), what, fix)


def _columns(source: SourceSpec) -> Mapping[str, str] | None:
    """Return a source's columns, or None if they are unknown."""
    if source.format in FIXED_COLUMNS:
        return FIXED_COLUMNS[source.format]
    if source.format in FILE_FORMATS and source.schema_ddl is None:
        return {"value": "string"} if source.format in SELF_DESCRIBING_FILES else None
    if source.schema_ddl is None:
        return None
    try:
        return columns(source.schema_ddl)
    except NotASchema:
        return None


def bounds(subject: Subject) -> Iterator[Problem]:
    """The format of a bounded source supports an end."""
    for source in subject.spec.sources:
        if source.bounded and source.format in SOURCE_FORMATS - BOUNDED_FORMATS:
            what = f"is bounded, and where {source.format!r} ends is unknown"
            fix = f"bounded sources are files, {', '.join(sorted(BOUNDED_FILES))}, and kafka"
            yield Problem(where(source), what, fix)
        if source.format == kafka.FORMAT:
            for what, fix in kafka_end.problems(source.options, bounded=source.bounded):
                yield Problem(where(source), what, fix)
