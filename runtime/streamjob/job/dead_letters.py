"""Gives a source with `onError: deadLetter` its second output: the records that it cannot decode.

A record is decoded once, in a chain of its own. Two operators read that chain through a channel: one has the name of
the source and takes the decoded records, the other one takes the dead letters. So both outputs belong to the same
checkpoints, and each record is in one of them, also if the job changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamjob.ids import OperatorUid
from streamjob.job.options import option
from streamjob.job.problem import Problem
from streamjob.job.spec import Input, JobSpec, OperatorSpec, SourceSpec

DEAD_LETTER = "deadLetter"
BROKEN = "__streamjob_dead_letter"
"""The column of a source with the original bytes and the error of a record that could not be decoded, or NULL."""
_DEAD_LETTERS = "_dead_letters"
_RECORDS = "_records"
_ROWS = "_rows"
_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def dead_letters_of(source: str) -> str:
    """Return the name by which operators and sinks read the dead letters of a source."""
    return source + _DEAD_LETTERS


def with_dead_letters(spec: JobSpec) -> JobSpec:
    """Return a job in which dead letters are the output of an operator; the job itself if there are none."""
    sources = [each for each in spec.sources if _has_dead_letters(each, spec)]
    if not sources:
        return spec
    return spec.model_copy(
        update={
            "sources": tuple(_records(each) if each in sources else each for each in spec.sources),
            "operators": (*(made for each in sources for made in _operators(each, spec)), *spec.operators),
        }
    )


def is_read(name: str, spec: JobSpec) -> bool:
    """Return whether an operator or a sink of a job reads a name."""
    edges = [edge.name for each in spec.operators for edge in each.inputs]
    return name in (*edges, *(each.input for each in spec.sinks))


def functions_of_rows(spec: JobSpec, functions: Mapping[OperatorUid, Callable[..., Any]]) -> dict[OperatorUid, Any]:
    """Return the functions of a job by uid, those of sources with dead letters also by that of their rows."""
    rows = {_uid(each, "rows"): functions[each.uid] for each in spec.sources if each.uid in functions}
    return {**functions, **rows}


def as_the_author_knows_it(problem: Problem, sources: Sequence[SourceSpec]) -> Problem:
    """Return a problem of a job with dead letters with the source in place of the parts that stand for its outputs.

    Args:
        problem: names these parts.
        sources: those of the job as it was written.
    """
    for each in sources:
        if each.on_error != DEAD_LETTER:
            continue
        records, rows = each.name + _RECORDS, each.name + _ROWS
        made = {f"operator {name!r}" for name in (each.name, dead_letters_of(each.name), rows)}
        problem = replace(
            problem,
            where=f"source {each.name!r}" if problem.where in {*made, f"source {records!r}"} else problem.where,
            what=problem.what.replace(repr(records), repr(each.name)),
            fix=problem.fix.replace(repr(records), repr(each.name)).replace(f", {records}", ""),
        )
    return problem


def _has_dead_letters(source: SourceSpec, spec: JobSpec) -> bool:
    made = _uid(source, "rows")
    return source.on_error == DEAD_LETTER and all(each.uid != made for each in spec.operators)


def _records(source: SourceSpec) -> SourceSpec:
    name = source.name + _RECORDS
    return source.model_copy(update={"name": name, "columns": None, "python": None, "watermark": None})


def _operators(source: SourceSpec, spec: JobSpec) -> list[OperatorSpec]:
    with_headers = (option(source.options, "includeHeaders") or "").lower() == "true"
    names = [f"`{each}`" for each in (*_COLUMNS, *(["headers"] if with_headers else []))]
    records = f"`{source.name + _RECORDS}`"
    good = f"SELECT {', '.join(names)} FROM {records} WHERE `{BROKEN}` IS NULL"
    metadata = ", ".join(names[2:])
    dead = (
        f"SELECT `{BROKEN}`.key AS key, `{BROKEN}`.value AS value, {metadata}, `{BROKEN}`.error AS error, "
        f"current_timestamp() AS failed FROM {records} WHERE `{BROKEN}` IS NOT NULL"
    )
    made = []
    if is_read(dead_letters_of(source.name), spec):
        name = dead_letters_of(source.name)
        made.append(_operator(name, _uid(source, "dead-letters"), source.name + _RECORDS, sql=dead))
    timed = {"watermark": source.watermark} if source.watermark is not None else {}
    if source.python is not None:
        rows = source.name + _ROWS
        made.append(_operator(rows, _uid(source, "decoded"), source.name + _RECORDS, sql=good))
        made.append(_operator(source.name, _uid(source, "rows"), rows, python=source.python, **timed))
        return made
    if source.columns is not None:
        good = f"SELECT {', '.join(source.columns)} FROM ({good})"
    made.append(_operator(source.name, _uid(source, "rows"), source.name + _RECORDS, sql=good, **timed))
    return made


def _operator(name: str, uid: OperatorUid, reads: str, **fields: Any) -> OperatorSpec:
    return OperatorSpec(name=name, uid=uid, inputs=(Input.model_validate({"from": reads}),), **fields)


def _uid(source: SourceSpec, part: str) -> OperatorUid:
    return OperatorUid(f"{source.uid}.{part}")
