"""Checks what a job says about the change of its state: renamed columns, and queries over the former state."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from streamjob.job.checks.subject import Subject, where
from streamjob.job.model.problem import Problem
from streamjob.job.model.spec import STATE
from streamjob.job.model.suggest import did_you_mean
from streamjob.job.query.sql import NotAQuery, read_query


def renames(subject: Subject) -> Iterator[Problem]:
    """A column that is renamed gets another name, which no second one gets, and none by a circle."""
    for operator in subject.spec.operators:
        taken: dict[str, str] = {}
        loops = TopologicalSorter({former: [name] for former, name in operator.renames.items() if former != name})
        for former, present in operator.renames.items():
            if not former or not present:
                yield Problem(where(operator), "renames has an empty name", "write it as former: present")
            elif former == present:
                what = f"renames {former!r} to its own name"
                yield Problem(where(operator), what, "write the former name, then the present one; or leave it out")
            elif (other := taken.setdefault(present.lower(), former)) != former:
                what = f"renames both {other!r} and {former!r} to {present!r}"
                yield Problem(where(operator), what, "keep one: a column of state has one former column")
        try:
            loops.prepare()
        except CycleError as error:
            circle = ", ".join(map(repr, reversed(error.args[1][1:])))
            what = f"renames {circle} in a circle: later nobody can tell whether that was done"
            yield Problem(
                where(operator), what, "give them other names; or write a query under `migrate`, with its `from`"
            )


def migrations(subject: Subject) -> Iterator[Problem]:
    """A migration belongs to an operator and has a query, or one for each table, which parse."""
    uids = [each.uid for each in subject.spec.operators]
    for uid, migration in subject.spec.migrate.items():
        part = f"migrate.{uid}"
        if uid not in uids and subject.complete:
            yield Problem(part, "no operator has this uid", did_you_mean(uid, uids, "uids of operators"))
        if migration.sql is not None and migration.sql_file is not None:
            yield Problem(part, "has both sql and sqlFile", "keep one of them")
        elif migration.sql_file is not None:
            files = ", ".join(map(repr, migration.sql_file.values()))
            what = f"its sqlFile {files} cannot be read here: only a job file has other files next to it"
            yield Problem(part, what, "write the query as `sql`")
        elif not migration.sql:
            what = "has `from` and no query, so it changes nothing" if migration.from_ else "has no query"
            yield Problem(part, what, "give it sql: 'SELECT … FROM state'")
        for table, sql in (migration.sql or {}).items():
            try:
                read_query(sql, subject.spark_parser)
            except NotAQuery as error:
                of = "" if table == STATE else f" for {table!r}"
                yield Problem(part, f"its SQL{of} does not parse: {error}", error.fix)
