"""Jobs whose lineage tests look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamjob.job.model.reading import read_spec
from streamjob.job.model.spec import JobSpec
from streamjob_runtime.lineage.content import LineageOfJob
from streamjob_runtime.lineage.datasets import datasets_of
from streamjob_runtime.lineage.settings import Parent

ORDERS: dict[str, Any] = {
    "name": "orders",
    "sources": [
        {
            "name": "orders",
            "format": "kafka",
            "options": {"kafka.bootstrap.servers": "kafka-1:9092,kafka-2:9092", "subscribe": "orders,returns"},
            "columns": ["CAST(value AS STRING) AS body", "timestamp AS at"],
        },
        {
            "name": "items",
            "format": "json",
            "schema": "id BIGINT, price DOUBLE",
            "options": {"path": "s3a://shop/items/"},
        },
    ],
    "operators": [
        {
            "name": "Priced",
            "inputs": ["orders", "items"],
            "sql": "SELECT upper(o.body) AS Body, i.price FROM orders o "
            "JOIN items i ON o.body = i.id WHERE i.price > 3",
        }
    ],
    "sinks": [
        {
            "name": "table",
            "input": "Priced",
            "format": "postgresql",
            "options": {
                "url": "postgresql://app:${env:DB_PASSWORD}@db.shop:5433/shop?sslmode=require",
                "table": "sales",
                "password": "${env:DB_PASSWORD}",
            },
        },
        {"name": "files", "input": "Priced", "format": "parquet", "options": {"path": "out"}},
    ],
}
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
