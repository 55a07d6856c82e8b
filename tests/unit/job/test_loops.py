"""A feedback input is always a channel, and so is whatever leads into the loop that it closes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.unit.job.texts import messages

from streamjob import Job, feedback
from streamjob.ids import ChainUid
from streamjob.job.model.spec import JobSpec
from streamjob.job.planning.drawing import as_json, as_mermaid, as_text
from streamjob.job.planning.loops import closes_a_cycle, loops_of
from streamjob.job.planning.plan import Plan, plan
from streamjob.job.python_job.handles import Feedback
from streamjob.protocol.emissions.cuts import Emissions

BOTH = "SELECT * FROM {} UNION ALL SELECT * FROM {}"
COLUMNS = "timestamp TIMESTAMP, value BIGINT"


def job_of(*, bounded: bool = False, report: bool = False, apart: bool = False) -> Job:
    """Return a job in which `merge` and `step` form a loop after `clean`."""
    job = Job("loop")
    options: dict[str, Any] = {"schema": COLUMNS, "options": {"path": "in"}, "bounded": True} if bounded else {}
    job.source("events", format="csv" if bounded else "rate", watermark=("timestamp", "1 hour"), **options)
    job.sql("clean", inputs=["events"], sql="SELECT * FROM events")
    job.sql("merge", inputs=["clean", feedback("step", COLUMNS)], sql=BOTH.format("clean", "step"), chain=not apart)
    job.sql("step", inputs=["merge"], sql="SELECT timestamp, value - 1 AS value FROM merge WHERE value > 0")
    if report:
        job.sql("report", inputs=["step"], sql="SELECT value FROM step")
        job.sink("out", input="report", format="console")
    else:
        job.sink("out", input="step", format="console")
    return job


def planned(**shape: bool) -> Plan:
    return plan(job_of(**shape).spec())


def channels(planned: Plan) -> dict[tuple[str, str], str]:
    return {(each.source, each.target): each.reason for each in planned.channels}


def test_a_loop_that_one_query_can_hold_reads_its_own_stream() -> None:
    found = planned()

    assert [chain.uids() for chain in found.chains] == [("events", "clean"), ("merge", "step", "out")]
    assert channels(found) == {
        ("clean", "step"): "operator 'merge' is in a loop, which has an end of its own",
        ("step", "step"): "it is fed back",
    }
    assert [channel.feedback for channel in found.channels] == [False, True]
    assert found.channels[1].schema_ddl == COLUMNS
    assert found.chain(ChainUid("step")).loop == ("merge", "step")
    assert found.chain(ChainUid("clean")).loop == ()


def test_chains_of_a_loop_read_each_other_and_what_follows_stands_apart() -> None:
    found = planned(apart=True, report=True)

    assert channels(found) == {
        (
            "clean",
            "merge",
        ): "operator 'merge' is in a loop, which has an end of its own; operator 'merge' has chain: false",
        ("step", "merge"): "it is fed back",
        ("merge", "step"): "operator 'merge' has chain: false",
        ("step", "report"): "operator 'merge' and operator 'report' read 'step'",
    }
    assert [chain.loop for chain in found.chains] == [(), ("merge", "step"), ("merge", "step"), ()]
    assert [found.feeds_back(chain.uid) for chain in found.chains] == [False, False, True, False]


@pytest.mark.parametrize("bounded", [False, True])
def test_a_loop_ends_if_all_that_leads_into_it_does(bounded: bool) -> None:
    assert {chain.bounded for chain in planned(bounded=bounded, apart=True).chains} == {bounded}


def test_a_plan_draws_the_loop() -> None:
    job = job_of()
    spec, found = job.spec(), plan(job.spec())

    text = as_text(spec, found)
    assert "chain step (append, in the loop of merge, step)" in text
    assert "  feedback  step   from chain step: it is fed back" in text
    assert '  n2 -. "it is fed back" .-> n1' not in as_mermaid(spec, found)
    assert '  n3 -. "it is fed back" .-> n2' in as_mermaid(spec, found)
    drawn: Any = as_json(spec, found)
    assert [chain["loop"] for chain in drawn["chains"]] == [[], ["merge", "step"]]
    assert [channel["feedback"] for channel in drawn["channels"]] == [False, True]


@pytest.mark.parametrize(
    "timed", ["dropDuplicatesWithinWatermark", "EventTimeTimeout", "ProcessingTimeTimeout", "session_window"]
)
def test_a_function_in_a_loop_that_waits_for_time_is_refused(tmp_path: Path, timed: str) -> None:
    (tmp_path / "steps.py").write_text(f"def step(merge):\n    return merge.{timed}()\n", "utf-8")
    text = f"""
name: loop
sources: [{{name: a, format: rate}}]
operators:
- {{name: merge, inputs: [a, {{from: step, feedback: true, schema: '{COLUMNS}'}}],
   sql: 'SELECT * FROM a UNION ALL SELECT * FROM step'}}
- {{name: step, inputs: [merge], python: 'steps:step'}}
sinks: [{{name: out, input: step, format: console}}]
"""
    (problem,) = messages(tmp_path, text)

    assert problem.startswith(f"operator 'step': has {timed}, in a loop with 'merge'")


@st.composite
def looped_jobs(draw: st.DrawFn) -> JobSpec:
    """Return a job with a few operators; each reads earlier ones, and some read later ones as well."""
    count = draw(st.integers(1, 6))
    job = Job("drawn")
    for name in ("ends", "flows"):
        job.source(name, format="csv", schema=COLUMNS, options={"path": name}, bounded=name == "ends")
    for number in range(count):
        before = ["ends", "flows", *(f"o{each}" for each in range(number))]
        forward = draw(st.lists(st.sampled_from(before), min_size=1, max_size=2, unique=True))
        back = draw(st.lists(st.integers(number, count - 1), max_size=1))
        inputs: list[str | Feedback] = [*forward, *(feedback(f"o{each}", COLUMNS) for each in back)]
        job.sql(f"o{number}", inputs=inputs, sql="SELECT 1", chain=draw(st.booleans()))
    for number in draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3, unique=True)):
        job.sink(f"s{number}", input=f"o{number}", format="console")
    spec = job.spec()
    assume(all(closes_a_cycle(spec, e.name, o.name) for o in spec.operators for e in o.inputs if e.feedback))
    return spec


@given(looped_jobs())
@settings(deadline=None)
def test_chains_of_any_loop_read_nothing_but_channels_and_can_be_checkpointed(spec: JobSpec) -> None:
    found = plan(spec)

    back = {(each.source, each.target) for each in found.channels if each.feedback}
    job = Emissions(
        [chain.uid for chain in found.chains], [(c.source, c.target) for c in found.channels], feedback=back
    )
    loops = loops_of(spec)
    for chain in found.chains:
        members = {each.uid for each in found.chains if chain.loop and each.loop == chain.loop}
        assert set(job.loop(chain.uid)) == members
        assert {loops.get(operator.name, ()) for operator in chain.operators} <= {chain.loop}
        assert not (chain.loop and chain.sources)
        leads_in = [
            channel for channel in found.channels if channel.target in members and channel.source not in members
        ]
        assert bool(leads_in) is bool(chain.loop)
    home = {each.name: chain.uid for chain in found.chains for each in chain.operators}
    fed_back = {(home[edge.name], home[each.name]) for each in spec.operators for edge in each.inputs if edge.feedback}
    assert back == fed_back
