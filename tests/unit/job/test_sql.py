"""The analysis of queries without Spark agrees with Spark 4.3's behaviour on streams."""

from __future__ import annotations

import pytest

from streamjob.job.query.sql import Join, NotAQuery, read_query


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT * FROM a JOIN `my-op` b ON a.x = b.x", {"a", "my-op"}),
        ("WITH c AS (SELECT * FROM a) SELECT * FROM c", {"a"}),
        ("SELECT x FROM A UNION ALL SELECT x FROM (SELECT * FROM b)", {"a", "b"}),
        ("SELECT e FROM a LATERAL VIEW explode(xs) AS e", {"a"}),
        ("SELECT * FROM range(10)", set()),
        ("SELECT * FROM a JOIN (VALUES (1), (2)) t(x) ON a.x = t.x", {"a"}),
        ("SELECT * FROM parquet.`/data`", {"parquet./data"}),
        ("FROM a SELECT x", {"a"}),
        ("SELECT x FROM a |> WHERE x > 2", {"a"}),
        ("SELECT window.end AS end, timestamp, value FROM a", {"a"}),
        ("(SELECT x FROM a) UNION ALL (SELECT x FROM b)", {"a", "b"}),
    ],
)
def test_a_query_names_its_tables(sql: str, tables: set[str]) -> None:
    assert read_query(sql).tables == frozenset(tables)


@pytest.mark.parametrize(
    ("sql", "aggregation"),
    [
        ("SELECT x, count(*) FROM a GROUP BY x", "GROUP BY"),
        ("SELECT window, count(*) FROM a GROUP BY window(t, '1 hour')", "GROUP BY"),
        ("SELECT DISTINCT x FROM a", "DISTINCT"),
        ("SELECT count(*) FROM a", "COUNT()"),
        ("SELECT max(x) + 1 AS y FROM a", "MAX()"),
        ("SELECT x FROM a UNION SELECT x FROM b", "UNION (without ALL)"),
        ("SELECT x FROM a UNION ALL SELECT x FROM b", None),
        ("SELECT x, window(t, '1 hour') FROM a", None),
        ("SELECT aggregate(xs, 0, (x, y) -> x + y), array_max(xs), size(filter(xs, x -> x > 1)) FROM a", None),
        ("SELECT a.x FROM a JOIN (SELECT max(y) AS y FROM VALUES (1), (2) AS t(y)) m ON a.x = m.y", None),
    ],
)
def test_a_query_says_what_aggregates(sql: str, aggregation: str | None) -> None:
    assert read_query(sql).aggregation == aggregation


@pytest.mark.parametrize(
    ("sql", "joins"),
    [
        ("SELECT * FROM a LEFT JOIN b ON a.x = b.x", (Join("LEFT JOIN", frozenset("ab")),)),
        ("SELECT * FROM a FULL OUTER JOIN b ON a.x = b.x", (Join("FULL JOIN", frozenset("ab")),)),
        ("SELECT * FROM a LEFT SEMI JOIN b ON a.x = b.x", (Join("LEFT SEMI JOIN", frozenset("ab")),)),
        ("SELECT * FROM a JOIN b ON a.x = b.x", ()),
        ("SELECT * FROM a CROSS JOIN b", ()),
        ("SELECT * FROM a LEFT JOIN (VALUES (1)) t(x) ON a.x = t.x", ()),
    ],
)
def test_a_query_names_the_joins_that_need_a_watermark(sql: str, joins: tuple[Join, ...]) -> None:
    assert read_query(sql).state_joins == joins


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM a ORDER BY x", "ORDER BY"),
        ("SELECT row_number() OVER (PARTITION BY x ORDER BY t) AS r FROM a", "a window function (OVER)"),
        ("SELECT max(x) OVER w FROM a WINDOW w AS (PARTITION BY x)", "a window function (OVER)"),
        ("SELECT x FROM a EXCEPT SELECT x FROM b", "EXCEPT"),
        ("SELECT x FROM a INTERSECT SELECT x FROM b", "INTERSECT"),
        ("SELECT count(DISTINCT x) FROM a", "an aggregation of DISTINCT values"),
        ("SELECT x FROM a WHERE x IN (SELECT x FROM b)", "a subquery in an expression"),
        ("SELECT x, (SELECT max(y) FROM b) FROM a", "a subquery in an expression"),
        ("SELECT x FROM a LEFT ANTI JOIN b USING (x)", "LEFT ANTI JOIN"),
    ],
)
def test_a_query_names_what_no_stream_can_do(sql: str, words: str) -> None:
    assert read_query(sql).unsupported == (words,)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x FROM a LIMIT 3",
        "SELECT x FROM (SELECT x, y FROM a) WHERE y IN (1, 2)",
        "SELECT a.x FROM a JOIN (SELECT x FROM b) c ON a.x = c.x",
        "SELECT count_if(x > 1), sum(x) FILTER (WHERE y) FROM a GROUP BY z",
        "SELECT sort_array(collect_list(x)) FROM a GROUP BY z",
    ],
)
def test_what_streams_can_do_is_not_held_against_a_query(sql: str) -> None:
    assert read_query(sql).unsupported == ()


def test_a_watermark_in_sql_is_noticed() -> None:
    assert read_query("SELECT * FROM a WATERMARK t DELAY OF INTERVAL 1 MINUTE").sets_watermark


def test_a_watermark_that_is_only_talked_of_is_not_one() -> None:
    assert not read_query(
        "SELECT x -- no watermark t delay of it\nFROM a WHERE y = 'watermark a delay of b'"
    ).sets_watermark


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELEC 1", "Invalid expression / Unexpected token near '1' (line 1, column 7)"),
        ("SELECT FROM WHERE", "Expected table name but got WHERE near 'WHERE' (line 1, column 13)"),
        ("SELECT 'abc", "it is cut off, or a quote is not closed"),
        ("SELECT FROM a", "SELECT names no columns"),
        ("SELECT x FROM a GROUP BY", "GROUP BY names no columns"),
        ("", "it is empty"),
        ("SELECT 1; SELECT 2", "it is 2 statements, not one query"),
        ("INSERT INTO a SELECT 1", "it is not a query, but INSERT"),
        ("TABLE a", "it is not a query"),
        ("SHOW TABLES", "it is not a query, but SHOW"),
    ],
)
def test_what_is_not_a_query_says_why(sql: str, reason: str) -> None:
    with pytest.raises(NotAQuery) as caught:
        read_query(sql)

    assert str(caught.value) == reason


def test_spark_has_the_last_word_on_what_sqlglot_does_not_read() -> None:
    assert read_query("SELEC 1", lambda sql: None).tables is None

    with pytest.raises(NotAQuery, match="PARSE_SYNTAX_ERROR"):
        read_query("SELEC 1", lambda sql: "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'")


def test_spark_is_not_asked_about_what_sqlglot_reads() -> None:
    def never(sql: str) -> str | None:
        raise AssertionError(sql)

    assert read_query("SELECT x FROM a", never).tables == frozenset({"a"})
