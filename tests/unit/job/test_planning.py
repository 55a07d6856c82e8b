"""Operators are fused into one chain wherever they can be; a plan and a graph are shown."""

from __future__ import annotations

import json
from pathlib import Path

from streamjob import Job
from streamjob.job import JobSpec, graph_of, plan
from streamjob.job.drawing import as_json, as_mermaid, as_text


def chain_of_two() -> Job:
    job = Job("departures", parallelism=2, checkpointing={"interval": "5s"})
    flights = job.source(
        "flights",
        format="csv",
        schema="origin STRING, departed TIMESTAMP",
        options={"path": "in"},
        bounded=True,
        watermark=("departed", "1 hour"),
    )
    # Declared before what it reads: the plan has them in the order of the data.
    job.sql("hours", inputs=["late"], sql="SELECT * FROM late", uid="hours-1")
    job.sql("late", inputs=[flights], sql="SELECT * FROM flights")
    job.sink("report", input="hours", format="parquet", options={"path": "out"})
    job.sink("copy", input="hours", format="console")
    return job


def test_all_operators_are_fused_each_after_its_inputs() -> None:
    (chain,) = plan(chain_of_two().spec()).chains

    assert [each.name for each in chain.operators] == ["late", "hours"]
    assert [each.name for each in chain.sinks] == ["report", "copy"]
    assert chain.uids() == ("flights", "late", "hours-1", "report", "copy")
    assert (chain.uid, chain.output, chain.output_mode) == ("hours-1", "hours", "append")


def test_a_job_without_operators_is_a_chain() -> None:
    job = Job("copy")
    job.sink("out", input=job.source("in", format="rate"), format="console")

    (chain,) = plan(job.spec()).chains

    assert (chain.uid, chain.operators, chain.output) == ("in", (), "in")


def test_the_query_has_the_output_mode_of_what_the_sinks_read() -> None:
    job = Job("counts")
    source = job.source("in", format="rate")
    counts = job.sql("counts", inputs=[source], sql="SELECT count(*) FROM in", output_mode="complete")
    job.sink("out", input=counts, format="console")

    assert plan(job.spec()).chains[0].output_mode == "complete"


def test_the_graph_says_all_that_a_restore_needs() -> None:
    graph = graph_of(chain_of_two().spec(), Path("/jobs"))

    assert json.loads(json.dumps(graph)) == graph
    assert graph == {
        "name": "departures",
        "parallelism": 2,
        "maxParallelism": 4,
        "sources": [
            {
                "name": "flights",
                "uid": "flights",
                "format": "csv",
                "schema": "origin STRING, departed TIMESTAMP",
                "options": {"path": "/jobs/in"},
                "bounded": True,
                "watermark": {"column": "departed", "delay": "1h"},
            }
        ],
        "operators": [
            {
                "name": "hours",
                "uid": "hours-1",
                "inputs": [{"from": "late", "feedback": False}],
                "sql": "SELECT * FROM late",
                "outputMode": "append",
                "chain": True,
            },
            {
                "name": "late",
                "uid": "late",
                "inputs": [{"from": "flights", "feedback": False}],
                "sql": "SELECT * FROM flights",
                "outputMode": "append",
                "chain": True,
            },
        ],
        "sinks": [
            {
                "name": "report",
                "uid": "report",
                "input": "hours",
                "format": "parquet",
                "options": {"path": "/jobs/out"},
                "delivery": "exactly-once",
                "partitionBy": [],
            },
            {
                "name": "copy",
                "uid": "copy",
                "input": "hours",
                "format": "console",
                "options": {},
                "delivery": "at-least-once",
                "partitionBy": [],
            },
        ],
    }


def test_the_graph_is_read_back_as_the_same_parts() -> None:
    spec = chain_of_two().spec()
    again = JobSpec.model_validate(graph_of(spec), by_alias=True, by_name=False)

    assert (again.sources, again.operators, again.sinks) == (spec.sources, spec.operators, spec.sinks)


def test_the_graph_has_no_secrets() -> None:
    job = Job("secret")
    options = {"kafka.sasl.password": "hunter2", "url": "https://me:hunter2@host", "topic": "${env:TOPIC}"}
    job.sink("out", input=job.source("in", format="kafka", options=options), format="console")

    graph = graph_of(job.spec())

    assert "hunter2" not in json.dumps(graph)
    assert "${env:TOPIC}" in json.dumps(graph)


def test_a_plan_is_shown_as_text() -> None:
    spec = chain_of_two().spec()

    assert as_text(spec, plan(spec)).splitlines() == [
        "departures: 1 chain, 2 task slots, 4 state partitions, a checkpoint every 5s",
        "",
        "chain hours-1 (append)",
        "  source    flights  csv, bounded, watermark on departed, 1h late",
        "  operator  late     SQL over flights",
        "  operator  hours    SQL over late",
        "  sink      report   parquet, exactly-once, from hours",
        "  sink      copy     console, at-least-once, from hours",
    ]


def test_a_plan_is_shown_as_json() -> None:
    spec = chain_of_two().spec()

    shown = as_json(spec, plan(spec))

    assert json.loads(json.dumps(shown)) == shown
    assert shown["chains"] == [
        {
            "uid": "hours-1",
            "sources": ["flights"],
            "operators": ["late", "hours-1"],
            "sinks": ["report", "copy"],
            "output": "hours",
            "outputMode": "append",
        }
    ]
    assert shown["graph"] == graph_of(spec)


def test_a_plan_is_shown_as_a_diagram() -> None:
    spec = chain_of_two().spec()

    assert as_mermaid(spec, plan(spec)).splitlines() == [
        "flowchart LR",
        '  n0[("flights<br/>csv")]',
        '  subgraph c0["chain hours-1"]',
        '    n2["late"]',
        '    n1["hours"]',
        "  end",
        '  n3[["report<br/>parquet, exactly-once"]]',
        '  n4[["copy<br/>console, at-least-once"]]',
        "  n2 --> n1",
        "  n0 --> n2",
        "  n1 --> n3",
        "  n1 --> n4",
    ]
