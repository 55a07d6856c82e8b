"""The compared sides: each as a job of streamjob, or as the name of a query in plain Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.by_hand.data import (
    DELAY,
    FILE_ROWS,
    ORDER_AVRO,
    ORDER_DDL,
    ORDER_PROTO,
    ORDERS_DDL,
    RATES_DDL,
    make_csv,
    make_files,
)

BATCH = FILE_ROWS
"""Most records that a batch from Kafka has."""
WARM_UP = 8
"""Batches at the beginning of a run that do not count: Java compiles meanwhile."""
SLOTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run reads and writes.

    Args:
        kafka: the broker.
        topic: with the values, empty if the run reads files.
        files: the directory of the files.
        jdbc: options to log in to the database.
        driver: the JDBC driver.
        out: directory for the rows; None: they are discarded.
        dead: directory for what cannot be decoded.
    """

    kafka: str = ""
    topic: str = ""
    files: str = ""
    jdbc: Mapping[str, str]
    driver: str = ""
    out: str | None = None
    dead: str = ""


Job = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A way to do something: a job of streamjob, or a query in plain Spark.

    Args:
        title: in the report.
        job: makes the job.
        query: the name of the query, see `plain_side`.
        base: the side of the same case that this one is compared with.
        keeps_bad: whether what cannot be decoded is written, too.
    """

    title: str
    job: Callable[[Place], Job] | None = None
    query: str = ""
    base: str | None = None
    keeps_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Something that is done in several ways.

    Args:
        title: in the report.
        text: the setting, in the report.
        sides: the ways.
        form: that of the values in Kafka, see `data.FORMS`; None: files are read.
        batch: records of a batch.
        batches: how many batches a run has.
        open: so many of the last rows plain Spark leaves open, so they are not compared.
        make: makes the files.
    """

    title: str
    text: str
    sides: Mapping[str, Side]
    form: str | None = None
    batch: int = BATCH
    batches: int = 24
    open: int = 0
    make: Callable[[Path, int], None] = make_files

    @property
    def records(self) -> int:
        """The records of a run."""
        return self.batch * self.batches


def _job(place: Place, sources: list[Job], operators: list[Job], rows: str, **more: Any) -> Job:
    out = {"format": "parquet", "options": {"path": place.out}} if place.out else {"format": "noop"}
    return {
        "name": "by-hand",
        "parallelism": SLOTS,
        "maxParallelism": SLOTS,
        "checkpointing": {"interval": "10s"},
        "sources": sources,
        "operators": operators,
        "sinks": [{"name": "rows", "input": rows, **out}, *more.pop("sinks", [])],
        **more,
    }


def _decoding(value: Job, on_error: str = "fail", watermark: bool = False) -> Callable[[Place], Job]:
    def job(place: Place) -> Job:
        source: Job = {
            "name": "orders",
            "format": "kafka",
            "bounded": True,
            "options": {
                "kafka.bootstrap.servers": place.kafka,
                "subscribe": place.topic,
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(BATCH),
            },
            "value": value,
            "onError": on_error,
            "columns": ["value.*"],
        }
        if watermark:
            source["watermark"] = {"column": "at", "delay": f"{DELAY}s"}
        dead = {"name": "dead", "input": "orders_dead_letters", "format": "json", "options": {"path": place.dead}}
        return _job(place, [source], [], "orders", sinks=[dead] if on_error == "deadLetter" else [])

    return job


def _orders(place: Place, files: int, watermark: bool = False) -> Job:
    return _files(place, "orders", ORDERS_DDL, files, "at" if watermark else None)


def _files(place: Place, name: str, schema: str, files: int, time: str | None) -> Job:
    source = {
        "name": name,
        "format": "parquet",
        "schema": schema,
        "bounded": True,
        "options": {"path": f"{place.files}/{name}", "maxFilesPerTrigger": str(files)},
    }
    return {**source, "watermark": {"column": time, "delay": f"{DELAY}s"}} if time else source


def _csv(place: Place) -> Job:
    options = {"path": f"{place.files}/csv", "maxFilesPerTrigger": "1", "header": "true"}
    source = {"name": "orders", "format": "csv", "schema": ORDERS_DDL, "bounded": True, "options": options}
    return _job(place, [source], [], "orders")


def _static(place: Place) -> Job:
    products = {"name": "products", "format": "parquet", "options": {"path": f"{place.files}/products"}}
    sql = "SELECT o.*, p.name, p.price FROM orders o LEFT JOIN products p ON o.product = p.product"
    priced = {"name": "priced", "inputs": ["orders"], "sql": sql}
    return _job(place, [_orders(place, 4)], [priced], "priced", tables=[products])


def _lookup(cache: int) -> Callable[[Place], Job]:
    def job(place: Place) -> Job:
        options = {**place.jdbc, "password": "${env:BENCH_PASSWORD}", "dbtable": "products"}
        products = {"name": "products", "format": "jdbc", "options": options, "lookup": {"cacheRows": cache}}
        how = {"table": "products", "on": ["product"], "select": ["name", "price"], "join": "left"}
        priced = {"name": "priced", "inputs": ["orders"], "lookup": how}
        jar = {"spark.jars": place.driver}
        return _job(place, [_orders(place, 1)], [priced], "priced", tables=[products], sparkConf=jar)

    return job


def _temporal(place: Place) -> Job:
    sources = [_orders(place, 1, watermark=True), _files(place, "rates", RATES_DDL, 1, "since")]
    join = {"on": ["region"], "select": ["rate"], "join": "left"}
    converted = {"name": "converted", "inputs": ["orders", "rates"], "temporalJoin": join}
    return _job(place, sources, [converted], "converted")


_JSON = {"format": "json", "schema": ORDER_DDL}


def _bad_rows() -> Mapping[str, Side]:
    return {
        "drop by hand": Side(title="plain Spark, `PERMISSIVE` and a filter", query="drop"),
        "drop": Side(title="streamjob, `onError: drop`", job=_decoding(_JSON, "drop"), base="drop by hand"),
        "dead letters by hand": Side(
            title="plain Spark, `PERMISSIVE`, `foreachBatch`: `persist`, two writes",
            query="dead_letters",
            keeps_bad=True,
        ),
        "dead letters": Side(
            title="streamjob, `onError: deadLetter`",
            job=_decoding(_JSON, "deadLetter"),
            base="dead letters by hand",
            keeps_bad=True,
        ),
    }


CASES: Mapping[str, Case] = {
    "json": Case(
        title="Decoding JSON",
        text="A topic of orders as JSON, about 170 bytes each, with six fields. A broken record ends the job.",
        form="json",
        sides={
            "by hand": Side(title="plain Spark, `from_json` with `FAILFAST`", query="failfast"),
            "streamjob": Side(title="streamjob, `value: {format: json}`", job=_decoding(_JSON), base="by hand"),
            "event time by hand": Side(title="plain Spark, with `withWatermark`", query="watermark"),
            "event time": Side(
                title="streamjob, with `watermark`", job=_decoding(_JSON, watermark=True), base="event time by hand"
            ),
        },
    ),
    "csv": Case(
        title="Decoding CSV",
        text="Files of orders as CSV with a header, 250,000 in each. A broken record ends the job.",
        make=make_csv,
        sides={
            "by hand": Side(title="plain Spark, `csv` with `FAILFAST`", query="csv"),
            "streamjob": Side(title="streamjob, `format: csv`", job=_csv, base="by hand"),
        },
    ),
    "protobuf": Case(
        title="Decoding Protobuf",
        text=(
            "The same orders. PySpark has no `from_protobuf`, and its module for Spark 4.3 could not be had, so by hand"
            " it is Google's library in a `pandas_udf`."
        ),
        form="protobuf",
        sides={
            "by hand": Side(title="plain Spark, Protobuf in a `pandas_udf`", query="protobuf"),
            "streamjob": Side(
                title="streamjob, `value: {format: protobuf}`",
                job=_decoding(
                    {"format": "protobuf", "schema": ORDER_PROTO, "options": {"emit.default.values": "true"}}
                ),
                base="by hand",
            ),
        },
    ),
    "avro": Case(
        title="Decoding Avro",
        text="The same orders. PySpark has no `from_avro`, and its module for Spark 4.3 could not be had.",
        form="avro",
        sides={
            "streamjob": Side(
                title="streamjob, `value: {format: avro}`", job=_decoding({"format": "avro", "schema": ORDER_AVRO})
            ),
        },
    ),
    "none bad": Case(
        title="Bad rows: none of them bad",
        text="JSON as above. Records that cannot be decoded would be dropped, or written to JSON files with the error.",
        form="json",
        sides=_bad_rows(),
    ),
    "some bad": Case(
        title="Bad rows: 1 % of them", text="Every hundredth value is cut off.", form="bad", sides=_bad_rows()
    ),
    "table": Case(
        title="Join with a table",
        text="Orders in Parquet files, a million in a batch, and 10,000 products in another file.",
        batch=4 * FILE_ROWS,
        batches=24,
        sides={
            "by hand": Side(title="plain Spark, join with a static DataFrame", query="table"),
            "streamjob": Side(title="streamjob, `tables`", job=_static, base="by hand"),
        },
    ),
    "lookup": Case(
        title="Lookup",
        text=(
            "Orders in Parquet files, 250,000 in a batch, and a table of 10,000 products in PostgreSQL. By hand, the"
            " keys of a batch are collected, and one query by JDBC asks for them."
        ),
        batches=24,
        sides={
            "by hand": Side(title="plain Spark, `foreachBatch` with a query by JDBC", query="lookup"),
            "streamjob": Side(title="streamjob, `lookup` with its cache", job=_lookup(100_000), base="by hand"),
            "uncached": Side(title="streamjob, `lookup: {cacheRows: 0}`", job=_lookup(0), base="by hand"),
        },
    ),
    "versions": Case(
        title="Temporal join",
        text=(
            "Orders and rates in Parquet files with event times, 250,000 orders in a batch, and 200 keys. Plain Spark"
            " has no such join. By hand it is `applyInPandasWithState` with `merge_asof`, its state pickled. The join"
            " with a table above is a lower bound, without event time and state."
        ),
        batches=24,
        open=15_000,
        sides={
            "by hand": Side(title="plain Spark, `applyInPandasWithState`", query="versions"),
            "streamjob": Side(title="streamjob, `temporalJoin`", job=_temporal, base="by hand"),
        },
    ),
}
