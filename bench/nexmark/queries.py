"""Nexmark's queries, each in the dialect of every side, and those that cannot be compared, with the reason.

The queries and their numbers are those of github.com/nexmark/nexmark. Each side answers the same question in the way in
which its users would write it. Times in results are milliseconds since 1970, so that all sides' files say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MISSING: Mapping[str, str] = {
    "q4": "an average of maxima that change: Spark aggregates an aggregation in append mode only",
    "q6": "an average over the last ten of changing rows: Flink cannot express it either",
    "q9": "the best bid so far of each auction: ROW_NUMBER, whose changes Flink emits; Spark has it for batches only",
    "q10": "files by day and minute: a measurement of the file sink",
    "q12": "windows of processing time: no result that is right or wrong",
    "q13": "a join with a file by processing time: Flink's connector for files cannot be looked up",
    "q15": "count(DISTINCT …) per day, emitted at each change: Spark has it for batches only",
    "q16": "count(DISTINCT …), as q15",
    "q17": "totals of a day that change with each bid: the sides emit different numbers of changes",
    "q18": "the last bid of each bidder, emitted at each change, as q9",
    "q19": "the ten highest bids of each auction, emitted at each change, as q9",
}
"""Queries that are not measured, with the reason."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query.

    Args:
        purpose: its question.
        tables: the streams that it reads.
        spark: views in the order in which they build on each other, by name; the last is the result.
        flink: the query for Flink.
        duckdb: the query for DuckDB, whose result is compared.
        columns: types of the result's columns for Flink's sink, by name.
        ends: the column with the end of a result's window; None without windows. Plain Spark does not emit the last
            windows, because no later row comes.
    """

    purpose: str
    tables: tuple[str, ...]
    spark: Mapping[str, str]
    flink: str
    duckdb: str
    columns: Mapping[str, str]
    ends: str | None = None


_MS = "unix_millis(ts) AS ms"
_FLINK_MS = "EXTRACT(EPOCH FROM ts) * 1000 + EXTRACT(MILLISECOND FROM ts) AS ms"
_DUCK_MS = "epoch_us(ts) // 1000 AS ms"
_FLINK_COUNTS = (
    "SELECT auction, count(*) AS num, window_start, window_end FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), "
    "INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end"
)
_FLINK_END = "EXTRACT(EPOCH FROM {0}) * 1000 AS ends"
_Q2 = "SELECT auction, price FROM bid WHERE mod(auction, 123) = 0"
_Q3 = """
SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND p.state IN ('or', 'id', 'ca')
"""
_Q14 = """
SELECT auction, bidder, price * 908 AS price,
  CASE WHEN hour(ts) BETWEEN 8 AND 18 THEN 'day' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'night' ELSE 'other' END
    AS bidTime,
  extra, CAST(char_length(extra) - char_length(replace(extra, 'c', '')) AS BIGINT) AS cs
FROM bid WHERE price * 908 > 1000000000 AND price * 908 < 50000000000
"""
_Q20 = """
SELECT b.auction, b.bidder, b.price, b.channel, a.itemName, a.initialBid, a.seller
FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10
"""
_Q21 = """
SELECT auction, bidder, price, channel,
  CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
    ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channelId
FROM bid
"""
_Q22 = """
SELECT auction, bidder, price, channel,
  split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3
FROM bid
"""
_Q7_COLUMNS = {"auction": "BIGINT", "price": "BIGINT", "bidder": "BIGINT", "ends": "BIGINT"}
_Q7_FLINK = f"""
SELECT B.auction, B.price, B.bidder, {_FLINK_END.format("B1.window_end")}
FROM bid B JOIN (
  SELECT max(price) AS maxprice, window_end
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
) B1 ON B.price = B1.maxprice
WHERE B.ts >= B1.window_end - INTERVAL '10' SECOND AND B.ts < B1.window_end
"""
_Q7_DUCKDB = """
SELECT auction, price, bidder, ends FROM (
  SELECT *, max(price) OVER (PARTITION BY ends) AS best
  FROM (SELECT *, (epoch_us(ts) // 10000000 + 1) * 10000 AS ends FROM bid)
) WHERE price = best
"""

QUERIES: Mapping[str, Query] = {
    "q0": Query(
        "pass through",
        ("bid",),
        {"result": f"SELECT auction, bidder, price, {_MS}, extra FROM bid"},
        f"SELECT auction, bidder, price, {_FLINK_MS}, extra FROM bid",
        f"SELECT auction, bidder, price, {_DUCK_MS}, extra FROM bid",
        {"auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "ms": "BIGINT", "extra": "STRING"},
    ),
    "q1": Query(
        "convert a currency",
        ("bid",),
        {"result": f"SELECT auction, bidder, price * 908 AS price, {_MS}, extra FROM bid"},
        f"SELECT auction, bidder, price * 908 AS price, {_FLINK_MS}, extra FROM bid",
        f"SELECT auction, bidder, price * 908 AS price, {_DUCK_MS}, extra FROM bid",
        {"auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "ms": "BIGINT", "extra": "STRING"},
    ),
    "q2": Query(
        "bids on some auctions",
        ("bid",),
        {"result": _Q2},
        _Q2,
        _Q2,
        {"auction": "BIGINT", "price": "BIGINT"},
    ),
    "q3": Query(
        "auctions of a category by sellers in some states: a join without a window",
        ("auction", "person"),
        {"result": _Q3},
        _Q3,
        _Q3,
        {"name": "STRING", "city": "STRING", "state": "STRING", "id": "BIGINT"},
    ),
    "q5": Query(
        "hot items: the auctions with most bids in sliding windows",
        ("bid",),
        {
            "counts": "SELECT auction, window, count(*) AS num FROM bid "
            "GROUP BY auction, window(ts, '10 seconds', '2 seconds')",
            "best": "SELECT window.end AS until, max(num) AS most, max_by(struct(auction, num), num, 16) AS found "
            "FROM counts GROUP BY window",
            "result": "SELECT one.auction, one.num, unix_millis(until) AS ends "
            "FROM (SELECT until, most, explode(found) AS one FROM best) WHERE one.num = most",
        },
        f"""
        SELECT A.auction, A.num, {_FLINK_END.format("A.window_end")} FROM ({_FLINK_COUNTS}) A
        JOIN (
          SELECT max(num) AS most, window_start, window_end FROM ({_FLINK_COUNTS}) GROUP BY window_start, window_end
        ) M
        ON A.window_start = M.window_start AND A.window_end = M.window_end AND A.num >= M.most
        """,
        """
        WITH counts AS (
          SELECT auction, (epoch_us(ts) // 2000000 + 1 + hop) * 2000 AS ends, count(*) AS num
          FROM bid, (SELECT unnest(range(5)) AS hop) GROUP BY ALL
        )
        SELECT auction, num, ends FROM (SELECT *, max(num) OVER (PARTITION BY ends) AS most FROM counts)
        WHERE num = most
        """,
        {"auction": "BIGINT", "num": "BIGINT", "ends": "BIGINT"},
        "ends",
    ),
    "q7": Query(
        "the highest bid of each window, by a join",
        ("bid",),
        {
            "highest": "SELECT window, max(price) AS most FROM bid GROUP BY window(ts, '10 seconds')",
            "best": "SELECT most, window_time(window) AS at, window.end AS until FROM highest",
            "result": "SELECT b.auction, b.price, b.bidder, unix_millis(m.until) AS ends FROM bid b JOIN best m "
            "ON b.price = m.most AND b.ts > m.at - INTERVAL 10 SECONDS AND b.ts <= m.at",
        },
        _Q7_FLINK,
        _Q7_DUCKDB,
        _Q7_COLUMNS,
        "ends",
    ),
    "q7 by max_by": Query(
        "the same, written for Spark as one aggregation",
        ("bid",),
        {
            "best": "SELECT window.end AS until, max(price) AS most, "
            "max_by(struct(auction, price, bidder), price, 16) AS found FROM bid GROUP BY window(ts, '10 seconds')",
            "result": "SELECT one.auction, one.price, one.bidder, unix_millis(until) AS ends "
            "FROM (SELECT until, most, explode(found) AS one FROM best) WHERE one.price = most",
        },
        _Q7_FLINK,
        _Q7_DUCKDB,
        _Q7_COLUMNS,
        "ends",
    ),
    "q8": Query(
        "people who sell in the window in which they registered: a join of windows",
        ("person", "auction"),
        {
            "people": "SELECT id, name, window FROM person GROUP BY id, name, window(ts, '10 seconds')",
            "sellers": "SELECT seller, window FROM auction GROUP BY seller, window(ts, '10 seconds')",
            "result": "SELECT p.id, p.name, unix_millis(p.window.end) AS ends FROM people p JOIN sellers s "
            "ON p.id = s.seller AND p.window = s.window",
        },
        f"""
        SELECT P.id, P.name, {_FLINK_END.format("P.window_end")} FROM (
          SELECT id, name, window_start, window_end
          FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(ts), INTERVAL '10' SECOND))
          GROUP BY id, name, window_start, window_end
        ) P JOIN (
          SELECT seller, window_start, window_end
          FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(ts), INTERVAL '10' SECOND))
          GROUP BY seller, window_start, window_end
        ) A ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end
        """,
        """
        SELECT DISTINCT p.id, p.name, (epoch_us(p.ts) // 10000000 + 1) * 10000 AS ends
        FROM person p JOIN auction a ON p.id = a.seller AND epoch_us(p.ts) // 10000000 = epoch_us(a.ts) // 10000000
        """,
        {"id": "BIGINT", "name": "STRING", "ends": "BIGINT"},
        "ends",
    ),
    "q11": Query(
        "bids of each session of a bidder",
        ("bid",),
        {
            "result": "SELECT bidder, count(*) AS bids, unix_millis(session_window.end) AS ends FROM bid "
            "GROUP BY bidder, session_window(ts, '10 seconds')"
        },
        "SELECT bidder, count(*) AS bids, EXTRACT(EPOCH FROM window_end) * 1000 + "
        "EXTRACT(MILLISECOND FROM window_end) AS ends FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, "
        "DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY bidder, window_start, window_end",
        """
        WITH marked AS (
          SELECT bidder, ts,
            CASE WHEN ts - lag(ts) OVER w >= INTERVAL 10 SECOND THEN 1 ELSE 0 END AS new
          FROM bid WINDOW w AS (PARTITION BY bidder ORDER BY ts)
        ), numbered AS (
          SELECT bidder, ts, sum(new) OVER (PARTITION BY bidder ORDER BY ts) AS session FROM marked
        )
        SELECT bidder, count(*) AS bids, epoch_us(max(ts)) // 1000 + 10000 AS ends
        FROM numbered GROUP BY bidder, session
        """,
        {"bidder": "BIGINT", "bids": "BIGINT", "ends": "BIGINT"},
        "ends",
    ),
    "q14": Query(
        "compute and filter",
        ("bid",),
        {"result": _Q14},
        _Q14,
        _Q14,
        {
            "auction": "BIGINT",
            "bidder": "BIGINT",
            "price": "BIGINT",
            "bidTime": "STRING",
            "extra": "STRING",
            "cs": "BIGINT",
        },
    ),
    "q20": Query(
        "bids with their auctions: a join without a window",
        ("bid", "auction"),
        {"result": _Q20},
        _Q20,
        _Q20,
        {
            "auction": "BIGINT",
            "bidder": "BIGINT",
            "price": "BIGINT",
            "channel": "STRING",
            "itemName": "STRING",
            "initialBid": "BIGINT",
            "seller": "BIGINT",
        },
    ),
    "q21": Query(
        "a channel's id, by cases and a regular expression",
        ("bid",),
        {"result": _Q21},
        _Q21,
        _Q21,
        {"auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "channel": "STRING", "channelId": "STRING"},
    ),
    "q22": Query(
        "the directories of a URL",
        ("bid",),
        {"result": _Q22},
        "SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1, "
        "SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid",
        _Q22,
        {
            "auction": "BIGINT",
            "bidder": "BIGINT",
            "price": "BIGINT",
            "channel": "STRING",
            "dir1": "STRING",
            "dir2": "STRING",
            "dir3": "STRING",
        },
    ),
}
