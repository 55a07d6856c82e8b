"""Nexmark's events are the same each time, and its figures come from pairs of runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from bench.nexmark.events import TABLES, make_events
from bench.nexmark.queries import MISSING, QUERIES
from bench.nexmark.results import Answer, cold, steady
from pyarrow import dataset


def _answer(side: str, events: int, cpu: float, number: int = 0) -> Answer:
    return Answer(query="q0", side=side, round=number, events=events, rows=events, cpu=cpu, load=0)


def test_events_are_the_same_each_time_and_for_both_layouts(tmp_path: Path) -> None:
    first, second = (make_events(tmp_path / name, 2_000, 500) for name in "ab")

    for table_name in TABLES:
        rows = dataset.dataset(first / "spark" / table_name).to_table()
        assert rows.equals(dataset.dataset(second / "spark" / table_name).to_table())
        for_flink = dataset.dataset(first / "flink" / table_name).to_table()
        assert for_flink.sort_by("ts").equals(rows.sort_by("ts"))
    counts = {each: dataset.dataset(first / "spark" / each).count_rows() for each in TABLES}
    assert counts == {"person": 40, "auction": 120, "bid": 1840}


def test_each_bid_is_on_an_auction_that_is_open_or_just_opened(tmp_path: Path) -> None:
    events = make_events(tmp_path, 5_000, 2_500)
    bids = dataset.dataset(events / "spark" / "bid").to_table()
    auctions = dataset.dataset(events / "spark" / "auction").to_table()

    assert set(bids["auction"].to_pylist()) <= set(auctions["id"].to_pylist())
    assert pc.min(bids["price"]).as_py() >= 100


def test_every_query_of_nexmark_is_measured_or_has_a_reason() -> None:
    numbers = {int(each.split()[0][1:]) for each in (*QUERIES, *MISSING)}

    assert numbers == set(range(23))
    assert all(list(each.spark)[-1] == "result" for each in QUERIES.values())


def test_the_cold_figure_counts_all_and_the_steady_one_the_difference() -> None:
    answers = [_answer("flink", 1_000_000, 5.0), _answer("flink", 3_000_000, 9.0)]

    assert cold(answers, "q0", "flink") == pytest.approx(3.0)
    assert steady(answers, "q0", "flink") == pytest.approx(2.0)
    assert steady(answers[:1], "q0", "flink") is None
