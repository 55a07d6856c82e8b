"""The PostgreSQL sink in a job file: its options and their checks. The server is asked when the job starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from streamjob.job.connectors.connector import AsSink, Connector, OptionProblem
from streamjob.job.connectors.datasets import Dataset, Values, first_host, split_address, table_name
from streamjob.job.connectors.option_model import (
    MODES,
    MODES_FIX,
    ColumnNames,
    key_problems,
    problems_of,
    refuse_options,
)
from streamjob.job.model.spec_fields import Spec

FORMAT = "postgresql"

_IDENTIFIER_BYTES = 63
_ADDRESS = re.compile(r"postgres(ql)?://")


class PostgresqlOptions(Spec):
    """Options of `format: postgresql`: the table and the way of writing to it."""

    url: str = Field(
        min_length=1,
        description="The server and database, as `postgresql://host:5432/database`; parameters of libpq follow a `?`, "
        "such as `sslmode=verify-full`. Several hosts are tried in turn.",
    )
    user: str | None = Field(default=None, description="The role. Default: from the URL or `PGUSER`.")
    password: str | None = Field(
        default=None,
        repr=False,
        description="The role's password, as `${env:NAME}`. Default: from `PGPASSWORD` or the file of `PGPASSFILE`.",
    )
    table: str = Field(min_length=1, description="The table, as `table` or `schema.table`, spelled as in the catalog.")
    mode: Literal["insert", "upsert", "replace"] = Field(
        default="insert", description=MODES.replace("append", "insert", 1)
    )
    key: ColumnNames = Field(
        default=(),
        description="For `upsert`: the columns of a unique index or the primary key, separated by commas.",
    )
    staging_schema: str = Field(
        default="streamjob",
        min_length=1,
        description="The schema for rows that no checkpoint covers yet and for the records of commits. It is created "
        "if it is missing and the role has the right.",
    )

    def table_name(self) -> tuple[str | None, str]:
        """Return the table's schema, or None for the first in the search path that has it, and the table's name."""
        schema, dot, table = self.table.partition(".")
        return (schema, table) if dot else (None, schema)


def parse_options(options: Mapping[str, str], sink: str = "the sink") -> PostgresqlOptions:
    """Return the validated options of a sink; `sink` names it in messages. Raises UnusableOptions."""
    refuse_options(f"{sink}:", problems(options))
    return PostgresqlOptions.model_validate(dict(options))


def problems(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Return problems with a sink's options, with fixes; values are not shown."""
    return problems_of(PostgresqlOptions, options, _ADVICE, _further_problems)


_ADVICE = {
    "url": "add url: postgresql://host:5432/database",
    "table": "add table: schema.table",
    "mode": MODES_FIX.replace("append", "insert"),
}


def _further_problems(options: PostgresqlOptions) -> Iterator[OptionProblem]:
    if not _ADDRESS.match(options.url):
        yield OptionProblem(
            "the option 'url' is not the address of a PostgreSQL server", "write postgresql://host:5432/database", "url"
        )
    yield from key_problems(options.mode, options.key, "name the columns of a unique index: key: id")
    for option, names in (
        ("table", [part for part in options.table_name() if part is not None]),
        ("key", options.key),
        ("stagingSchema", (options.staging_schema,)),
    ):
        if any(not name or len(name.encode()) > _IDENTIFIER_BYTES for name in names):
            yield OptionProblem(
                f"the option {option!r} holds a name that PostgreSQL cannot have",
                f"names have 1 to {_IDENTIFIER_BYTES} bytes",
                option,
            )


def _datasets(value: Values) -> tuple[Dataset]:
    parts = split_address(value("url") or "")
    host = first_host(parts.netloc.rpartition("@")[2], 5432)
    return (Dataset(f"postgres://{host}", table_name(parts.path.strip("/"), value("table") or "", "postgres")),)


CONNECTOR = Connector(
    name=FORMAT,
    sink=AsSink(
        deliveries=("exactly-once",),
        upserts=True,
        replaces=True,
        batches=True,
        extra=FORMAT,
        options=PostgresqlOptions,
        problems=lambda sink: problems(sink.options),
    ),
    datasets=_datasets,
)
