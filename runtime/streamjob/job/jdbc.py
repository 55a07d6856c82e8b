"""The options of a JDBC sink, as a job's file gives them; the rest is checked on the database, at the start.

They are Spark's, and what Spark does not know goes to the driver: so none is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from streamjob.job.options import option

FORMAT = "jdbc"

_ADDRESS = re.compile(r"jdbc:|\$\{env:")


def problems(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a sink's options, as written in a file, with the fix; no value is shown."""
    url, table = option(options, "url"), option(options, "dbtable")
    if not url:
        yield "lacks the option 'url'", "add url: jdbc:postgresql://host:5432/database, or another URL of the driver"
    elif not _ADDRESS.match(url):
        yield "the option 'url' is not a JDBC URL", "begin it with jdbc: and the name of the driver"
    if option(options, "query") is not None:
        yield "has the option 'query', which only reads", "name the table to write to: dbtable: schema.table"
    elif not table:
        yield "lacks the option 'dbtable'", "add dbtable: schema.table"
    elif table.lstrip().startswith("("):
        yield "the option 'dbtable' holds a query, which only reads", "name the table to write to"
