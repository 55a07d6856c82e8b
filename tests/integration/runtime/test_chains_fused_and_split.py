"""The same job as one chain and as several: the output is that of the batch either way."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.core import core
from tests.integration.runtime.embedded import Life, finish, running
from tests.integration.runtime.graphs import (
    KEYS,
    Row,
    add_rows,
    difference,
    disorder,
    job,
    numbered,
    output,
    rows_of,
    source,
)
from tests.integration.runtime.purchases import Purchases, line_rows, table_rows, write_job
from tests.jobs import sql

from streamjob.job.loading.load import load_job
from streamjob.job.planning.plan import plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WINDOWS = "SELECT k, unix_seconds(window.start) - 1767268800 AS start, count(*) AS rows FROM {} GROUP BY k, {}"
MINUTE = "window(at, '1 minute')"
# On the event time: Spark moves any other filter before the watermark, which does not see the dropped rows then.
EARLY = "unix_seconds(at) < 1767268800 + 300"

FUSED_AND_SPLIT = pytest.mark.parametrize("chain", [True, False], ids=["fused", "split"])


def chains_of(file: Path) -> int:
    return len(plan(load_job(file).spec).chains)


def life_of(file: Path, **checkpointing: Any) -> Life:
    overrides = tuple(f"checkpointing.{name}={value}" for name, value in checkpointing.items())
    return Life(file=file, location=str(file.parent / "snapshots"), overrides=overrides)


@pytest.mark.parametrize("mode", core(["aligned", "unaligned"], "unaligned"))
def test_a_join_and_an_aggregation_in_chains_of_their_own_give_the_output_of_the_batch(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    purchases = Purchases.write(tmp_path / "input", files=8, rows=60)
    operators = [{**each, "chain": False} for each in purchases.job()["operators"]]
    file = write_job(tmp_path / "job", purchases.job(operators=operators))

    finish(spark, life_of(file, mode=mode))

    assert chains_of(file) == 4
    expected = purchases.batch(spark)
    assert table_rows(spark, file.parent / "table") == expected
    assert line_rows(spark, file.parent / "lines") == expected


@FUSED_AND_SPLIT
def test_windows_close_by_rows_that_a_filter_before_them_drops(
    spark: SparkSession, tmp_path: Path, chain: bool
) -> None:
    add_rows(tmp_path / "in", 0, [Row("a", 0, 30), Row("a", 1, 90), Row("dropped", 0, 570)])
    operators = [
        sql("kept", ["events"], f"SELECT * FROM events WHERE {EARLY}", chain=chain),
        sql("counts", ["kept"], WINDOWS.format("kept", MINUTE), chain=chain),
    ]
    file = write_job(tmp_path, job(tmp_path, [source("events", tmp_path / "in")], operators, ["counts"]))
    expected = Counter([("a", 0, 1), ("a", 60, 1)])

    with running(spark, life_of(file)) as running_job:
        running_job.wait_for(lambda: rows_of(output(tmp_path, "counts")) >= expected, "both windows")
        running_job.stop()

    assert rows_of(output(tmp_path, "counts")) == expected


@FUSED_AND_SPLIT
def test_an_outer_join_gives_up_waiting_by_rows_that_a_filter_before_it_drops(
    spark: SparkSession, tmp_path: Path, chain: bool
) -> None:
    add_rows(tmp_path / "left", 0, [Row("a", 0, 30), Row("a", 1, 40), Row("dropped", 0, 570)])
    add_rows(tmp_path / "right", 0, [Row("a", 1, 41), Row("dropped", 1, 570)])
    operators = [
        sql("lefts", ["left_rows"], f"SELECT k, n, at FROM left_rows WHERE {EARLY}", chain=chain),
        sql("rights", ["right_rows"], f"SELECT k, n, at FROM right_rows WHERE {EARLY}", chain=chain),
        sql(
            "pairs",
            ["lefts", "rights"],
            "SELECT l.k, l.n, r.n AS other FROM lefts l LEFT JOIN rights r ON l.k = r.k AND l.n = r.n "
            "AND r.at BETWEEN l.at AND l.at + INTERVAL 10 SECONDS",
            chain=chain,
        ),
    ]
    sources = [source("left_rows", tmp_path / "left"), source("right_rows", tmp_path / "right")]
    file = write_job(tmp_path, job(tmp_path, sources, operators, ["pairs"]))
    expected = Counter([("a", 0, None), ("a", 1, 1)])

    with running(spark, life_of(file)) as running_job:
        running_job.wait_for(lambda: rows_of(output(tmp_path, "pairs")) >= expected, "the row without a partner")
        running_job.stop()

    assert rows_of(output(tmp_path, "pairs")) == expected


@FUSED_AND_SPLIT
def test_an_input_that_is_silent_holds_back_windows_but_not_the_rows_of_the_other(
    spark: SparkSession, tmp_path: Path, chain: bool
) -> None:
    add_rows(tmp_path / "loud", 0, [Row("a", 0, 30), Row("a", 1, 90), Row("a", 2, 570)])
    operators = [
        sql("louds", ["loud"], "SELECT k, n, at FROM loud", chain=chain),
        sql("silents", ["silent"], "SELECT k, n, at FROM silent", chain=chain),
        sql("both", ["louds", "silents"], "SELECT * FROM louds UNION ALL SELECT * FROM silents", chain=chain),
        sql("counts", ["both"], WINDOWS.format("both", MINUTE), chain=chain),
        sql("numbers", ["both"], "SELECT k, n FROM both"),
    ]
    sources = [source("loud", tmp_path / "loud"), source("silent", tmp_path / "silent")]
    file = write_job(tmp_path, job(tmp_path, sources, operators, ["counts", "numbers"]))

    with running(spark, life_of(file)) as running_job:
        running_job.wait_for(lambda: rows_of(output(tmp_path, "numbers")).total() == 3, "rows of the loud input")
        # A cut after the windows' batch with those rows: if they were due, they would be emitted with it.
        running_job.wait_for(lambda: batch_of(running_job, "counts") >= 0, "a batch of the windows")
        running_job.wait_for_checkpoints(2)
        assert output(tmp_path, "counts") == []
        add_rows(tmp_path / "silent", 0, [Row("b", 0, 80), Row("b", 1, 130)])
        expected = Counter([("a", 0, 1), ("a", 60, 1), ("b", 60, 1)])
        running_job.wait_for(lambda: rows_of(output(tmp_path, "counts")) >= expected, "windows")
        running_job.stop()

    assert rows_of(output(tmp_path, "counts")) == expected


def batch_of(running_job: Any, chain: str) -> int:
    epoch = running_job.runner.epoch
    return epoch.chains[chain].last_emitted if epoch and chain in epoch.chains else -1


def test_an_input_that_has_ended_holds_back_neither_rows_nor_windows(spark: SparkSession, tmp_path: Path) -> None:
    add_rows(tmp_path / "weather", 0, numbered(0, 30))
    add_rows(tmp_path / "flights", 0, [Row("k0", 0, 1), Row("k1", 1, 5), Row("k2", 2, 9), Row("k0", 99, 570)])
    operators = [
        sql(
            "pairs",
            ["flights", "weather"],
            "SELECT f.k, f.n FROM flights f JOIN weather w ON f.k = w.k AND f.n = w.n "
            "AND w.at BETWEEN f.at - INTERVAL 10 SECONDS AND f.at + INTERVAL 10 SECONDS",
        ),
        sql("all_rows", ["flights", "weather"], "SELECT k, at FROM flights UNION ALL SELECT k, at FROM weather"),
        sql("counts", ["all_rows"], WINDOWS.format("all_rows", MINUTE)),
    ]
    sources = [source("flights", tmp_path / "flights"), source("weather", tmp_path / "weather", bounded=True)]
    file = write_job(tmp_path, job(tmp_path, sources, operators, ["pairs", "counts"]))
    pairs = Counter([("k0", 0), ("k1", 1), ("k2", 2)])
    windows = Counter([(f"k{key}", 0, 30 // KEYS + 1) for key in range(KEYS)])

    with running(spark, life_of(file)) as running_job:
        running_job.wait_for(lambda: rows_of(output(tmp_path, "pairs")) >= pairs, "pairs")
        running_job.wait_for(lambda: rows_of(output(tmp_path, "counts")) >= windows, "windows")
        running_job.stop()
    # From a checkpoint that knows that the input has ended.
    add_rows(tmp_path / "flights", 1, [Row("k1", 3, 575), Row("k0", 100, 1170)])
    later = windows + Counter([("k0", 540, 1), ("k1", 540, 1)])
    with running(spark, life_of(file)) as running_job:
        running_job.wait_for(lambda: rows_of(output(tmp_path, "counts")) >= later, "next windows")
        running_job.stop()

    assert not difference(pairs, rows_of(output(tmp_path, "pairs")))
    assert not difference(later, rows_of(output(tmp_path, "counts")))


@FUSED_AND_SPLIT
def test_a_stream_that_is_read_by_several_and_twice_by_one_reaches_each_of_them_once(
    spark: SparkSession, tmp_path: Path, chain: bool
) -> None:
    rows = numbered(0, 120)
    for number in range(6):
        add_rows(tmp_path / "in", number, rows[number * 20 : (number + 1) * 20])
    operators = [
        sql("kept", ["events"], "SELECT k, n, at FROM events"),
        sql("even", ["kept"], "SELECT k, n FROM kept WHERE n % 2 = 0", chain=chain),
        sql("odd", ["kept"], "SELECT k, n FROM kept WHERE n % 2 = 1", chain=chain),
        sql("again", ["even", "odd"], "SELECT 'even' AS half, * FROM even UNION ALL SELECT 'odd', * FROM odd"),
        sql(
            "twice",
            ["kept"],
            "SELECT a.k, a.n FROM kept a JOIN kept b ON a.k = b.k AND a.n = b.n + 1 "
            "AND a.at BETWEEN b.at AND b.at + INTERVAL 10 SECONDS",
        ),
    ]
    sources = [source("events", tmp_path / "in", bounded=True)]
    file = write_job(tmp_path, job(tmp_path, sources, operators, ["kept", "again", "twice"]))

    finish(spark, life_of(file, mode="unaligned"))

    assert chains_of(file) == (3 if chain else 5)
    kept = output(tmp_path, "kept")
    assert sorted((row[0], row[1]) for _, each in kept for row in each) == sorted((row.k, row.n) for row in rows)
    again = output(tmp_path, "again")
    halves = Counter(("odd" if row.n % 2 else "even", row.k, row.n) for row in rows)
    assert not difference(halves, rows_of(again))
    assert disorder(again) == []
    pairs = Counter((row.k, row.n) for row in rows if row.n > 0)
    assert not difference(pairs, rows_of(output(tmp_path, "twice")))
