"""Checks how records of Kafka are decoded and encoded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamjob.job import kafka
from streamjob.job.checks.subject import Subject, where
from streamjob.job.ddl import NotASchema, columns
from streamjob.job.dead_letters import DEAD_LETTER, dead_letters_of, is_read
from streamjob.job.problem import Problem
from streamjob.job.spec import Encoding, SinkSpec, SourceSpec

_SETTLED = {"mode": "onError decides about records that cannot be decoded", "columnnameofcorruptrecord": "leave it out"}
_RECORD = re.compile(r"[^\s/,]+/[0-9]+/[0-9]+")


def encodings(subject: Subject) -> Iterator[Problem]:
    """Records are decoded and encoded where there are records, with the fields that the form needs."""
    parts: list[SourceSpec | SinkSpec] = [*subject.spec.sources, *subject.spec.sinks]
    for part in parts:
        for name in ("key", "value"):
            encoding: Encoding | None = getattr(part, name)
            if encoding is None:
                continue
            if part.format != kafka.FORMAT:
                fix = "use columns with from_json and the like" if isinstance(part, SourceSpec) else "leave it out"
                yield Problem(where(part), f"has {name}, and the format {part.format!r} has no records", fix)
                continue
            yield from _fields(part, name, encoding)
    for source in subject.spec.sources:
        yield from _errors(source)
        if (
            source.on_error == DEAD_LETTER
            and subject.complete
            and not is_read(dead_letters_of(source.name), subject.spec)
        ):
            name = dead_letters_of(source.name)
            fix = f"add a sink with input: {name}, or say onError: drop"
            yield Problem(where(source), f"has onError: deadLetter, and nothing reads {name!r}", fix)


def _fields(part: SourceSpec | SinkSpec, name: str, encoding: Encoding) -> Iterator[Problem]:
    reads = isinstance(part, SourceSpec)
    if encoding.schema_ddl is not None:
        if not reads:
            yield Problem(where(part), f"{name}.schema: a sink takes the columns of its rows", "leave it out")
        elif encoding.format == "text":
            yield Problem(where(part), f"{name}.schema: a text has no fields", "leave it out, or use json or csv")
        else:
            try:
                columns(encoding.schema_ddl)
            except NotASchema as error:
                yield Problem(where(part), f"{name}.schema {error.what}", error.fix)
    elif reads and encoding.format != "text":
        fix = f"give {name}: {{format: {encoding.format}, schema: 'name TYPE, …'}}"
        yield Problem(where(part), f"{name} has no schema", fix)
    for option in encoding.options:
        if (why := _SETTLED.get(option.lower())) is not None:
            yield Problem(where(part), f"{name}.options has {option!r}", why)


def _errors(source: SourceSpec) -> Iterator[Problem]:
    if source.on_error is not None and source.key is None and source.value is None:
        fix = "give the source value: {format: …, schema: …}, or use try_… functions in columns"
        yield Problem(where(source), "has onError, and decodes nothing", fix)
    if source.skip is None:
        return
    if source.format != kafka.FORMAT:
        yield Problem(where(source), f"has skip, and the format {source.format!r} has no records", "leave it out")
    elif (wrong := next((each for each in _records(source.skip) if not _RECORD.fullmatch(each)), None)) is not None:
        fix = "write topic/partition/offset, separated by commas: orders/3/184467"
        yield Problem(where(source), f"skip has {wrong!r}, which is no record", fix)


def _records(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]
