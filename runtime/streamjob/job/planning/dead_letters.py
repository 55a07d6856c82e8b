"""Gives a source or operator with `onError: deadLetter` its second output: what it cannot decode or compute.

A record is decoded once, and a row computed once, in a chain of its own. Two operators read that chain through a
channel: one has the name of the source or operator and takes what succeeded, the other one takes the dead letters. So
both outputs belong to the same checkpoints, and each record or row is in one of them, also if the job changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from streamjob.ids import OperatorUid
from streamjob.job.connectors.changes import CHANGE_TYPE, change_columns
from streamjob.job.connectors.options import option
from streamjob.job.model.formats import CHECKED_FILES
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import Input, JobSpec, OperatorSpec, SourceSpec
from streamjob.job.query.quoting import quoted

DEAD_LETTER = "deadLetter"
BROKEN = "__streamjob_dead_letter"
"""The column with the original record or row and its error, or NULL if there was none."""
_DEAD_LETTERS = "_dead_letters"
_RECORDS = "_records"
_TRIED = "_tried"
_ROWS = "_rows"
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def dead_letters_of(part: str) -> str:
    """Return the name by which operators and sinks read the dead letters of a source or operator."""
    return part + _DEAD_LETTERS


def with_dead_letters(spec: JobSpec) -> JobSpec:
    """Return a job in which dead letters are the output of an operator; the job itself if there are none."""
    sources = [each for each in spec.sources if _has_dead_letters(each, spec)]
    operators = [each for each in spec.operators if _has_dead_letters(each, spec)]
    if not sources and not operators:
        return spec
    return spec.model_copy(
        update={
            "sources": tuple(_records(each) if each in sources else each for each in spec.sources),
            "operators": (
                *(made for each in sources for made in _of_source(each, spec)),
                *(
                    made
                    for each in spec.operators
                    for made in (_of_operator(each, spec) if each in operators else [each])
                ),
            ),
        }
    )


def leaves_out_damaged(source: SourceSpec) -> bool:
    """Return whether a source goes on without the files that nothing can read."""
    # A test feeds a Kafka source by JSON files.
    decodes_records = source.key is not None or source.value is not None
    return source.format in CHECKED_FILES and source.on_error in ("drop", DEAD_LETTER) and not decodes_records


def null_event_time(part: SourceSpec | OperatorSpec) -> str | None:
    """Return what a source or operator does with rows without an event time; None if it says nothing."""
    return None if part.watermark is None else part.watermark.null_event_time


def is_read(name: str, spec: JobSpec) -> bool:
    """Return whether an operator or a sink of a job reads a name."""
    edges = [edge.name for each in spec.operators for edge in each.inputs]
    return name in (*edges, *(each.input for each in spec.sinks))


def rows_of(part: OperatorUid) -> OperatorUid:
    """Return the uid of the operator with the rows of a source or operator that has `onError: deadLetter`."""
    return OperatorUid(f"{part}.rows")


def as_written(part: Mapping[str, Any], rows: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the fields of a source or operator without its columns, which may stand in the SQL of its rows.

    Args:
        part: the fields in a job's graph.
        rows: those of the operator with its rows, which has its name, watermark and function; None without one.
    """
    moved = {key: rows[key] for key in ("name", "watermark", "python") if key in rows} if rows is not None else {}
    return {key: value for key, value in {**part, **moved}.items() if key != "columns"}


def functions_of_rows(spec: JobSpec, functions: Mapping[OperatorUid, Callable[..., Any]]) -> dict[OperatorUid, Any]:
    """Return the functions of a job by uid, those of sources with dead letters also by that of their rows.

    Args:
        spec: the job as it was written.
    """
    decoded = [each for each in spec.sources if each.on_error == DEAD_LETTER and each.uid in functions]
    rows = {rows_of(each.uid): functions[each.uid] for each in decoded}
    return {**functions, **rows}


def as_the_author_knows_it(problem: Problem, spec: JobSpec) -> Problem:
    """Return a problem of a job with dead letters about the parts as written, not those that stand for their outputs.

    Args:
        problem: names these parts.
        spec: the job as it was written.
    """
    parts: tuple[SourceSpec | OperatorSpec, ...] = (*spec.sources, *spec.operators)
    for each in parts:
        if DEAD_LETTER not in (each.on_error, null_event_time(each)):
            continue
        kind, suffix = ("source", _RECORDS) if isinstance(each, SourceSpec) else ("operator", _TRIED)
        first, rows = each.name + suffix, each.name + _ROWS
        made = {f"operator {name!r}" for name in (each.name, dead_letters_of(each.name), rows)}
        problem = replace(
            problem,
            where=f"{kind} {each.name!r}" if problem.where in {*made, f"{kind} {first!r}"} else problem.where,
            what=problem.what.replace(repr(first), repr(each.name)),
            fix=problem.fix.replace(repr(first), repr(each.name)).replace(f", {first}", ""),
        )
    return problem


def _has_dead_letters(part: SourceSpec | OperatorSpec, spec: JobSpec) -> bool:
    made = rows_of(part.uid)
    has = DEAD_LETTER in (part.on_error, null_event_time(part))
    return has and all(each.uid != made for each in spec.operators)


def _of_operator(operator: OperatorSpec, spec: JobSpec) -> list[OperatorSpec]:
    tried = operator.name + _TRIED
    made = [operator.model_copy(update={"name": tried, "watermark": None})]
    if operator.on_error != DEAD_LETTER:
        return [*made, *_by_time(operator, spec, tried)]
    good = f"SELECT * EXCEPT (`{BROKEN}`) FROM `{tried}` WHERE `{BROKEN}` IS NULL"
    dead = (
        f"SELECT `{BROKEN}`.row AS row, '{operator.name}' AS operator, `{BROKEN}`.error AS error, "
        f"current_timestamp() AS failed FROM `{tried}` WHERE `{BROKEN}` IS NOT NULL"
    )
    made += _dead_letters(operator, spec, tried, dead)
    return [*made, _operator(operator.name, rows_of(operator.uid), tried, sql=good, **_timed(operator))]


def _records(source: SourceSpec) -> SourceSpec:
    name = source.name + _RECORDS
    if source.on_error != DEAD_LETTER:
        return source.model_copy(update={"name": name, "watermark": None})
    columns = ("*", "_metadata") if source.format in CHECKED_FILES and _reads_metadata(source) else None
    return source.model_copy(update={"name": name, "columns": columns, "python": None, "watermark": None})


def _reads_metadata(source: SourceSpec) -> bool:
    return any("_metadata" in each for each in source.columns or ())


def _by_time(part: SourceSpec | OperatorSpec, spec: JobSpec, rows: str) -> list[OperatorSpec]:
    """Return the operators for the rows with an event time, and for those without."""
    assert part.watermark is not None
    column = quoted(part.watermark.column.strip("`"))
    kind = "source" if isinstance(part, SourceSpec) else "operator"
    dead = (
        f"SELECT to_json(struct(*), map('ignoreNullFields', 'false')) AS row, '{part.name}' AS {kind}, "
        f"'its event time is NULL' AS error, current_timestamp() AS failed FROM `{rows}` WHERE {column} IS NULL"
    )
    good = f"SELECT * FROM `{rows}` WHERE {column} IS NOT NULL"
    timed = _operator(part.name, rows_of(part.uid), rows, sql=good, **_timed(part))
    return [*_dead_letters(part, spec, rows, dead), timed]


def _of_source(source: SourceSpec, spec: JobSpec) -> list[OperatorSpec]:
    if source.on_error != DEAD_LETTER:
        return _by_time(source, spec, source.name + _RECORDS)
    records = f"`{source.name + _RECORDS}`"
    if source.format in CHECKED_FILES:
        return _outputs(source, spec, *_of_files(source, records))
    with_headers = (option(source.options, "includeHeaders") or "").lower() == "true"
    given = (*_COLUMNS, *(["headers"] if with_headers else []))
    names = [f"`{each}`" for each in (*given, *change_columns(source))]
    good = f"SELECT {', '.join(names)} FROM {records} WHERE `{BROKEN}` IS NULL"
    metadata = ", ".join(names[2 : len(given)])
    dead = (
        f"SELECT `{BROKEN}`.key AS key, `{BROKEN}`.value AS value, {metadata}, `{BROKEN}`.error AS error, "
        f"current_timestamp() AS failed FROM {records} WHERE `{BROKEN}` IS NOT NULL"
    )
    if source.changes is not None:
        # An operator must not forget the kind of a change; a dead letter is none.
        dead += f" AND `{CHANGE_TYPE}` IS NULL"
    if source.columns is not None:
        good = f"SELECT {', '.join(source.columns)} FROM ({good})" if source.python is None else good
    return _outputs(source, spec, good, dead)


def _of_files(source: SourceSpec, records: str) -> tuple[str, str]:
    """Return the queries for the good rows of files, and for the dead letters."""
    good = f"SELECT * EXCEPT (`{BROKEN}`) FROM {records} WHERE `{BROKEN}` IS NULL"
    if source.columns is not None:
        own = "* EXCEPT (`_metadata`)" if _reads_metadata(source) else "*"
        computed = [own if each.strip() == "*" else each for each in source.columns]
        good = f"SELECT {', '.join(computed)} FROM ({good})"
    dead = (
        f"SELECT `{BROKEN}`.value AS value, `{BROKEN}`.file AS file, `{BROKEN}`.error AS error, "
        f"current_timestamp() AS failed FROM {records} WHERE `{BROKEN}` IS NOT NULL"
    )
    return good, dead


def _outputs(source: SourceSpec, spec: JobSpec, good: str, dead: str) -> list[OperatorSpec]:
    made, timed = _dead_letters(source, spec, source.name + _RECORDS, dead), _timed(source)
    if source.python is not None:
        rows = source.name + _ROWS
        made.append(_operator(rows, _uid(source, "decoded"), source.name + _RECORDS, sql=good))
        made.append(_operator(source.name, rows_of(source.uid), rows, python=source.python, **timed))
        return made
    made.append(_operator(source.name, rows_of(source.uid), source.name + _RECORDS, sql=good, **timed))
    return made


def _dead_letters(part: SourceSpec | OperatorSpec, spec: JobSpec, reads: str, sql: str) -> list[OperatorSpec]:
    """Return the operator with the dead letters of a part; none if nothing reads it."""
    name = dead_letters_of(part.name)
    return [_operator(name, _uid(part, "dead-letters"), reads, sql=sql)] if is_read(name, spec) else []


def _timed(part: SourceSpec | OperatorSpec) -> dict[str, Any]:
    if part.watermark is None:
        return {}
    # Its rows have an event time.
    by_time = null_event_time(part) == DEAD_LETTER
    return {"watermark": part.watermark.model_copy(update={"null_event_time": None}) if by_time else part.watermark}


def _operator(name: str, uid: OperatorUid, reads: str, **fields: Any) -> OperatorSpec:
    return OperatorSpec(name=name, uid=uid, inputs=(Input.model_validate({"from": reads}),), **fields)


def _uid(of: SourceSpec | OperatorSpec, part: str) -> OperatorUid:
    return OperatorUid(f"{of.uid}.{part}")
