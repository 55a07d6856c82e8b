"""Operators are fused into one chain wherever they can be; a plan and a graph are shown."""

from __future__ import annotations

import json
from pathlib import Path

from streamjob import Job
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.drawing import as_json, as_mermaid, as_text
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import plan


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
    # Declared before its inputs: the plan has them in the order of the data.
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
                "publish": "checkpoint",
                "partitionBy": [],
            },
            {
                "name": "copy",
                "uid": "copy",
                "input": "hours",
                "format": "console",
                "options": {},
                "delivery": "at-least-once",
                "publish": "checkpoint",
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


def test_rows_of_a_source_that_cannot_be_replayed_are_lossy_behind_every_operator() -> None:
    job = Job("lines")
    lines = job.source("lines", format="socket")
    own = job.source("own", format="com.example.Source", replayable=False)
    rows = job.source("rows", format="rate")
    for name, inputs in (("words", [lines]), ("both", [own, rows]), ("kept", [rows])):
        job.sql(name, inputs=inputs, sql=f"SELECT * FROM {inputs[0].name}", chain=False)
        job.sink(f"{name}_out", input=name, format="json", options={"path": name})
    spec = job.spec()

    shown = [line.split(maxsplit=2)[1:] for line in as_text(spec, plan(spec)).splitlines() if "sink" in line]

    assert shown == [
        ["words_out", "json, lossy, from words"],
        ["both_out", "json, lossy, from both"],
        ["kept_out", "json, exactly-once, from kept"],
    ]
    text = as_text(spec, plan(spec))
    assert "socket, not replayable: a restart loses the rows since the last checkpoint" in text
    assert as_json(spec, plan(spec))["lossy"] == ["words_out", "both_out"]
    assert "json, lossy" in as_mermaid(spec, plan(spec))


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
            "bounded": True,
            "loop": [],
        }
    ]
    assert shown["channels"] == []
    assert shown["graph"] == graph_of(spec)


def test_a_plan_is_shown_as_a_diagram() -> None:
    spec = chain_of_two().spec()

    assert as_mermaid(spec, plan(spec)).splitlines() == [
        "flowchart LR",
        '  subgraph c0["chain hours-1"]',
        '    n0[("flights<br/>csv")]',
        '    n2["late"]',
        '    n1["hours"]',
        '    n3[["report<br/>parquet, exactly-once"]]',
        '    n4[["copy<br/>console, at-least-once"]]',
        "  end",
        "  n0 --> n2",
        "  n2 --> n1",
        "  n1 --> n3",
        "  n1 --> n4",
    ]


def chains_of_two() -> JobSpec:
    job = Job("two-ways")
    flights = job.source("flights", format="rate")
    job.sql("early", inputs=[flights], sql="SELECT * FROM flights")
    job.sql("late", inputs=[flights], sql="SELECT * FROM flights", uid="late-1")
    job.sink("report", input="early", format="noop")
    job.sink("copy", input="late", format="noop")
    return job.spec()


def test_channels_are_shown_at_both_ends_and_say_why() -> None:
    spec = chains_of_two()

    assert as_text(spec, plan(spec)).splitlines() == [
        "two-ways: 3 chains, 2 channels, 2 task slots, 4 state partitions, a checkpoint every 10s",
        "",
        "chain flights (append)",
        "  source    flights  rate",
        "  channel   flights  to chains early, late-1",
        "",
        "chain early (append)",
        "  channel   flights  from chain flights: operator 'early' and operator 'late' read 'flights'",
        "  operator  early    SQL over flights",
        "  sink      report   noop, at-least-once, from early",
        "",
        "chain late-1 (append)",
        "  channel   flights  from chain flights: operator 'early' and operator 'late' read 'flights'",
        "  operator  late     SQL over flights",
        "  sink      copy     noop, at-least-once, from late",
    ]


def test_programs_are_told_of_channels_and_their_reasons() -> None:
    spec = chains_of_two()

    assert as_json(spec, plan(spec))["channels"] == [
        {
            "from": "flights",
            "to": target,
            "name": "flights",
            "uid": "flights",
            "reason": "operator 'early' and operator 'late' read 'flights'",
            "feedback": False,
        }
        for target in ("early", "late-1")
    ]


def test_channels_are_thick_arrows_of_the_diagram() -> None:
    spec = chains_of_two()
    lines = as_mermaid(spec, plan(spec)).splitlines()

    assert [line for line in lines if "=" in line and "subgraph" not in line] == [
        """  n0 == "operator 'early' and operator 'late' read 'flights'" ==> n1""",
        """  n0 == "operator 'early' and operator 'late' read 'flights'" ==> n2""",
    ]
