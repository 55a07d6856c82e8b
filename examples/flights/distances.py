"""The operators of `distances.yaml`, and the same computed at once, to compare with."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

START = "HNL"


def routes(flights: DataFrame) -> DataFrame:
    """Return each route once, from both of its ends: an airport, its neighbour, and the miles between them."""
    from pyspark.sql import functions as f

    flown = flights.select("origin", "dest", f.col("distance").cast("bigint").alias("miles")).dropDuplicates()
    ends = f.array(f.struct("origin", "dest"), f.struct(f.col("dest").alias("origin"), f.col("origin").alias("dest")))
    both = flown.select(f.explode(ends).alias("ends"), "miles")
    return both.select(f.col("ends.origin").alias("airport"), f.col("ends.dest").alias("neighbour"), "miles")


def ways(news: DataFrame) -> DataFrame:
    """Return what follows from new routes and offers: an airport's new distance, and offers to its neighbours.

    An airport keeps its neighbours and its distance. If that becomes less it says so in a row without `via`, and offers
    every neighbour the way that leads over itself: the loop brings these offers to the neighbours.
    """
    from pyspark.sql.streaming.state import GroupStateTimeout

    start = START

    def update(key: tuple[Any, ...], frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
        import json

        import pandas as pd

        (airport,) = key
        known, text = state.get if state.exists else (0 if airport == start else None, "{}")
        neighbours: dict[str, int] = json.loads(text)
        news = [row for frame in frames for row in frame.itertuples(index=False)]
        offers = [int(row.miles) for row in news if not isinstance(row.neighbour, str)]
        fresh: dict[str, int] = {}
        for row in news:
            # Some routes are there with two distances, a mile apart.
            if isinstance(row.neighbour, str) and row.miles < neighbours.get(row.neighbour, row.miles + 1):
                neighbours[row.neighbour] = fresh[row.neighbour] = int(row.miles)
        nearest = min((each for each in (known, *offers) if each is not None), default=None)
        nearer = nearest is not None and (nearest != known or not state.exists)
        rows: list[tuple[str, int, str | None]] = [(airport, nearest, None)] if nearer and nearest is not None else []
        if nearest is not None:
            told = neighbours if nearer else fresh
            rows += [(neighbour, nearest + miles, airport) for neighbour, miles in told.items()]
        state.update((nearest, json.dumps(neighbours)))
        yield pd.DataFrame(rows, columns=["airport", "miles", "via"]).astype({"miles": "int64"})

    return news.groupBy("airport").applyInPandasWithState(
        update,
        "airport STRING, miles BIGINT, via STRING",
        "miles BIGINT, neighbours STRING",
        "append",
        GroupStateTimeout.NoTimeout,
    )


def at_once(flown: Iterable[tuple[str, str, int]], start: str = START) -> dict[str, int]:
    """Return the miles from `start` to every airport that is reached, given all routes (Dijkstra, 1959)."""
    neighbours: dict[str, dict[str, int]] = {}
    for origin, dest, miles in flown:
        for one, other in ((origin, dest), (dest, origin)):
            known = neighbours.setdefault(one, {})
            known[other] = min(miles, known.get(other, miles))
    found: dict[str, int] = {}
    waiting = [(0, start)] if start in neighbours else []
    while waiting:
        miles, airport = heapq.heappop(waiting)
        if airport not in found:
            found[airport] = miles
            for neighbour, further in neighbours[airport].items():
                heapq.heappush(waiting, (miles + further, neighbour))
    return found
