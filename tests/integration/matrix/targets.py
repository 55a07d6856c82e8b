"""The sinks of the matrix, each with the readers that its page names."""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pandas as pd
import psycopg
import pyarrow.orc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from tests.integration.matrix.canonical import from_json, from_text, loads
from tests.integration.sinks.buckets import Bucket
from tests.integration.sinks.databases import Database, add_driver
from tests.integration.sinks.lakes import Lake
from tests.servers.kafka import KafkaServer

from streamjob.job.query.quoting import quoted
from streamjob_runtime.kafka.schemas import avro_schema_of

Row = Mapping[str, Any]
Reader = Callable[["World", t.StructType], Sequence[Row]]


@dataclass(frozen=True)
class World:
    """What a target needs: Spark, an empty directory, and a fixture of a server by its name."""

    spark: SparkSession
    directory: Path
    fixture: Callable[[str], Any]
    name: str = field(default_factory=lambda: f"t{secrets.token_hex(4)}")

    @property
    def bucket(self) -> Bucket:
        found: Bucket = self.fixture("bucket")
        return found

    @property
    def database(self) -> Database:
        found: Database = self.fixture("database")
        return found

    @property
    def lake(self) -> Lake:
        found: Lake = self.fixture("lake")
        return found

    @property
    def kafka(self) -> KafkaServer:
        found: KafkaServer = self.fixture("kafka_server")
        return found


@dataclass(frozen=True)
class Target:
    """A sink and its readers.

    Args:
        options: prepares the sink's target for rows, and returns what a `SinkSpec` has besides name and input.
        readers: by name; each returns the rows as they are, in any order.
        in_bucket: whether tasks need the credentials of the S3 server.
    """

    spec: Callable[[World, t.StructType], Mapping[str, Any]]
    readers: Mapping[str, Reader]
    in_bucket: bool = False


def _files(place: Path) -> list[str]:
    return sorted(str(each) for each in place.rglob("part-*") if not {"_streamjob", "_delta_log"} & set(each.parts))


def _directory(world: World) -> Path:
    return world.directory / "out"


def _objects(world: World) -> Path:
    return world.bucket.directory


def _to_directory(files: str, **options: str) -> Callable[[World, t.StructType], Mapping[str, Any]]:
    def spec(world: World, schema: t.StructType) -> Mapping[str, Any]:
        options_ = {"path": str(_directory(world)), **options}
        return {"format": files, "delivery": "exactly-once", "options": options_}

    return spec


def _to_bucket(files: str, **options: str) -> Callable[[World, t.StructType], Mapping[str, Any]]:
    def spec(world: World, schema: t.StructType) -> Mapping[str, Any]:
        return {"format": files, "options": {"path": world.bucket.path, **options}}

    return spec


def _arrow_rows(table: pyarrow.Table) -> list[Row]:
    """Return rows with dates and times as numbers, since Python does not have all of them."""
    for number, each in enumerate(table.schema):
        as_integer = {pyarrow.date32(): pyarrow.int32(), pyarrow.duration("us"): pyarrow.int64()}.get(each.type)
        if pyarrow.types.is_timestamp(each.type):
            assert each.type.unit == "us", f"column {each.name} has {each.type}"
            as_integer = pyarrow.int64()
        if as_integer is not None:
            table = table.set_column(number, each.name, table.column(number).cast(as_integer))
    rows: list[Row] = table.to_pylist()
    return rows


def _pyarrow_parquet(place: Callable[[World], Path]) -> Reader:
    return lambda world, schema: [
        row for file in _files(place(world)) for row in _arrow_rows(pq.ParquetFile(file).read())
    ]


def _pyarrow_orc(world: World, schema: t.StructType) -> Sequence[Row]:
    # It fails for times that nanoseconds do not hold.
    names = [each.name for each in schema.fields if not isinstance(each.dataType, t.TimestampType)]
    return [row for file in _files(_directory(world)) for row in _arrow_rows(pyarrow.orc.ORCFile(file).read(names))]


def duck(query: str, *values: Any) -> list[Row]:
    """Return the rows of a query of DuckDB."""
    with duckdb.connect() as connection:
        return _arrow_rows(connection.execute(query, list(values)).to_arrow_table())


def _duckdb_parquet(place: Callable[[World], Path]) -> Reader:
    return lambda world, schema: duck("SELECT * FROM read_parquet(?)", _files(place(world)))


def _spark_files(files: str, place: Callable[[World], Path], **options: str) -> Reader:
    def read(world: World, schema: t.StructType) -> Sequence[Row]:
        reader = world.spark.read.format(files).schema(schema).options(mode="FAILFAST", **options)
        return spark_rows(reader.load(_files(place(world))))

    return read


def spark_rows(frame: DataFrame) -> list[Row]:
    """Return rows as Spark has them, in Arrow, which keeps values that Python does not have."""
    from pyspark.sql import functions as f

    kept = [
        f.to_json(quoted(each.name)).alias(each.name) if isinstance(each.dataType, t.VariantType) else quoted(each.name)
        for each in frame.schema.fields
    ]
    months = {each.name for each in frame.schema.fields if isinstance(each.dataType, t.YearMonthIntervalType)}
    columns = [
        f.expr(f"CAST({quoted(name)} AS INT)").alias(name) if (name := frame.columns[number]) in months else each
        for number, each in enumerate(kept)
    ]
    variants = [each.name for each in frame.schema.fields if isinstance(each.dataType, t.VariantType)]
    rows = _arrow_rows(frame.select(*columns).toArrow())
    return [{**row, **{name: None if row[name] is None else loads(row[name]) for name in variants}} for row in rows]


def _typed(row: Mapping[str, str | None], schema: t.StructType) -> Row:
    return {
        each.name: None if (text := row[each.name]) is None else from_text(text, each.dataType)
        for each in schema.fields
    }


def _csv_of_python(place: Callable[[World], Path]) -> Reader:
    def read(world: World, schema: t.StructType) -> Sequence[Row]:
        rows: list[Row] = []
        for file in _files(place(world)):
            with Path(file).open(newline="", encoding="utf-8") as opened:
                rows += [_null_or_text(row, schema) for row in csv.DictReader(opened, strict=True)]
        return rows

    return read


def _null_or_text(row: Mapping[Any, str], schema: t.StructType) -> Row:
    """Python's csv does not tell an empty text from a missing value: an empty one counts as both."""
    texts = {each.name: each.dataType for each in schema.fields}
    return {
        name: EITHER if text == "" and isinstance(texts[name], t.StringType) else
        None if text == "" else from_text(text, texts[name])
        for name, text in row.items()
    }  # fmt: skip


EITHER = object()
"""What a reader that does not tell NULL from an empty text has found, for either."""


def _csv_of_pandas(place: Callable[[World], Path]) -> Reader:
    def read(world: World, schema: t.StructType) -> Sequence[Row]:
        rows: list[Row] = []
        for file in _files(place(world)):
            found = pd.read_csv(file, dtype=str, keep_default_na=False, engine="python")
            rows += [_null_or_text(row, schema) for row in found.to_dict("records")]
        return rows

    return read


def _csv_of_duckdb(place: Callable[[World], Path]) -> Reader:
    def read(world: World, schema: t.StructType) -> Sequence[Row]:
        query = """SELECT * FROM read_csv(?, header = true, all_varchar = true, allow_quoted_nulls = false,
                                          quote = '"', escape = '"', delim = ',', max_line_size = 10000000)"""
        return [_typed(row, schema) for row in duck(query, _files(place(world)))]

    return read


def _json_of_python(place: Callable[[World], Path]) -> Reader:
    def read(world: World, schema: t.StructType) -> Sequence[Row]:
        lines = [line for file in _files(place(world)) for line in Path(file).read_bytes().split(b"\n") if line]
        return [from_json(loads(line), schema) for line in lines]

    return read


def _json_of_duckdb(place: Callable[[World], Path]) -> Reader:
    def read(world: World, schema: t.StructType) -> Sequence[Row]:
        found = duck("SELECT json FROM read_ndjson_objects(?, maximum_object_size = 10000000)", _files(place(world)))
        return [from_json(loads(row["json"]), schema) for row in found]

    return read


_SPARK_CSV = {"header": "true", "escape": '"', "multiLine": "true", "nullValue": "no value is this"}

_CREATED: Mapping[type, str] = {
    t.BooleanType: "boolean", t.ByteType: "smallint", t.ShortType: "smallint", t.IntegerType: "int",
    t.LongType: "bigint", t.FloatType: "real", t.DoubleType: "double precision", t.StringType: "text",
    t.BinaryType: "bytea", t.DateType: "date", t.TimestampType: "timestamptz", t.TimestampNTZType: "timestamp",
    t.DayTimeIntervalType: "interval", t.YearMonthIntervalType: "interval",
}  # fmt: skip


def _to_postgresql(world: World, schema: t.StructType) -> Mapping[str, Any]:
    def column(each: t.StructField) -> str:
        kind = each.dataType
        name = (
            f"numeric({kind.precision},{kind.scale})"
            if isinstance(kind, t.DecimalType)
            else _CREATED.get(type(kind), "json")
        )
        return f"{_identifier(each.name)} {name}"

    world.database.execute(f"CREATE TABLE {world.name} ({', '.join(map(column, schema.fields))})")
    return {"format": "postgresql", "options": world.database.options(world.name)}


def _postgresql_rows(world: World, schema: t.StructType) -> Sequence[Row]:
    server = world.database.server
    address = f"{server.url(world.database.name)}?user={server.role}&password={server.password}"
    with psycopg.connect(
        address, options="-c TimeZone=UTC -c extra_float_digits=3 -c IntervalStyle=iso_8601"
    ) as connection:
        columns = ", ".join(map(_selected, schema.fields))
        found = connection.execute(f"SELECT {columns} FROM {world.name}").fetchall()
    return [
        {
            each.name: from_json(loads(value), each.dataType)
            if value is not None and _is_json(each.dataType)
            else value
            for each, value in zip(schema.fields, row, strict=True)
        }
        for row in found
    ]


def _selected(column: t.StructField) -> str:
    """Return what selects a column; days and microseconds in place of times that Python does not have."""
    name = _identifier(column.name)
    if isinstance(column.dataType, t.DateType):
        return f"{name} - date '1970-01-01'"
    if isinstance(column.dataType, t.TimestampType | t.TimestampNTZType):
        return f"(extract(epoch FROM {name}) * 1000000)::bigint"
    return f"to_jsonb({name})::text" if _is_json(column.dataType) else name


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_json(kind: t.DataType) -> bool:
    return isinstance(kind, t.ArrayType | t.MapType | t.StructType | t.VariantType)


def _to_iceberg(world: World, schema: t.StructType) -> Mapping[str, Any]:
    return {"format": "iceberg", "options": world.lake.options(f"n.{world.name}", createTable="true")}


def _pyiceberg_rows(world: World, schema: t.StructType) -> Sequence[Row]:
    return _arrow_rows(world.lake.load(f"n.{world.name}").scan().to_arrow())


def _to_delta(world: World, schema: t.StructType) -> Mapping[str, Any]:
    return {"format": "delta", "options": {"path": str(_directory(world))}}


def _deltalake_rows(world: World, schema: t.StructType) -> Sequence[Row]:
    return _arrow_rows(DeltaTable(str(_directory(world))).to_pyarrow_table())


def _duckdb_delta(world: World, schema: t.StructType) -> Sequence[Row]:
    return duck("SELECT * FROM read_parquet(?)", DeltaTable(str(_directory(world))).file_uris())


def _to_kafka(value: Mapping[str, Any]) -> Callable[[World, t.StructType], Mapping[str, Any]]:
    def spec(world: World, schema: t.StructType) -> Mapping[str, Any]:
        for topic in (world.name, f"{world.name}-commits"):
            world.kafka.create_topic(topic, 1, **({"cleanup_policy": "compact"} if topic != world.name else {}))
        options = {
            "kafka.bootstrap.servers": world.kafka.bootstrap,
            "topic": world.name,
            "commitsTopic": f"{world.name}-commits",
        }
        return {"format": "kafka", "value": value, "options": options}

    return spec


def _consumed(world: World) -> Iterator[bytes]:
    for message in world.kafka.consume(world.name, isolation="read_committed"):
        assert message.value is not None
        yield message.value


def _json_of_kafka(world: World, schema: t.StructType) -> Sequence[Row]:
    return [from_json(loads(each), schema) for each in _consumed(world)]


def _avro_of_kafka(world: World, schema: t.StructType) -> Sequence[Row]:
    value = t.StructType([t.StructField("value", schema)])
    written = fastavro.parse_schema(_without_times(loads(avro_schema_of(world.spark, value, "value", "value"))))
    rows: list[Any] = [fastavro.schemaless_reader(io.BytesIO(each), written) for each in _consumed(world)]
    return rows


def _without_times(schema: Any) -> Any:
    """Return a schema of Avro in which dates and times are numbers, since Python does not have all of them."""
    if isinstance(schema, list):
        return [_without_times(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: each for key, each in schema.items() if key != "logicalType" or each == "decimal"}
    return {key: _without_times(each) for key, each in kept.items()}


def _to_jdbc(world: World, schema: t.StructType) -> Mapping[str, Any]:
    server = world.database.server
    add_driver(world.spark, world.fixture("postgresql_driver"))
    url = f"jdbc:{server.url(world.database.name)}"
    options = {"url": url, "user": server.role, "password": server.password, "dbtable": world.name}
    return {"format": "jdbc", "options": {**options, "driver": "org.postgresql.Driver"}}


def _parquet(place: Callable[[World], Path]) -> Mapping[str, Reader]:
    return {
        "pyarrow": _pyarrow_parquet(place),
        "DuckDB": _duckdb_parquet(place),
        "Spark": _spark_files("parquet", place),
    }


def _csv(place: Callable[[World], Path]) -> Mapping[str, Reader]:
    return {
        "Python": _csv_of_python(place),
        "pandas": _csv_of_pandas(place),
        "DuckDB": _csv_of_duckdb(place),
        "Spark": _spark_files("csv", place, **_SPARK_CSV),
    }


def _json(place: Callable[[World], Path]) -> Mapping[str, Reader]:
    return {"Python": _json_of_python(place), "DuckDB": _json_of_duckdb(place), "Spark": _spark_files("json", place)}


TARGETS: Mapping[str, Target] = {
    "parquet": Target(_to_directory("parquet"), _parquet(_directory)),
    "csv": Target(_to_directory("csv", header="true"), _csv(_directory)),
    "json": Target(_to_directory("json"), _json(_directory)),
    "orc": Target(_to_directory("orc"), {"pyarrow": _pyarrow_orc, "Spark": _spark_files("orc", _directory)}),
    "parquet in a bucket": Target(_to_bucket("parquet"), _parquet(_objects), in_bucket=True),
    "csv in a bucket": Target(_to_bucket("csv", header="true"), _csv(_objects), in_bucket=True),
    "json in a bucket": Target(_to_bucket("json"), _json(_objects), in_bucket=True),
    "iceberg": Target(_to_iceberg, {"pyiceberg": _pyiceberg_rows}),
    "delta": Target(_to_delta, {"deltalake": _deltalake_rows, "DuckDB": _duckdb_delta}),
    "postgresql": Target(_to_postgresql, {"psycopg": _postgresql_rows}),
    "jdbc": Target(_to_jdbc, {"psycopg": _postgresql_rows}),
    "kafka, json": Target(_to_kafka({"format": "json"}), {"a consumer": _json_of_kafka}),
    "kafka, avro": Target(_to_kafka({"format": "avro"}), {"a consumer": _avro_of_kafka}),
}
