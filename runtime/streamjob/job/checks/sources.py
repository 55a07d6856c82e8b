"""Checks sources: formats, schemas, columns, watermarks, ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamjob.job.checks.functions import REFERENCE
from streamjob.job.checks.subject import Subject, option_problems, schema_problems, unknown_format, where
from streamjob.job.connectors.changes import change_columns
from streamjob.job.connectors.lake_source import SOURCES
from streamjob.job.connectors.misplaced import OF_ALL, misplaced
from streamjob.job.connectors.options import option
from streamjob.job.connectors.registry import source_of
from streamjob.job.model.formats import BOUNDED_FORMATS, FILE_FORMATS, SOURCE_FORMATS
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import SourceSpec
from streamjob.job.model.suggest import did_you_mean, nearest
from streamjob.job.planning.dead_letters import DEAD_LETTER, null_event_time
from streamjob.job.query import ddl
from streamjob.job.query.ddl import NotASchema
from streamjob.job.query.expressions import Expression, NotAnExpression, columns_of, read_expression


def formats(subject: Subject) -> Iterator[Problem]:
    """The format is one of Spark's, or a class."""
    for source in subject.spec.sources:
        yield from unknown_format(source, SOURCE_FORMATS)
        if option(source.options, "cleanSource") is not None:
            what = "has the option cleanSource: Spark would remove files that a restored checkpoint reads again"
            yield Problem(
                where(source), what, "leave it out, and remove files older than the oldest checkpoint yourself"
            )


def schemas(subject: Subject) -> Iterator[Problem]:
    """File sources have a schema, and every schema is one that Spark can read."""
    for source in subject.spec.sources:
        if source.schema_ddl is None:
            if source_of(source.format).schema == "needed":
                what = f"has no schema; a stream of {source.format} files needs one"
                yield Problem(where(source), what, "give schema: 'name TYPE, name TYPE'")
        elif source_of(source.format).schema == "refused":
            yield Problem(
                where(source), f"has a schema, but the columns of {source.format!r} are fixed", "leave it out"
            )
        else:
            yield from schema_problems(source, "its schema", source.schema_ddl)


def columns(subject: Subject) -> Iterator[Problem]:
    """The columns are expressions over a row, or a function."""
    for source in subject.spec.sources:
        if source.columns is not None and source.python is not None:
            yield Problem(where(source), "has both columns and python", "keep one of them")
        if source.columns == ():
            yield Problem(where(source), "its columns are an empty list", "begin with '*', or leave columns out")
        yield from _expressions(source, subject)
        written = source.uid in subject.functions
        if source.python is not None and not written and not REFERENCE.fullmatch(source.python):
            yield Problem(where(source), f"python cannot be {source.python!r}", "write it as module:function")


def _expressions(source: SourceSpec, subject: Subject) -> Iterator[Problem]:
    computed: set[str] = set()
    own = {name.lower() for name in _columns(source) or ()}
    for each in source.columns or ():
        try:
            read = read_expression(each, subject.spark_parser)
        except NotAnExpression as error:
            yield error.problem(where(source), "its columns have ")
            continue
        if read.fields_of is not None and read.fields_of.lower() in computed:
            name = read.fields_of
            what = f"its columns have {each!r}, and {name!r} is computed beside it, which Spark does not look into"
            fix = f"name its fields, like '{name}.id AS id'; or write SELECT {name}.* in an operator behind the source"
            yield Problem(where(source), what, fix)
        if read.name is not None and read.copies is None and read.name.lower() not in own:
            computed.add(read.name.lower())


def watermarks(subject: Subject) -> Iterator[Problem]:
    """A watermark is on a TIMESTAMP column that the source has."""
    for source in subject.spec.sources:
        known = _computed(source, subject)
        if source.on_error == DEAD_LETTER == null_event_time(source):
            what = "has onError: deadLetter and nullEventTime: deadLetter, and dead letters of two forms"
            yield Problem(
                where(source), what, "say nullEventTime: drop, or let an operator behind the source find such rows"
            )
        if source.watermark is None:
            continue
        if "per_partition" in source.watermark.model_fields_set and not source_of(source.format).records:
            what = f"its watermark has perPartition, and {source.format!r} has no partitions"
            yield Problem(where(source), what, "leave it out: only a topic of Kafka has them")
        if known is None:
            continue
        name = source.watermark.column.strip("`")
        kinds = {column.lower(): kind for column, kind in known.items()}
        if name.lower() in kinds:
            if (kind := kinds[name.lower()]) not in ("timestamp", None):
                yield _of_another_type(source, name, str(kind))
        elif "." in name and name.split(".")[0] in known:
            own = name.rpartition(".")[2]
            how = (
                f"columns: ['*', '{name} AS {own}']" if source.columns is None else f"add '{name} AS {own}' to columns"
            )
            what = f"its watermark is on {name!r}, a field inside of a column"
            yield Problem(where(source), what, f"make it a column of its own, {how}, and name {own!r} in the watermark")
        else:
            yield _of_no_column(source, name, known)


def _of_another_type(source: SourceSpec, name: str, kind: str) -> Problem:
    fix = "let columns compute a TIMESTAMP, for example with to_timestamp(…)"
    if source.columns is None:
        fix = f"make it a TIMESTAMP in the schema, or compute one: columns: ['*', 'to_timestamp({name}) AS at']"
    return Problem(where(source), f"its watermark is on {name!r}, a column of type {kind.upper()}", fix)


def _of_no_column(source: SourceSpec, name: str, known: Mapping[str, str | None]) -> Problem:
    of = "of its schema" if source.columns is None else "that its columns compute"
    what = f"its watermark is on {name!r}, which is not a column {of}"
    if meant := nearest(name, known):
        return Problem(where(source), what, f"did you mean {meant!r}?")
    timestamps = [column for column, kind in known.items() if kind == "timestamp"]
    fix = did_you_mean(name, timestamps, "TIMESTAMP columns")
    if source.columns is None:
        fix += f", or compute it: columns: ['*', '… AS {name}']"
    return Problem(where(source), what, fix)


def connections(subject: Subject) -> Iterator[Problem]:
    """The options of a source make sense, as far as that can be told without its server."""
    for source in subject.spec.sources:
        kind = source_of(source.format)
        yield from option_problems(source, kind.problems(source))
        if source.format not in SOURCES:
            yield from option_problems(source, misplaced(source.options, kind.known, OF_ALL))


def _computed(source: SourceSpec, subject: Subject) -> Mapping[str, str | None] | None:
    """Return a source's columns with their types as far as these are known, or None if the columns are unknown."""
    known = _columns(source)
    if source.python is not None:
        return None
    if source.columns is None:
        return None if known is None else {**known}
    return columns_of((_read(each, subject) for each in source.columns), known)


def _decoded(source: SourceSpec) -> dict[str, str]:
    parts = {"key": source.key, "value": source.value}
    return {name: "string" if each.format == "text" else "struct" for name, each in parts.items() if each is not None}


def _read(text: str, subject: Subject) -> Expression:
    try:
        return read_expression(text, subject.spark_parser)
    except NotAnExpression:
        return Expression()


def _columns(source: SourceSpec) -> Mapping[str, str] | None:
    """Return the columns of a source's format, or None if they are unknown."""
    own = source_of(source.format).columns
    if own is not None and source_of(source.format).schema == "refused":
        return {**own, **_decoded(source), **change_columns(source)}
    if source.schema_ddl is None:
        return own
    try:
        return ddl.columns(source.schema_ddl)
    except NotASchema:
        return None


def bounds(subject: Subject) -> Iterator[Problem]:
    """The format of a bounded source supports an end."""
    for source in subject.spec.sources:
        if source.bounded and source.format in SOURCE_FORMATS - BOUNDED_FORMATS:
            what = f"is bounded, and where {source.format!r} ends is unknown"
            files, others = sorted(BOUNDED_FORMATS & FILE_FORMATS), sorted(BOUNDED_FORMATS - FILE_FORMATS)
            fix = f"bounded sources are files, {', '.join(files)}, and {', '.join(others)}"
            yield Problem(where(source), what, fix)
