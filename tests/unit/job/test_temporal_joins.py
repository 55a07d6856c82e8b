"""Joins with versions: what a job file may say of them, in every form of job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.jobs import Part, job_file, sink, timed_source
from tests.unit.job.contents import load, problems
from tests.unit.job.sql_text import in_sql

from streamjob import Job
from streamjob.ids import OperatorUid
from streamjob.job.loading.converting import content_of, converted
from streamjob.job.loading.load import load_dsl, load_job
from streamjob.job.planning.drawing import as_text
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import plan
from streamjob.job.query.sql import read_query, stateful_parts
from streamjob.job.query.temporal_sql import BadClause, Versions, marked
from streamjob.stored.state_owners import owners

TEMPORAL: dict[str, Any] = {"on": ["currency = code"], "select": ["rate", "name AS label"]}
SCHEMAS = {
    "orders": "id INT, currency STRING, at TIMESTAMP",
    "rates": "code STRING, rate INT, name STRING, at TIMESTAMP",
}

JOIN = "LEFT JOIN rates FOR SYSTEM_TIME AS OF o.at r ON o.currency = r.code"
QUERY = f"SELECT o.id, r.rate FROM orders o {JOIN}"


def versioned(name: str, **changes: Any) -> Part:
    """Return a source with the columns of its name, and an event time."""
    return timed_source(name, **{"schema": SCHEMAS[name], "watermark": {"column": "at", "delay": "1m"}, **changes})


def shop(sources: list[Part] | None = None, **operator: Any) -> Part:
    """Return a job that joins orders with the rates of their time."""
    joined = {"name": "priced", "inputs": ["orders", "rates"], "temporalJoin": TEMPORAL, **operator}
    read = sources or [versioned("orders"), versioned("rates")]
    return job_file(joined, name="shop", sources=read, sinks=[sink("priced", "json", "out", name="out")])


def test_a_temporal_join_is_one_chain_with_both_sources(tmp_path: Path) -> None:
    spec = load(tmp_path, shop(temporalJoin={**TEMPORAL, "validFor": "30d"}))

    (temporal,) = [each.temporal_join for each in spec.operators]
    assert temporal is not None
    assert temporal.key_columns() == (("currency", "code"),)
    assert temporal.added_columns() == (("rate", "rate"), ("name", "label"))
    assert temporal.valid_for == 30 * 86400
    assert [chain.uid for chain in plan(spec).chains] == ["priced"]


def test_its_state_belongs_to_it(tmp_path: Path) -> None:
    query = "SELECT rate, count(*) AS n FROM priced GROUP BY rate, window(at, '1 minute')"
    content = shop()
    content["operators"].append({"name": "counts", "inputs": ["priced"], "sql": query})
    content["sinks"][0]["input"] = "counts"
    graph = graph_of(load(tmp_path, content))

    uids = [OperatorUid(each) for each in ("orders", "rates", "priced", "counts")]
    found = owners(graph, uids, ["stateStoreSave", "transformWithStateExec"])

    assert found == (("counts",), ("priced",))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (shop(inputs=["orders"]), "name two inputs: the rows, and then the versions"),
        (shop(inputs=["orders", "orders"]), "name two inputs: the rows, and then the versions"),
        (shop([versioned("orders", watermark=None), versioned("rates")]), "its input 'orders' has no watermark"),
        (shop([versioned("orders"), versioned("rates", watermark=None)]), "its input 'rates' has no watermark"),
        (shop(outputMode="update"), "has a temporalJoin and outputMode update"),
        (shop(watermark={"column": "at", "delay": "1m"}), "its rows keep the event time of its first input"),
        (shop(sql="SELECT * FROM orders, rates"), "has both sql and temporalJoin"),
        (shop(onError="drop"), "has onError and 2 inputs"),
        (shop(temporalJoin={"on": ["code"]}), "lacks 'temporalJoin.select'"),
        (shop(temporalJoin={**TEMPORAL, "on": []}), "on"),
        (shop(temporalJoin={**TEMPORAL, "on": ["a < b"]}), "is neither a column nor"),
        (shop(temporalJoin={**TEMPORAL, "join": "right"}), "join"),
        (shop(temporalJoin={**TEMPORAL, "validFor": "0s"}), "must be more than 0s"),
        (shop(temporalJoin={**TEMPORAL, "ttl": "1h"}), "ttl"),
    ],
)
def test_a_temporal_join_that_cannot_work_is_refused(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    assert said in problems(tmp_path, content)


def test_versions_that_an_operator_updates_are_refused(tmp_path: Path) -> None:
    content = shop(inputs=["orders", "latest"])
    query = "SELECT code, max(rate) AS rate, max(name) AS name, max(at) AS at FROM rates GROUP BY code"
    content["operators"].append({"name": "latest", "inputs": ["rates"], "sql": query, "outputMode": "update"})

    assert "has outputMode update, but the operator 'priced' reads it" in problems(tmp_path, content)


def test_the_rows_of_a_loop_are_refused(tmp_path: Path) -> None:
    content = shop(inputs=["looped", "rates"])
    back = {"from": "looped", "feedback": True, "schema": SCHEMAS["orders"]}
    looped = {
        "name": "looped",
        "inputs": ["orders", back],
        "sql": "SELECT * FROM orders UNION ALL SELECT * FROM looped",
    }
    content["operators"].append(looped)

    assert "its input 'looped' has no watermark" in problems(tmp_path, content)


def test_the_dsl_and_sql_give_the_same_job_as_yaml(tmp_path: Path) -> None:
    written = load(tmp_path, shop(temporalJoin={**TEMPORAL, "join": "inner", "validFor": "30d"}))
    made = Job("shop")
    orders, rates = (
        made.source(name, format="json", schema=SCHEMAS[name], options={"path": name}, watermark=("at", "1m"))
        for name in ("orders", "rates")
    )
    priced = made.temporal_join(
        "priced",
        input=orders,
        versions=rates,
        on=TEMPORAL["on"],
        select=TEMPORAL["select"],
        join="inner",
        valid_for="30d",
    )
    made.sink("out", input=priced, format="json", options={"path": "out"})
    (tmp_path / "shop.sql").write_text(in_sql(content_of(written)))

    assert load_dsl(made, directory=tmp_path).spec == written
    assert load_job(tmp_path / "shop.sql").spec == written


def by_query(query: str, sources: list[dict[str, Any]] | None = None, **operator: Any) -> dict[str, Any]:
    content = shop(sources)
    content["operators"] = [{"name": "priced", "inputs": ["orders", "rates"], "sql": query, **operator}]
    return content


@pytest.mark.parametrize(
    ("query", "text", "versions"),
    [
        (
            "SELECT * FROM o JOIN rates FOR SYSTEM_TIME AS OF o.at r ON o.a = r.a",
            "SELECT * FROM o JOIN __streamjob_versions_0 r ON o.a = r.a",
            (Versions("rates", ("o", "at")),),
        ),
        (
            "SELECT * FROM o JOIN rates for system_time\nas of o.at AS r ON o.a = r.a",
            "SELECT * FROM o JOIN __streamjob_versions_0 AS r ON o.a = r.a",
            (Versions("rates", ("o", "at")),),
        ),
        (
            "SELECT * FROM o JOIN `my rates` FOR SYSTEM_TIME AS OF `the time` ON a = b WHERE c",
            "SELECT * FROM o JOIN __streamjob_versions_0 AS `my rates` ON a = b WHERE c",
            (Versions("my rates", ("the time",)),),
        ),
        (
            "SELECT 1 FROM o JOIN p FOR SYSTEM_TIME AS OF o.at ON a = b JOIN q FOR SYSTEM_TIME AS OF o.at ON a = c",
            "SELECT 1 FROM o JOIN __streamjob_versions_0 AS p ON a = b JOIN __streamjob_versions_1 AS q ON a = c",
            (Versions("p", ("o", "at")), Versions("q", ("o", "at"))),
        ),
        (
            "SELECT 1 FROM o JOIN rates -- a\n/*+ options('validFor'='30 days' ) */ FOR SYSTEM_TIME AS OF t r ON a = b",
            "SELECT 1 FROM o JOIN __streamjob_versions_0 r ON a = b",
            (Versions("rates", ("t",), 30 * 86400.0),),
        ),
        (
            "SELECT /*+ BROADCAST(o) */ * FROM o JOIN rates /* all */ FOR SYSTEM_TIME AS OF o.at r ON o.a = r.a",
            "SELECT /*+ BROADCAST(o) */ * FROM o JOIN __streamjob_versions_0 r ON o.a = r.a",
            (Versions("rates", ("o", "at")),),
        ),
        ("SELECT 'FOR SYSTEM_TIME AS OF x' -- FOR SYSTEM_TIME AS OF x", None, ()),
        ("SELECT `for system_time as of` FROM o", None, ()),
        ("SELECT 'open", None, ()),
    ],
)
def test_clauses_are_taken_out_of_a_query(query: str, text: str | None, versions: tuple[Versions, ...]) -> None:
    found = marked(query)

    assert found.text == (query if text is None else text)
    assert found.versions == versions


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM o JOIN rates FOR SYSTEM_TIME AS OF now() ON a = b",
        "SELECT * FROM o JOIN rates FOR SYSTEM_TIME AS OF '2026-01-01' ON a = b",
        "SELECT * FROM o JOIN (SELECT 1) FOR SYSTEM_TIME AS OF o.at ON a = b",
        "SELECT * FROM o JOIN a.rates FOR SYSTEM_TIME AS OF o.at ON a = b",
        "FOR SYSTEM_TIME AS OF",
    ],
)
def test_a_clause_without_an_input_or_a_column_is_refused(query: str) -> None:
    with pytest.raises(BadClause):
        marked(query)


@pytest.mark.parametrize(
    ("hint", "said", "fix"),
    [
        ("OPTIONS('validFr' = '30d')", "versions have no option 'validFr'", "did you mean 'validFor'?"),
        ("OPTIONS('validFor' = 'long')", "'long' is not a duration", "OPTIONS('validFor' = '30d')"),
        ("OPTIONS('validFor' = '0s')", "must be more than 0s", "OPTIONS('validFor' = '30d')"),
        ("OPTIONS(validFor = 30)", "has 'validFor = 30', no option", "OPTIONS('validFor' = '30d')"),
        ("STATE_TTL('rates' = '30d')", "is not OPTIONS", "OPTIONS('validFor' = '30d')"),
    ],
)
def test_an_option_of_versions_that_cannot_be_read_is_refused(tmp_path: Path, hint: str, said: str, fix: str) -> None:
    found = problems(tmp_path, by_query(QUERY.replace("rates FOR", f"rates /*+ {hint} */ FOR")))

    assert said in found
    assert fix in found


def test_a_query_with_an_option_of_its_versions_is_the_same_in_yaml_and_sql(tmp_path: Path) -> None:
    query = QUERY.replace("rates FOR", "rates /*+ OPTIONS('validFor' = '30d') */ FOR")
    written = load(tmp_path, by_query(query))
    (tmp_path / "shop.sql").write_text(in_sql(content_of(written)))
    read = load_job(tmp_path / "shop.sql").spec
    (tmp_path / "again.yaml").write_text(converted(read))

    assert written.operators[0].sql == query
    assert read == written
    assert load_job(tmp_path / "again.yaml").spec == written


def test_a_query_that_joins_versions_keeps_their_state_in_append_mode() -> None:
    read = read_query(QUERY)

    assert read.tables == frozenset({"orders", "rates"})
    assert [(each.kind, each.inputs) for each in read.temporal_joins] == [("LEFT JOIN", frozenset({"rates"}))]
    assert read.state_joins == ()
    assert read.modes == frozenset({"append"})
    assert stateful_parts(QUERY) == ("temporal",)


def test_a_query_may_join_versions(tmp_path: Path) -> None:
    load(tmp_path, by_query(QUERY))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            by_query(QUERY, [versioned("orders"), versioned("rates", watermark=None)]),
            "its input 'rates' has no watermark",
        ),
        (
            by_query(QUERY, [versioned("orders", watermark=None), versioned("rates")]),
            "its input 'orders' has no watermark",
        ),
        (by_query(QUERY.replace("LEFT", "RIGHT")), "its SQL has RIGHT JOIN with FOR SYSTEM_TIME AS OF"),
        (by_query(QUERY.replace("o.at", "current_timestamp()")), "its SQL cannot join versions"),
        (by_query(QUERY, outputMode="update"), "outputMode update"),
    ],
)
def test_a_query_that_cannot_join_versions_is_refused(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    assert said in problems(tmp_path, content)


def test_a_table_has_no_versions(tmp_path: Path) -> None:
    content = by_query(QUERY, [versioned("orders")], inputs=["orders"])
    table = {"name": "rates", "format": "json", "schema": SCHEMAS["rates"], "options": {"path": "rates"}}

    assert "'rates' is a table, which has no versions" in problems(tmp_path, {**content, "tables": [table]})


def test_a_plan_says_what_a_join_does(tmp_path: Path) -> None:
    spec = load(tmp_path, shop())

    assert "  operator  priced  temporal join over orders, rates" in as_text(spec, plan(spec)).splitlines()
