"""The input of the checks: a job and its surroundings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from streamjob.ids import OperatorUid
from streamjob.job.connectors.connector import OptionProblem
from streamjob.job.connectors.options import environment_names, option
from streamjob.job.model.formats import is_class_name
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import JobSpec, Node, OperatorSpec, SinkSpec, SourceSpec, TableSpec
from streamjob.job.model.suggest import did_you_mean
from streamjob.job.planning.dead_letters import DEAD_LETTER, dead_letters_of, is_read, null_event_time
from streamjob.job.planning.loops import loops_of
from streamjob.job.query.ddl import NotASchema, columns
from streamjob.job.query.event_time import have_event_time, retimed
from streamjob.job.query.sql import NotAQuery, read_query


@dataclass(frozen=True)
class Subject:
    """A job to check.

    Args:
        directory: the job file's directory.
        functions: functions of sources and operators in Python, by uid.
        spark_parser: returns why Spark cannot parse a query, or None.
        unread: names of parts that exist but could not be read into `spec`.
        complete: nothing is missing in `spec`, with or without a name.
    """

    spec: JobSpec
    directory: Path
    functions: Mapping[OperatorUid, Callable[..., Any]]
    spark_parser: Callable[[str], str | None] | None = None
    unread: frozenset[str] = frozenset()
    complete: bool = True

    @cached_property
    def loops(self) -> dict[str, tuple[str, ...]]:
        """The operators in loops, each with all operators of its loop."""
        return loops_of(self.spec)

    @cached_property
    def retimed(self) -> frozenset[str]:
        """The operators that give their rows an event time in place of that of their inputs."""
        return retimed(self.spec, self.loops)

    @cached_property
    def unknown_inputs(self) -> set[str]:
        """Names that are read but do not exist; they are a problem of their own."""
        named = {edge.name for operator in self.spec.operators for edge in operator.inputs}
        named |= {sink.input for sink in self.spec.sinks}
        return named - self.spec.inputs().keys() - self.unread

    def tables_of(self, operator: OperatorSpec) -> frozenset[str] | None:
        """Return the tables that an operator reads, in lower case; None if only Spark knows."""
        if operator.lookup is not None:
            return frozenset({operator.lookup.table.lower()})
        if operator.sql is None:
            return frozenset(each.lower() for each in operator.tables or ())
        try:
            read = read_query(operator.sql).tables
        except NotAQuery:
            return None
        return None if read is None else read & self.spec.table_names()

    def sources_of(self, names: Iterable[str]) -> list[SourceSpec]:
        """Return the sources whose rows reach the given parts; rows that pass through loops have no event time."""
        reached: dict[bool, set[str]] = {False: set(names), True: set()}
        waiting = [(name, False) for name in reached[False]]
        while waiting:
            current, looped = waiting.pop()
            beyond = looped or current in self.loops
            # Sets: this runs once for each windowed operator, over all operators before it.
            found = self._read_by.get(current, frozenset()) - reached[beyond]
            reached[beyond] |= found
            waiting.extend((each, beyond) for each in found)
        return [
            each if each.name in reached[False] else each.model_copy(update={"watermark": None})
            for each in self.spec.sources
            if each.name in reached[False] or each.name in reached[True]
        ]

    def have_event_time(self, names: Iterable[str]) -> bool:
        """Return whether the rows of some parts have event time; the output of a loop has none."""
        return have_event_time(self.spec, names, self.loops)

    @cached_property
    def _read_by(self) -> dict[str, frozenset[str]]:
        return {each.name: frozenset(edge.name for edge in each.inputs) for each in self.spec.operators}


def option_problems(part: SourceSpec | TableSpec | SinkSpec, problems: Iterable[OptionProblem]) -> Iterator[Problem]:
    """Yield problems with a part's options that can be told here; values from the environment are checked in place."""
    for what, fix, name in problems:
        if name is None or not any(environment_names(option(part.options, name) or "")):
            yield Problem(where(part), what, fix)


def unknown_format(part: SourceSpec | TableSpec | SinkSpec, known: Collection[str]) -> Iterator[Problem]:
    """Yield a problem if the format of a part is none of those that are known, and no class."""
    if part.format not in known and not is_class_name(part.format):
        fix = did_you_mean(part.format, known, "formats")
        yield Problem(where(part), f"has the unknown format {part.format!r}", fix)


def schema_problems(part: Node | TableSpec, what: str, schema: str) -> Iterator[Problem]:
    """Yield why Spark would refuse a schema; `what` names it, as in `its schema`."""
    try:
        columns(schema)
    except NotASchema as error:
        yield error.problem(where(part), f"{what} ")


def where(node: Node | TableSpec) -> str:
    """Return the name of a part in messages: `operator 'delays'`."""
    kind = {SourceSpec: "source", TableSpec: "table", OperatorSpec: "operator", SinkSpec: "sink"}[type(node)]
    return f"{kind} {node.name!r}"


def unread_dead_letters(subject: Subject, part: SourceSpec | OperatorSpec) -> Iterator[Problem]:
    """Yield a problem if a source or operator has dead letters that nothing reads."""
    name = dead_letters_of(part.name)
    if not subject.complete or is_read(name, subject.spec):
        return
    for field, said in (("onError", part.on_error), ("nullEventTime", null_event_time(part))):
        if said == DEAD_LETTER:
            fix = f"add a sink with input: {name}, or say {field}: drop"
            yield Problem(where(part), f"has {field}: deadLetter, and nothing reads {name!r}", fix)
