"""Tables that a job joins: read at the start, read again while batches run, and kept while they cannot be read."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import jobs
from tests.integration.runtime.embedded import EmbeddedJob, Life, finish, life_in, running
from tests.integration.runtime.graphs import job, output, rows_of
from tests.integration.runtime.power import Power
from tests.integration.runtime.purchases import add_file, write_job
from tests.integration.runtime.stories import NEVER
from tests.integration.sinks.databases import Database, add_driver
from tests.jobs import sql

from streamjob.errors import InvalidInput
from streamjob.job.loading.load import load_job
from streamjob.protocol.lifecycle import JobState
from streamjob_runtime.process.checking.validation import validate_with
from streamjob_runtime.tables.reading import TableUnreadable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TWICE = """
SELECT o.id, a.name, b.name AS again FROM orders o
LEFT JOIN products a ON o.product = a.id LEFT JOIN products b ON o.product = b.id
"""


def write_products(directory: Path, *names: str) -> None:
    """Replace the table as a whole: product `i` has the `i`-th name."""
    directory.mkdir(parents=True, exist_ok=True)
    temporary = directory.parent / ".products"
    temporary.write_text("".join(f"{number},{name}\n" for number, name in enumerate(names)))
    temporary.rename(directory / "products.csv")


def shop(directory: Path, table: dict[str, Any] | None = None, **changes: Any) -> Path:
    """Write a job that joins orders with products."""
    (directory / "in").mkdir(exist_ok=True)
    orders = jobs.files("orders", directory / "in", "id INT, product INT")
    usual = {"refresh": "200ms", "maxAge": "1h", **(table or {})}
    products = jobs.source("products", "csv", "id INT, name STRING", directory / "products") | usual
    named = sql("named", ["orders"], TWICE)
    content = job(directory, [{**orders, **changes}], [named], ["named"])
    return write_job(directory / "job", {**content, "tables": [products]})


def order(directory: Path, number: int, product: int = 0) -> None:
    add_file(directory / "in", number, [{"id": number, "product": product}])


def reloads(job: EmbeddedJob) -> int:
    return sum(table.reloads for table in job.control.job().tables)


@pytest.mark.core
def test_batches_see_the_rows_of_the_last_reload_and_keep_them_if_the_table_is_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_products(tmp_path / "products", "bread")
    order(tmp_path, 0)
    life = Life(file=shop(tmp_path), location=str(tmp_path / "snapshots"), restarts=NEVER)

    with running(spark, life) as runs:
        runs.wait_for(lambda: len(output(tmp_path, "named")) == 1, "the first row")
        write_products(tmp_path / "products", "cake")
        seen = reloads(runs)
        runs.wait_for(lambda: reloads(runs) >= seen + 2, "a reload that began after the change")
        order(tmp_path, 1)
        runs.wait_for(lambda: len(output(tmp_path, "named")) == 2, "the second row")
        (tmp_path / "products" / "products.csv").write_text("zero,pie\n")
        runs.wait_for(lambda: runs.control.job().tables[0].failures > 0, "a failed reload")
        order(tmp_path, 2)
        order(tmp_path, 3, product=7)
        runs.wait_for(lambda: len(output(tmp_path, "named")) == 4, "the last rows")
        (shown,) = runs.control.job().tables
        runs.stop()

    expected = [(0, "bread", "bread"), (1, "cake", "cake"), (2, "cake", "cake"), (3, None, None)]
    assert rows_of(output(tmp_path, "named")) == Counter(expected)
    assert (shown.name, shown.rows) == ("products", 1)
    assert "zero" in str(shown.problem)


def test_each_row_is_there_once_after_kills_while_the_table_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    power = Power(monkeypatch)
    write_products(tmp_path / "products", "v0")
    life = Life(file=shop(tmp_path, bounded=True), location=str(tmp_path / "snapshots"), restarts=NEVER)
    for number in range(30):
        order(tmp_path, number)
    for version in range(1, 4):
        with running(spark, life) as runs:
            runs.wait_for(lambda: runs.state is JobState.RUNNING, "the job to run")
            runs.wait_for_batches(2)
            write_products(tmp_path / "products", f"v{version}")
            runs.checkpoint()
            runs.wait_for_batches()
            power.cut(runs, lambda: None)
            runs.wait()
        power.comes_back()
    finish(spark, life)

    rows: list[Any] = [row for _, batch in output(tmp_path, "named") for row in batch]
    assert sorted(row[0] for row in rows) == list(range(30))
    # Both readings of a batch see one version, and a later batch never an earlier one.
    assert all(name == again for _, name, again in rows)
    versions = [name for _, name, _ in sorted(rows)]
    assert versions == sorted(versions)
    assert versions[-1] == "v3"


def test_a_job_fails_and_recovers_if_its_table_gets_too_old(spark: SparkSession, tmp_path: Path) -> None:
    write_products(tmp_path / "products", "bread")
    order(tmp_path, 0)
    life = Life(file=shop(tmp_path, {"maxAge": "3s"}), location=str(tmp_path / "snapshots"))

    with running(spark, life) as runs:
        runs.wait_for(lambda: len(output(tmp_path, "named")) == 1, "the first row")
        (tmp_path / "products" / "products.csv").write_text("zero,pie\n")
        broken = time.time()
        runs.wait_for(lambda: time.time() > broken + 4, "the rows to be too old")
        order(tmp_path, 1)
        runs.wait_for(lambda: "may get 3 s old" in str(runs.control.job().failure), "the failure")
        said = str(runs.control.job().failure)
        write_products(tmp_path / "products", "cake")
        runs.wait_for(lambda: len(output(tmp_path, "named")) == 2, "the second row")
        runs.stop()

    assert "zero" in said
    assert rows_of(output(tmp_path, "named")) == Counter([(0, "bread", "bread"), (1, "cake", "cake")])


def test_rows_that_a_table_completes_may_get_event_time(spark: SparkSession, tmp_path: Path) -> None:
    write_products(tmp_path / "products", "2026-01-01T12:00:30Z", "2026-01-01T12:05:00Z")
    for number in range(2):
        order(tmp_path, number, product=number)
    products = "SELECT id, CAST(name AS TIMESTAMP) AS at FROM products"
    timed = f"SELECT o.id, p.at FROM orders o JOIN ({products}) p ON o.product = p.id"
    windows = "SELECT window.start AS at, count(*) AS n FROM timed GROUP BY window(at, '1 minute')"
    content = json.loads(shop(tmp_path, bounded=True).read_text())
    content["operators"] = [
        {**sql("timed", ["orders"], timed), "watermark": {"column": "at", "delay": "0s"}},
        sql("counts", ["timed"], windows),
    ]
    content["sinks"] = job(tmp_path, [], [], ["counts"])["sinks"]
    life = life_in(tmp_path, content, restarts=NEVER)

    finish(spark, life)

    assert rows_of(output(tmp_path, "counts")) == Counter([("2026-01-01T12:00:00", 1), ("2026-01-01T12:05:00", 1)])


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"options": {"path": "nowhere"}}, "table 'products' cannot be read: [PATH_NOT_FOUND]"),
        ({"format": "no.such.Source"}, "table 'products' cannot be read: [DATA_SOURCE_NOT_FOUND]"),
    ],
)
def test_a_bad_table_is_an_error_at_the_start_and_of_the_check(
    spark: SparkSession, tmp_path: Path, table: dict[str, Any], said: str
) -> None:
    life = Life(file=shop(tmp_path, table), location=str(tmp_path / "snapshots"), restarts=NEVER)

    with running(spark, life) as runs, pytest.raises(TableUnreadable) as raised:
        runs.wait()
    with pytest.raises(InvalidInput) as checked:
        validate_with(spark, tmp_path / "scratch", load_job(life.file))

    assert said in str(raised.value)
    assert said.partition("cannot be read: ")[2] in str(checked.value)


@pytest.mark.server
def test_a_table_of_a_database_is_read_with_the_password_of_the_environment(
    spark: SparkSession,
    database: Database,
    postgresql_driver: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STREAMJOB_TEST_PASSWORD", database.server.password)
    add_driver(spark, postgresql_driver)
    database.execute("CREATE TABLE products (id int, name text)")
    database.execute("INSERT INTO products VALUES (0, 'bread')")
    order(tmp_path, 0)
    options = {
        "url": f"jdbc:{database.server.url(database.name)}",
        "user": database.server.role,
        "password": "${env:STREAMJOB_TEST_PASSWORD}",
        "dbtable": "products",
    }
    file = shop(tmp_path, {"format": "jdbc", "schema": None, "options": options})

    with running(spark, Life(file=file, location=str(tmp_path / "snapshots"), restarts=NEVER)) as runs:
        runs.wait_for(lambda: len(output(tmp_path, "named")) == 1, "the first row")
        database.execute("UPDATE products SET name = 'cake'")
        seen = reloads(runs)
        runs.wait_for(lambda: reloads(runs) >= seen + 2, "a reload that began after the change")
        order(tmp_path, 1)
        runs.wait_for(lambda: len(output(tmp_path, "named")) == 2, "the second row")
        database.execute("DROP TABLE products")
        runs.wait_for(lambda: runs.control.job().tables[0].failures > 0, "a failed reload")
        said = str(runs.control.job().tables[0].problem)
        runs.stop()

    assert rows_of(output(tmp_path, "named")) == Counter([(0, "bread", "bread"), (1, "cake", "cake")])
    assert "products" in said
    assert database.server.password not in said
    stored = b"".join(each.read_bytes() for each in (tmp_path / "snapshots").rglob("*") if each.is_file())
    assert json.dumps("${env:STREAMJOB_TEST_PASSWORD}").encode() in stored
    assert database.server.password.encode() not in stored
