"""The owners of the stateful operators that Spark numbers, found from the job's graph."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.ids import OperatorUid
from streamjob.job.query.sql import stateful_parts
from streamjob.stored.state_owners import owners

WINDOWS = "SELECT k, window.start AS start, count(*) AS n FROM {} GROUP BY k, window(at, '1 hour')"
JOIN = "SELECT a.k FROM a JOIN b ON a.k = b.k"
PLAIN = "SELECT k, at FROM {} WHERE k <> ''"


def graph(*operators: tuple[str, list[str], str | None]) -> dict[str, Any]:
    """A job's graph: names are uids in upper case; an operator without SQL is a Python function."""
    return {
        "operators": [
            {"name": name, "uid": name.upper(), "inputs": [{"from": each, "feedback": False} for each in inputs]}
            | ({"python": "module:function"} if sql is None else {"sql": sql})
            for name, inputs, sql in operators
        ]
    }


def whose(described: dict[str, Any], *names: str) -> list[str]:
    chain = [OperatorUid(uid) for uid in ("SOURCE", *(each["uid"] for each in described["operators"]), "SINK")]
    return ["|".join(uids) for uids in owners(described, chain, names)]


def test_spark_counts_from_the_output_towards_the_inputs() -> None:
    described = graph(("joined", ["a", "b"], JOIN), ("hours", ["joined"], WINDOWS.format("joined")))

    assert whose(described, "stateStoreSave", "symmetricHashJoin") == ["HOURS", "JOINED"]


def test_the_inputs_of_an_operator_are_counted_from_left_to_right() -> None:
    described = graph(
        ("a", ["x"], WINDOWS.format("x")), ("b", ["y"], WINDOWS.format("y")), ("joined", ["a", "b"], JOIN)
    )

    assert whose(described, "symmetricHashJoin", "stateStoreSave", "stateStoreSave") == ["JOINED", "A", "B"]


def test_all_state_of_a_chain_of_one_operator_is_its_own() -> None:
    assert whose(graph(("all", ["x"], None)), "dedupe", "transformWithStateExec") == ["ALL", "ALL"]


def test_one_function_between_queries_has_what_is_left() -> None:
    described = graph(
        ("joined", ["a", "b"], JOIN), ("custom", ["joined"], None), ("hours", ["custom"], WINDOWS.format("custom"))
    )

    assert whose(described, "stateStoreSave", "dedupe", "dedupe", "symmetricHashJoin") == [
        "HOURS",
        "CUSTOM",
        "CUSTOM",
        "JOINED",
    ]
    assert whose(described, "stateStoreSave", "symmetricHashJoin") == ["HOURS", "JOINED"]


def test_of_two_functions_it_cannot_be_told_which_has_the_state() -> None:
    described = graph(("one", ["x"], None), ("between", ["one"], PLAIN.format("one")), ("two", ["between"], None))

    assert whose(described, "dedupe") == ["TWO|ONE"]


def test_state_that_no_query_asks_for_may_be_anybodys() -> None:
    described = graph(("first", ["x"], WINDOWS.format("x")), ("second", ["first"], PLAIN.format("first")))

    assert whose(described, "dedupe") == ["FIRST"]
    assert whose(described, "stateStoreSave", "dedupe") == ["FIRST", "FIRST"]


def test_an_operator_of_another_chain_has_none_of_the_state() -> None:
    described = graph(("first", ["x"], WINDOWS.format("x")), ("second", ["first"], WINDOWS.format("first")))

    assert owners(described, [OperatorUid("SECOND")], ["stateStoreSave"]) == ((OperatorUid("SECOND"),),)


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("SELECT k FROM a", ()),
        ("SELECT k, count(*) FROM a GROUP BY k", ("aggregation",)),
        ("SELECT max(n) FROM a", ("aggregation",)),
        ("SELECT DISTINCT k FROM a", ("aggregation",)),
        ("SELECT k FROM a UNION SELECT k FROM b", ("aggregation",)),
        ("SELECT k FROM a UNION ALL SELECT k FROM b", ()),
        ("SELECT k FROM a LIMIT 3", ("limit",)),
        ("SELECT count(*) FROM (SELECT a.k FROM a JOIN b ON a.k = b.k) AS pairs", ("aggregation", "join")),
        ("SELECT a.k FROM a JOIN (VALUES (1), (2)) AS v(n) ON a.n = v.n", ()),
        ("WITH twice AS (SELECT count(*) AS n FROM a) SELECT n FROM twice", None),
        ("SELECT FROM WHERE", None),
        ("SELECT * FROM STREAM a WATERMARK at DELAY OF INTERVAL 1 HOUR", None),
    ],
)
def test_what_keeps_state_is_seen_in_a_query(sql: str, parts: tuple[str, ...] | None) -> None:
    assert stateful_parts(sql) == parts
