"""The Iceberg sink in a job file: its options and their checks. The catalog is asked when the job starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from streamjob.job.connectors.connector import BOTH_DELIVERIES, AsSink, AsTable, Connector, OptionProblem
from streamjob.job.connectors.datasets import Dataset, Values, split_address
from streamjob.job.connectors.option_model import (
    MODES,
    MODES_FIX,
    ColumnNames,
    key_problems,
    option_names,
    problems_of,
    refuse_options,
)
from streamjob.job.model.spec_fields import Spec
from streamjob.job.model.suggest import did_you_mean

FORMAT = "iceberg"
CATALOG_TYPES = ("bigquery", "dynamodb", "glue", "hive", "rest", "sql")

_CATALOG = "catalog."
_IMPLEMENTATION = "py-catalog-impl"
_NEED_URI = frozenset({"hive", "rest", "sql"})


class IcebergTableOptions(Spec):
    """A table and its catalog, of a sink or a source."""

    table: str = Field(min_length=1, description="The table, as `namespace.table`, spelled as in the catalog.")
    catalog_type: str | None = Field(
        alias="catalog.type",
        default=None,
        description="`rest`, `sql`, `glue`, `hive`, `dynamodb` or `bigquery`. Default: derived from the URI.",
    )
    catalog_uri: str | None = Field(
        alias="catalog.uri",
        default=None,
        repr=False,
        description="The catalog's address: `https://…` for `rest`, `postgresql://host:5432/database` for `sql`, "
        "`thrift://…` for `hive`. Write a password in it as `${env:NAME}`.",
    )
    catalog_name: str = Field(
        alias="catalog.name",
        default="default",
        min_length=1,
        description="The catalog's name: its key in the database for `sql`. pyiceberg's own settings for this name "
        "apply, too.",
    )
    catalog_warehouse: str | None = Field(
        alias="catalog.warehouse",
        default=None,
        description="The catalog's location for tables, or the name of one of its warehouses.",
    )


class IcebergOptions(IcebergTableOptions):
    """Options of `format: iceberg` with a catalog: the table and its catalog.

    In addition, `catalog.PROPERTY` sets a property of pyiceberg's catalog or of its file access:
    `catalog.s3.endpoint`, `catalog.s3.access-key-id`, `catalog.credential`, …
    """

    mode: Literal["append", "upsert", "replace"] = Field(default="append", description=MODES)
    key: ColumnNames = Field(
        default=(), description="For `upsert`: the columns that identify a row, separated by commas."
    )
    create_table: bool = Field(
        default=False,
        description="Create the table, without partitions, if it does not exist when the job starts. Otherwise a "
        "missing table is an error.",
    )


def catalog_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for pyiceberg's catalog."""
    return {
        name.removeprefix(_CATALOG): value
        for name, value in options.items()
        if name.startswith(_CATALOG) and name != "catalog.name" and value
    }


def parse_options(options: Mapping[str, str], sink: str = "the sink") -> IcebergOptions:
    """Return the validated options of a sink; `sink` names it in messages. Raises UnusableOptions."""
    refuse_options(f"{sink}:", problems(options))
    return IcebergOptions.model_validate(own(options))


def problems(options: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Return problems with a sink's options, with fixes; values are not shown."""

    def further(parsed: IcebergOptions) -> Iterator[OptionProblem]:
        yield from key_problems(parsed.mode, parsed.key, "name the columns that identify a row: key: id")
        yield from table_problems(parsed, catalog_properties(options))

    return problems_of(IcebergOptions, own(options), _ADVICE, further)


def delivery_problems(
    options: Mapping[str, str], delivery: str, partition_by: Sequence[str]
) -> Iterator[OptionProblem]:
    """Yield problems with a sink's delivery: exactly-once uses streamjob's own sink, at-least-once Spark's."""
    if delivery == "exactly-once":
        yield from problems(options)
        if partition_by:
            yield OptionProblem("has partitionBy, and its table says itself how it is partitioned", "leave it out")
        return
    if mode := options.get("mode"):
        what = f"has mode: {mode}, and delivery: at-least-once, for which Spark's own sink is used, which appends"
        yield OptionProblem(what, "leave one of them out")
    if any(option.startswith(_CATALOG) for option in options):
        yield OptionProblem(
            "has the options catalog.…, and delivery: at-least-once, for which Spark's own sink is used",
            "leave delivery out, or configure the catalog in Spark",
        )


def own(options: Mapping[str, str], model: type[IcebergTableOptions] = IcebergOptions) -> dict[str, str]:
    """Return the options without those properties of the catalog that the model does not have."""
    known = option_names(model)
    return {name: value for name, value in options.items() if name in known or not name.startswith(_CATALOG)}


_ADVICE = {
    "table": "add table: namespace.table",
    "mode": MODES_FIX,
    "createTable": "say true or false",
}


def table_problems(options: IcebergTableOptions, properties: Mapping[str, str]) -> Iterator[OptionProblem]:
    """Yield problems with a table's name and its catalog, of which the properties are given."""
    if not all(options.table.split(".")) or "." not in options.table:
        yield OptionProblem("the option 'table' names no table of a namespace", _ADVICE["table"], "table")
    kind = (options.catalog_type or "").lower()
    if kind and kind not in CATALOG_TYPES:
        yield OptionProblem(
            "the option 'catalog.type' is not a known type of catalog",
            did_you_mean(kind, CATALOG_TYPES, "kinds"),
            "catalog.type",
        )
    if not kind and not options.catalog_uri and _IMPLEMENTATION not in properties:
        yield OptionProblem("names no catalog", "add catalog.type, and the options of that type, such as catalog.uri")
    if kind in _NEED_URI and not options.catalog_uri:
        yield OptionProblem(f"lacks the option 'catalog.uri', which a catalog of type {kind} needs", "add catalog.uri")
    if kind == "sql" and not options.catalog_warehouse:
        yield OptionProblem(
            "lacks the option 'catalog.warehouse', which a catalog of type sql needs",
            "add catalog.warehouse: s3://bucket/path",
        )
    uri = options.catalog_uri
    if uri and ":" not in uri:
        yield OptionProblem(
            "the option 'catalog.uri' is not a URL", "write https://…, postgresql://… or thrift://…", "catalog.uri"
        )


def _datasets(value: Values) -> tuple[Dataset]:
    table = value("table") or value("path") or ""
    uri = value("catalog.uri")
    if uri is None:
        return (Dataset(f"iceberg://{value('catalog.type') or 'catalog'}", table),)
    parts = split_address(uri)
    host = parts.netloc.rpartition("@")[2]
    scheme = {"thrift": "hive"}.get(parts.scheme, parts.scheme.partition("+")[0])
    return (Dataset(f"{scheme}://{host}{parts.path.rstrip('/')}", table),)


CONNECTOR = Connector(
    name=FORMAT,
    table=AsTable(),
    sink=AsSink(
        deliveries=BOTH_DELIVERIES,
        own_options=_CATALOG,
        upserts=True,
        replaces=True,
        partitions=True,
        extra=FORMAT,
        options=IcebergOptions,
        problems=lambda sink: delivery_problems(sink.options, sink.delivery, sink.partition_by),
    ),
    path="name",
    datasets=_datasets,
)
