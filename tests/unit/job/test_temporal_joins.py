"""Joins with versions: what a job file may say of them, in every form of job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from streamjob import Job
from streamjob.errors import InvalidJob
from streamjob.ids import OperatorUid
from streamjob.job.converting import converted
from streamjob.job.graph import graph_of
from streamjob.job.load import load_dsl, load_job
from streamjob.job.plan import plan
from streamjob.job.spec import JobSpec
from streamjob.stored.state_owners import owners

TEMPORAL: dict[str, Any] = {"on": ["currency = code"], "select": ["rate", "name AS label"]}
SCHEMAS = {
    "orders": "id INT, currency STRING, at TIMESTAMP",
    "rates": "code STRING, rate INT, name STRING, at TIMESTAMP",
}


def source(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "format": "json",
        "schema": SCHEMAS[name],
        "options": {"path": name},
        "watermark": {"column": "at", "delay": "1m"},
        **changes,
    }


def job(sources: list[dict[str, Any]] | None = None, **operator: Any) -> dict[str, Any]:
    joined = {"name": "priced", "inputs": ["orders", "rates"], "temporalJoin": TEMPORAL, **operator}
    return {
        "name": "shop",
        "sources": sources or [source("orders"), source("rates")],
        "operators": [joined],
        "sinks": [{"name": "out", "input": "priced", "format": "json", "options": {"path": "out"}}],
    }


def load(directory: Path, content: dict[str, Any]) -> JobSpec:
    (directory / "job.yaml").write_text(yaml.safe_dump(content))
    return load_job(directory / "job.yaml").spec


def problems(directory: Path, content: dict[str, Any]) -> str:
    with pytest.raises(InvalidJob) as raised:
        load(directory, content)
    return str(raised.value)


def test_a_temporal_join_is_one_chain_with_both_sources(tmp_path: Path) -> None:
    spec = load(tmp_path, job(temporalJoin={**TEMPORAL, "validFor": "30d"}))

    (temporal,) = [each.temporal_join for each in spec.operators]
    assert temporal is not None
    assert temporal.key_columns() == (("currency", "code"),)
    assert temporal.added_columns() == (("rate", "rate"), ("name", "label"))
    assert temporal.valid_for == 30 * 86400
    assert [chain.uid for chain in plan(spec).chains] == ["priced"]


def test_its_state_belongs_to_it(tmp_path: Path) -> None:
    query = "SELECT rate, count(*) AS n FROM priced GROUP BY rate, window(at, '1 minute')"
    content = job()
    content["operators"].append({"name": "counts", "inputs": ["priced"], "sql": query})
    content["sinks"][0]["input"] = "counts"
    graph = graph_of(load(tmp_path, content))

    uids = [OperatorUid(each) for each in ("orders", "rates", "priced", "counts")]
    found = owners(graph, uids, ["stateStoreSave", "transformWithStateExec"])

    assert found == (("counts",), ("priced",))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (job(inputs=["orders"]), "name two inputs: the rows, and then the versions"),
        (job(inputs=["orders", "orders"]), "name two inputs: the rows, and then the versions"),
        (job([source("orders", watermark=None), source("rates")]), "its input 'orders' has no watermark"),
        (job([source("orders"), source("rates", watermark=None)]), "its input 'rates' has no watermark"),
        (job(outputMode="update"), "has a temporalJoin and outputMode update"),
        (job(watermark={"column": "at", "delay": "1m"}), "its rows keep the event time of its first input"),
        (job(sql="SELECT * FROM orders, rates"), "has both sql and temporalJoin"),
        (job(onError="drop"), "has onError and 2 inputs"),
        (job(temporalJoin={"on": ["code"]}), "lacks 'temporalJoin.select'"),
        (job(temporalJoin={**TEMPORAL, "on": []}), "on"),
        (job(temporalJoin={**TEMPORAL, "on": ["a < b"]}), "is neither a column nor"),
        (job(temporalJoin={**TEMPORAL, "join": "right"}), "join"),
        (job(temporalJoin={**TEMPORAL, "validFor": "0s"}), "must be more than 0s"),
        (job(temporalJoin={**TEMPORAL, "ttl": "1h"}), "ttl"),
    ],
)
def test_a_temporal_join_that_cannot_work_is_refused(tmp_path: Path, content: dict[str, Any], said: str) -> None:
    assert said in problems(tmp_path, content)


def test_versions_that_an_operator_updates_are_refused(tmp_path: Path) -> None:
    content = job(inputs=["orders", "latest"])
    query = "SELECT code, max(rate) AS rate, max(name) AS name, max(at) AS at FROM rates GROUP BY code"
    content["operators"].append({"name": "latest", "inputs": ["rates"], "sql": query, "outputMode": "update"})

    assert "has outputMode update, but the operator 'priced' reads it" in problems(tmp_path, content)


def test_the_rows_of_a_loop_are_refused(tmp_path: Path) -> None:
    content = job(inputs=["looped", "rates"])
    back = {"from": "looped", "feedback": True, "schema": SCHEMAS["orders"]}
    looped = {
        "name": "looped",
        "inputs": ["orders", back],
        "sql": "SELECT * FROM orders UNION ALL SELECT * FROM looped",
    }
    content["operators"].append(looped)

    assert "its input 'looped' has no watermark" in problems(tmp_path, content)


def test_the_dsl_and_sql_give_the_same_job_as_yaml(tmp_path: Path) -> None:
    written = load(tmp_path, job(temporalJoin={**TEMPORAL, "join": "inner", "validFor": "30d"}))
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
    (tmp_path / "shop.sql").write_text(converted(written, "sql"))

    assert load_dsl(made, directory=tmp_path).spec == written
    assert load_job(tmp_path / "shop.sql").spec == written
