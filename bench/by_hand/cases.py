"""The compared sides: each as a job of streamjob, or as the name of a query in plain Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.by_hand.data import DELAY, FILE_ROWS, ORDER_DDL, ORDERS_DDL

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
        out: directory for the rows; None: they are discarded.
        dead: directory for what cannot be decoded.
    """

    kafka: str = ""
    topic: str = ""
    files: str = ""
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
        form: that of the values in Kafka, see `data.FORMS`; None: CSV files are read.
        batches: how many batches a run has.
    """

    title: str
    text: str
    sides: Mapping[str, Side]
    form: str | None = None
    batches: int = 24

    @property
    def records(self) -> int:
        """The records of a run."""
        return BATCH * self.batches


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


def _csv(place: Place) -> Job:
    options = {"path": f"{place.files}/csv", "maxFilesPerTrigger": "1", "header": "true"}
    source = {"name": "orders", "format": "csv", "schema": ORDERS_DDL, "bounded": True, "options": options}
    return _job(place, [source], [], "orders")


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
        sides={
            "by hand": Side(title="plain Spark, `csv` with `FAILFAST`", query="csv"),
            "streamjob": Side(title="streamjob, `format: csv`", job=_csv, base="by hand"),
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
}
