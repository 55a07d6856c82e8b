"""Joins with a table of a database that is asked for the keys of each batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.runtime.embedded import Life, finish, running
from tests.integration.runtime.graphs import job, output, rows_of
from tests.integration.runtime.power import Power
from tests.integration.runtime.purchases import add_file, write_job
from tests.integration.runtime.stories import NEVER
from tests.integration.sinks.databases import Database, add_driver
from tests.jobs import sql

from streamjob.protocol.lifecycle import JobState
from streamjob_runtime.tables.keys import InvalidJoin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.server]

LOOKUP = {"table": "products", "on": ["product = id", "region"], "select": ["name", "price AS cost"]}
AT = "2026-01-01T12:{:02d}:00Z"


@pytest.fixture
def products(
    spark: SparkSession, database: Database, postgresql_driver: Path, monkeypatch: pytest.MonkeyPatch
) -> Database:
    """Return a database with products, whose password is in the environment, and whose driver Spark has."""
    monkeypatch.setenv("STREAMJOB_TEST_PASSWORD", database.server.password)
    add_driver(spark, postgresql_driver)
    database.execute('CREATE TABLE products (id int, region text, "name" text, price numeric(10, 2))')
    for number in range(6):
        database.execute(f"INSERT INTO products VALUES ({number}, 'eu', 'p{number}', {number}.5)")
    database.execute("INSERT INTO products VALUES (1, 'eu', 'again', 9)")
    return database


def shop(
    directory: Path, database: Database, *, bounded: bool = False, policy: Any = None, then: bool = False, **lookup: Any
) -> Path:
    """Write a job that looks products up for orders, and perhaps counts them in windows."""
    (directory / "in").mkdir(exist_ok=True)
    schema, watermark = "id INT, product INT, region STRING, at TIMESTAMP", {"column": "at", "delay": "0s"}
    orders = jobs.files("orders", directory / "in", schema, bounded=bounded, watermark=watermark)
    options = {
        "url": f"jdbc:{database.server.url(database.name)}",
        "user": database.server.role,
        "password": "${env:STREAMJOB_TEST_PASSWORD}",
        "dbtable": "products",
    }
    table = {"name": "products", "format": "jdbc", "options": options, "lookup": policy or {}}
    named = {"name": "named", "inputs": ["orders"], "lookup": {**LOOKUP, **lookup}}
    plain = sql("plain", ["named"], "SELECT id, name, CAST(cost AS DOUBLE) AS cost FROM named")
    windows = "SELECT name, window.start AS at, count(*) AS n FROM named GROUP BY name, window(at, '1 minute')"
    operators, out = [named, plain], "plain"
    if then:
        operators, out = [named, sql("counts", ["named"], windows)], "counts"
    content = job(directory, [orders], operators, [out])
    return write_job(directory / "job", {**content, "tables": [table]})


def order(directory: Path, number: int, product: int | None = 0, region: str | None = "eu") -> None:
    rows = [{"id": number, "product": product, "region": region, "at": AT.format(number)}]
    add_file(directory / "in", number, rows)


@pytest.mark.core
@pytest.mark.parametrize("join", ["left", pytest.param("inner", marks=[])])
def test_rows_get_all_matches_and_a_cached_key_is_not_asked_for_again(
    spark: SparkSession, products: Database, tmp_path: Path, join: str
) -> None:
    order(tmp_path, 0, 1)
    file = shop(tmp_path, products, policy={"ttl": "1h"}, join=join)

    with running(spark, Life(file=file, location=str(tmp_path / "snapshots"), restarts=NEVER)) as runs:
        runs.wait_for(lambda: len(rows_of(output(tmp_path, "plain"))) == 2, "the first rows")
        products.execute("UPDATE products SET name = 'other'")
        order(tmp_path, 1, 1)
        order(tmp_path, 2, 2)
        order(tmp_path, 3, 7)
        order(tmp_path, 4, None)
        order(tmp_path, 5, 1, "us")
        order(tmp_path, 6, 2)
        runs.wait_for(lambda: any(row[0] == 6 for row in rows_of(output(tmp_path, "plain"))), "the last row")
        (seen,) = runs.control.job().lookups
        runs.stop()

    found = [(0, "p1", 1.5), (0, "again", 9.0), (1, "p1", 1.5), (1, "again", 9.0), (2, "other", 2.5), (6, "other", 2.5)]
    missing = [(3, None, None), (4, None, None), (5, None, None)] if join == "left" else []
    assert rows_of(output(tmp_path, "plain")) == Counter([*found, *missing])
    assert (seen.uid, seen.table, seen.hits, seen.misses, seen.queries) == ("named", "products", 2, 4, 4)
    assert seen.hit_rate == pytest.approx(1 / 3)


def test_without_a_cache_each_batch_sees_the_present_rows(
    spark: SparkSession, products: Database, tmp_path: Path
) -> None:
    order(tmp_path, 0, 2)
    file = shop(tmp_path, products, policy={"cacheRows": 0})

    with running(spark, Life(file=file, location=str(tmp_path / "snapshots"), restarts=NEVER)) as runs:
        runs.wait_for(lambda: len(output(tmp_path, "plain")) == 1, "the first row")
        products.execute("UPDATE products SET name = 'other'")
        order(tmp_path, 1, 2)
        runs.wait_for(lambda: len(output(tmp_path, "plain")) == 2, "the second row")
        runs.stop()

    assert rows_of(output(tmp_path, "plain")) == Counter([(0, "p2", 2.5), (1, "other", 2.5)])


def test_windows_over_looked_up_rows_are_complete_after_a_kill(
    spark: SparkSession, products: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    power = Power(monkeypatch)
    for number in range(12):
        rows = [{"id": each, "product": each % 8, "region": "eu", "at": AT.format(number)} for each in range(2000)]
        add_file(tmp_path / "in", number, rows)
    file = shop(tmp_path, products, bounded=True, then=True, policy={"cacheRows": 3}, join="inner")
    life = Life(file=file, location=str(tmp_path / "snapshots"), restarts=NEVER)

    with running(spark, life) as first:
        first.wait_for(lambda: first.state is JobState.RUNNING, "the job to run")
        first.wait_for_batches(2)
        first.checkpoint()
        first.wait_for_batches()
        power.cut(first, lambda: None)
        first.wait()
    power.comes_back()
    finish(spark, life)

    names = [*(f"p{each}" for each in range(6)), "again"]
    expected = Counter((name, f"2026-01-01T12:{number:02d}:00", 250) for name in names for number in range(12))
    assert rows_of(output(tmp_path, "counts")) == expected


def test_a_job_waits_for_its_database(spark: SparkSession, products: Database, tmp_path: Path) -> None:
    order(tmp_path, 0, 2)
    life = Life(file=shop(tmp_path, products, policy={"retries": 1}), location=str(tmp_path / "snapshots"))

    with running(spark, life) as runs:
        runs.wait_for(lambda: len(output(tmp_path, "plain")) == 1, "the first row")
        products.execute("ALTER TABLE products RENAME TO gone")
        order(tmp_path, 1, 3)
        runs.wait_for(lambda: '"products" does not exist' in str(runs.control.job().failure), "the failure")
        said = str(runs.control.job().failure)
        products.execute("ALTER TABLE gone RENAME TO products")
        code = None
        if not runs.running:
            code = runs.wait()
        assert code is None
        runs.wait_for(lambda: len(output(tmp_path, "plain")) == 2, "the second row")
        runs.stop()

    assert rows_of(output(tmp_path, "plain")) == Counter([(0, "p2", 2.5), (1, "p3", 3.5)])
    assert products.server.password not in said


@pytest.mark.parametrize(
    ("lookup", "said"),
    [
        ({"on": ["product = idd"]}, "table 'products' has no column 'idd'"),
        ({"on": ["produkt = id"]}, "its input has no column 'produkt'"),
        ({"on": ["region = id"]}, "is of type STRING, and 'id' of the table INT"),
        ({"select": ["region"]}, "its rows have a column 'region' already"),
    ],
)
def test_columns_that_do_not_fit_are_errors_at_the_start(
    spark: SparkSession, products: Database, tmp_path: Path, lookup: dict[str, Any], said: str
) -> None:
    file = shop(tmp_path, products, **lookup)

    with (
        running(spark, Life(file=file, location=str(tmp_path / "snapshots"), restarts=NEVER)) as runs,
        pytest.raises(InvalidJoin) as raised,
    ):
        runs.wait()

    assert said in str(raised.value)
