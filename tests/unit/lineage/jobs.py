"""Jobs whose lineage tests look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.jobs import job_file, sink, source, sql

from streamjob.job.model.reading import read_spec
from streamjob.job.model.spec import JobSpec
from streamjob_runtime.lineage.content import LineageOfJob
from streamjob_runtime.lineage.datasets import datasets_of
from streamjob_runtime.lineage.settings import Parent

_TABLE = {
    "url": "postgresql://app:${env:DB_PASSWORD}@db.shop:5433/shop?sslmode=require",
    "table": "sales",
    "password": "${env:DB_PASSWORD}",
}
_TOPICS = {"kafka.bootstrap.servers": "kafka-1:9092,kafka-2:9092", "subscribe": "orders,returns"}
ORDERS = job_file(
    sql(
        "Priced",
        ["orders", "items"],
        "SELECT upper(o.body) AS Body, i.price FROM orders o JOIN items i ON o.body = i.id WHERE i.price > 3",
    ),
    name="orders",
    sources=[
        source("orders", "kafka", options=_TOPICS, columns=["CAST(value AS STRING) AS body", "timestamp AS at"]),
        source("items", "json", "id BIGINT, price DOUBLE", "s3a://shop/items/"),
    ],
    sinks=[
        sink("Priced", "postgresql", name="table", options=_TABLE),
        sink("Priced", "parquet", "out", name="files"),
    ],
)
SECRET = "hunter2-of-the-database"
ENVIRONMENT = {"DB_PASSWORD": SECRET}


def spec_of(job: dict[str, Any]) -> JobSpec:
    """Return a job."""
    spec = read_spec(job).spec
    assert spec is not None
    return spec


def known(job: dict[str, Any], parent: Parent | None = None) -> LineageOfJob:
    """Return what a job's events say."""
    spec = spec_of(job)
    return LineageOfJob(
        namespace="shop",
        name=spec.name,
        identity="s3://state/shop/orders",
        spec=spec,
        datasets={
            each.name: datasets_of(each, f"shop.{spec.name}", Path("/jobs"), ENVIRONMENT) for each in spec.connectors()
        },
        spark="4.3.0",
        interval=3600,
        parent=parent,
    )
