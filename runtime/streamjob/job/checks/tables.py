"""Checks tables: formats, schemas, reloads."""

from __future__ import annotations

from collections.abc import Iterator

from streamjob.job.checks.subject import Subject, option_problems, schema_problems, unknown_format, where
from streamjob.job.connectors.misplaced import OF_ALL, misplaced
from streamjob.job.connectors.registry import table_of
from streamjob.job.model.formats import TABLE_FORMATS
from streamjob.job.model.problem import Problem
from streamjob.job.model.suggest import did_you_mean


def formats(subject: Subject) -> Iterator[Problem]:
    """The format is one that Spark reads as a whole, or a class."""
    for table in subject.spec.tables:
        yield from unknown_format(table, TABLE_FORMATS)


def schemas(subject: Subject) -> Iterator[Problem]:
    """A table has a schema if its format does not tell one, and every schema is one that Spark can read."""
    for table in subject.spec.tables:
        if table.schema_ddl is not None:
            yield from schema_problems(table, "its schema", table.schema_ddl)
        elif table_of(table.format).schema == "needed":
            what = f"has no schema, and {table.format} files do not tell the types of their columns"
            yield Problem(where(table), what, "give schema: 'name TYPE, name TYPE'")


def reloads(subject: Subject) -> Iterator[Problem]:
    """The rows of a table may get as old as the time from one reload to the next."""
    for table in subject.spec.tables:
        if table.max_age is None:
            continue
        if table.refresh is None:
            what = "has maxAge without refresh, so nothing would read it again"
            yield Problem(where(table), what, "add refresh, or leave maxAge out")
        elif table.max_age < table.refresh:
            yield Problem(where(table), "has a maxAge below its refresh", "let maxAge be at least refresh")


def connections(subject: Subject) -> Iterator[Problem]:
    """The options of a table make sense, as far as that can be told without its server."""
    for table in subject.spec.tables:
        yield from option_problems(table, table_of(table.format).problems(table))
        yield from option_problems(table, misplaced(table.options, None, OF_ALL))


def lookups(subject: Subject) -> Iterator[Problem]:
    """A lookup has one input, and a table that is asked for keys."""
    tables = {each.name: each for each in subject.spec.tables}
    for operator in subject.spec.operators:
        if operator.lookup is None:
            continue
        if len(operator.inputs) > 1:
            yield Problem(where(operator), f"has {len(operator.inputs)} inputs and a lookup", "keep one input")
        name = operator.lookup.table
        table = tables.get(name)
        if table is None:
            if name not in subject.unread:
                yield Problem(where(operator), f"has the unknown table {name!r}", did_you_mean(name, tables, "tables"))
        elif table.lookup is None:
            fix = f"give the table lookup: {{}}, or join {name} in a query"
            yield Problem(where(operator), f"looks rows up in {name!r}, a table that is read as a whole", fix)


def asked_tables(subject: Subject) -> Iterator[Problem]:
    """A table that is asked for keys is one of a database, and no query or function reads it."""
    for table in subject.spec.lookup_tables():
        if not table_of(table.format).lookups:
            fix = "leave lookup out: the table is read as a whole, and a query can join it"
            yield Problem(where(table), f"has lookup, and the format {table.format!r} cannot be asked for keys", fix)
        if table.refresh is not None or table.max_age is not None:
            yield Problem(where(table), "has both lookup and refresh", "keep one: lookup.ttl is the age of its rows")
        if table.schema_ddl is not None:
            yield Problem(where(table), "has both lookup and schema", "leave schema out: the database tells it")
        for operator in subject.spec.operators:
            if operator.lookup is None and table.name.lower() in (subject.tables_of(operator) or ()):
                what = f"reads the table {table.name!r} as a whole, and it is asked for keys"
                fix = "join it in an operator with lookup, or leave lookup out of the table"
                yield Problem(where(operator), what, fix)
