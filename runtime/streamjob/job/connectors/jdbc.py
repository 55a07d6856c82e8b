"""Checks the options of a JDBC sink or table in a job file. The rest is checked on the database, when the job starts.

The options are Spark's. Spark passes unknown ones to the driver, so no option is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from streamjob.job.connectors.options import option

FORMAT = "jdbc"

_ADDRESS = re.compile(r"jdbc:|\$\{env:")


def problems(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield problems with a sink's options, with fixes; values are not shown."""
    yield from _url_problems(options)
    table = option(options, "dbtable")
    if option(options, "query") is not None:
        yield "has the option 'query', which only reads", "name the table to write to: dbtable: schema.table"
    elif not table:
        yield "lacks the option 'dbtable'", "add dbtable: schema.table"
    elif table.lstrip().startswith("("):
        yield "the option 'dbtable' holds a query, which only reads", "name the table to write to"


def table_problems(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield problems with the options of a table that is read, with fixes; values are not shown."""
    yield from _url_problems(options)
    table, query = option(options, "dbtable"), option(options, "query")
    if not table and not query:
        yield "lacks the option 'dbtable'", "add dbtable: schema.table, or query: SELECT …"
    elif table and query:
        yield "has the options 'dbtable' and 'query'", "keep one of them"


def _url_problems(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    url = option(options, "url")
    if not url:
        yield "lacks the option 'url'", "add url: jdbc:postgresql://host:5432/database, or another URL of the driver"
    elif not _ADDRESS.match(url):
        yield "the option 'url' is not a JDBC URL", "begin it with jdbc: and the name of the driver"
