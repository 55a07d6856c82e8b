"""Both ways to ask for the highest bids of each window give the same rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bench.nexmark.queries import QUERIES
from bench.nexmark.sides import Installed, Question

from streamjob.testing import JobTest

BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
WINDOW = timedelta(seconds=10)


def _bids(chance: random.Random) -> list[dict[str, Any]]:
    """Return bids in the order of time, some equally high, some at the first or the last moment of a window."""
    microseconds = [chance.randrange(60_000_000) for _ in range(200)]
    edges = [moment for end in range(10_000_000, 60_000_000, 10_000_000) for moment in (end - 1, end)]
    return [
        {
            "auction": number,
            "bidder": number % 7,
            "price": chance.randrange(1, 21),
            "ts": BEGIN + timedelta(0, 0, after),
        }
        for number, after in enumerate(sorted([*microseconds, *edges]))
    ]


def _highest(bids: list[dict[str, Any]]) -> list[dict[str, Any]]:
    windows: dict[int, list[dict[str, Any]]] = {}
    for bid in bids:
        windows.setdefault((bid["ts"] - BEGIN) // WINDOW + 1, []).append(bid)
    return [
        {name: bid[name] for name in ("auction", "price", "bidder")}
        | {"ends": int((BEGIN + number * WINDOW).timestamp() * 1000)}
        for number, some in windows.items()
        for bid in some
        if bid["price"] == max(each["price"] for each in some)
    ]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", ["q7", "q7 by max_by"])
def test_the_highest_bids_of_a_window_are_the_same_by_a_join_and_by_one_aggregation(
    streamjob_job: Callable[..., JobTest], tmp_path: Path, name: str
) -> None:
    question = Question(name, QUERIES[name], tmp_path, tmp_path / "question", Installed(tmp_path, ()))
    question.command("streamjob", None)
    job = streamjob_job(question.directory / "job.yaml")
    bids = _bids(random.Random(7))
    expected = _highest(bids)
    assert len(expected) > len({each["ends"] for each in expected}) == 6

    for begin in range(0, len(bids), 50):
        job.feed("bid", bids[begin : begin + 50])
        job.process()
    job.finish()

    job.expect("sink", expected)
