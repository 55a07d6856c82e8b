"""JDBC in a job file, as a sink or table: the checks of its options. The database is asked when the job starts.

The options are Spark's. Spark passes unknown ones to the driver, so only those are refused that mean nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from streamjob.job.connectors.connector import AsSink, AsTable, Connector, OptionProblem
from streamjob.job.connectors.datasets import Dataset, Values, first_host, table_name
from streamjob.job.connectors.misplaced import misplaced
from streamjob.job.connectors.options import option

FORMAT = "jdbc"

_DATABASES: Mapping[str, tuple[str, int]] = {
    "db2": ("db2", 50000),
    "mariadb": ("mysql", 3306),
    "mysql": ("mysql", 3306),
    "oracle": ("oracle", 1521),
    "postgresql": ("postgres", 5432),
    "sqlserver": ("mssql", 1433),
}
"""Scheme and port by the second word of a JDBC address."""
_REPLACING = ("truncate", "cascadeTruncate")
_READING = (
    "customSchema", "fetchsize", "lowerBound", "partitionColumn", "prepareQuery", "sessionInitStatement", "upperBound",
)  # fmt: skip
_NOT_OF_SINKS = {
    **dict.fromkeys(_REPLACING, "leave it out: the sink appends rows, and empties no table"),
    **dict.fromkeys(_READING, "leave it out: Spark reads it for tables only"),
}
_NOT_OF_TABLES = dict.fromkeys(("mode", "saveMode", "batchsize", *_REPLACING), "leave it out: the table is only read")
_DATABASE_NAME = re.compile(r"[;?&]database(?:Name)?=([^;&]+)", re.IGNORECASE)


def problems(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Yield problems with a sink's options, with fixes; values are not shown."""
    yield from _url_problems(options)
    yield from misplaced(options, None, _NOT_OF_SINKS)
    table = option(options, "dbtable")
    if option(options, "query") is not None:
        yield OptionProblem(
            "has the option 'query', which only reads", "name the table to write to: dbtable: schema.table"
        )
    elif not table:
        yield OptionProblem("lacks the option 'dbtable'", "add dbtable: schema.table")
    elif table.lstrip().startswith("("):
        yield OptionProblem(
            "the option 'dbtable' holds a query, which only reads", "name the table to write to", "dbtable"
        )


def table_problems(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Yield problems with the options of a table that is read, with fixes; values are not shown."""
    yield from _url_problems(options)
    yield from misplaced(options, None, _NOT_OF_TABLES)
    table, query = option(options, "dbtable"), option(options, "query")
    if not table and not query:
        yield OptionProblem("lacks the option 'dbtable'", "add dbtable: schema.table, or query: SELECT …")
    elif table and query:
        yield OptionProblem("has the options 'dbtable' and 'query'", "keep one of them")


def _url_problems(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    url = option(options, "url")
    if not url:
        yield OptionProblem(
            "lacks the option 'url'", "add url: jdbc:postgresql://host:5432/database, or another URL of the driver"
        )
    elif not url.startswith("jdbc:"):
        yield OptionProblem(
            "the option 'url' is not a JDBC URL", "begin it with jdbc: and the name of the driver", "url"
        )


def _datasets(value: Values) -> Iterator[Dataset]:
    url, table, query = value("url") or "", value("dbtable"), value("query")
    plain = url.removeprefix("jdbc:")
    kind = plain.partition(":")[0].lower()
    scheme, port = _DATABASES.get(kind, (kind or "jdbc", 0))
    # Everything behind these signs is a parameter, and may be a password.
    place = re.split(r"[;?]", plain.partition("//")[2] or plain.rpartition("@")[2], maxsplit=1)[0]
    hosts, _, database = place.partition("/")
    named = _DATABASE_NAME.search(url)
    database = named[1] if named else database
    namespace = f"{scheme}://{first_host(hosts.rpartition('@')[2], port)}"
    names = [table] if table is not None and re.fullmatch(r"[^\s()]+", table) else _tables_in(query or table or "")
    yield from (Dataset(namespace, table_name(database, each, scheme)) for each in names)


def _tables_in(query: str) -> list[str]:
    """Return the tables of a query; none if nobody can tell."""
    import sqlglot
    from sqlglot import exp

    try:
        parsed = sqlglot.parse_one(query.strip())
    except sqlglot.errors.SqlglotError:
        return []
    defined = {each.alias for each in parsed.find_all(exp.CTE)}
    found = [".".join(part.name for part in each.parts) for each in parsed.find_all(exp.Table)]
    return [each for each in dict.fromkeys(found) if each not in defined]


CONNECTOR = Connector(
    name=FORMAT,
    table=AsTable(lookups=True, problems=lambda table: table_problems(table.options)),
    sink=AsSink(problems=lambda sink: problems(sink.options)),
    datasets=_datasets,
)
