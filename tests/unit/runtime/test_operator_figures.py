"""Figures of the sources, operators and sinks of a chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.jobs import job_file, sink, sql, timed_source

from streamjob.client.models import BatchTimesView, OperatorView
from streamjob.ids import OperatorUid
from streamjob.job.model.reading import read_spec
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import plan
from streamjob_runtime.control.operator_figures import operator_figures
from streamjob_runtime.monitoring.chain_meter import ChainFigures
from streamjob_runtime.monitoring.query_progress import StateProgress

FLIGHTS, HOURS, REPORT = OperatorUid("flights"), OperatorUid("hours"), OperatorUid("report")
AGGREGATION = "SELECT window(at, '1 hour') AS hour, count(*) AS n FROM {} GROUP BY window(at, '1 hour')"
SAVED = StateProgress("stateStoreSave", rows=500, size=64_000, task_ms=120)
JOB = job_file(
    sql("hours", "flights", AGGREGATION),
    sources=[timed_source("flights", schema="at TIMESTAMP, id INT")],
    sinks=[sink("hours", "parquet", "out", name="report")],
)


def seen(**changes: Any) -> ChainFigures:
    times = BatchTimesView(batches=3, seconds=1.0, sinks={REPORT: 0.4})
    figures: dict[str, Any] = {"records_out": 70, "read": {FLIGHTS: 100}, "times": times}
    return ChainFigures(**figures | changes)


def of(
    figures: ChainFigures, late: Mapping[OperatorUid, int] | None = None, job: Mapping[str, Any] = JOB
) -> dict[str, OperatorView]:
    spec = read_spec(dict(job)).spec
    assert spec is not None
    (chain,) = plan(spec).chains
    views = operator_figures(chain, figures, late=late or {}, written={REPORT: 60}, graph=graph_of(spec))
    assert [view.uid for view in views] == list(chain.uids())
    return {view.uid: view for view in views}


def test_rows_are_known_where_they_enter_and_leave_the_query() -> None:
    views = of(seen())

    assert (views["flights"].rows_in, views["flights"].rows_out) == (None, 100)
    assert (views["hours"].rows_in, views["hours"].rows_out) == (100, 70)
    assert (views["report"].rows_in, views["report"].seconds) == (60, 0.4)


def test_rows_between_two_operators_of_a_chain_are_not_known() -> None:
    operators = [sql("clean", "flights"), sql("hours", "clean", AGGREGATION)]

    views = of(seen(states=[SAVED]), job=JOB | {"operators": operators})

    assert (views["clean"].rows_in, views["clean"].rows_out) == (100, None)
    assert (views["hours"].rows_in, views["hours"].rows_out) == (None, 70)
    assert (views["clean"].state_rows, views["hours"].state_rows) == (None, 500)


def test_state_and_late_rows_belong_to_the_operator_that_keeps_it() -> None:
    view = of(seen(states=[SAVED]), late={HOURS: 7})["hours"]

    assert (view.state_rows, view.state_bytes, view.seconds, view.late_rows) == (500, 64_000, 0.12, 7)


def test_an_operator_with_several_states_has_their_sum() -> None:
    python = {"name": "hours", "inputs": ["flights"], "python": "job:hours"}

    view = of(seen(states=[SAVED, SAVED]), job=JOB | {"operators": [python]})["hours"]

    assert (view.state_rows, view.state_bytes) == (1000, 128_000)


def test_rows_that_one_of_the_states_does_not_count_are_not_known() -> None:
    python = {"name": "hours", "inputs": ["flights"], "python": "job:hours"}
    uncounted = StateProgress("dedupe", rows=None, size=1_000, task_ms=5)

    for states in ([SAVED, uncounted], [uncounted, SAVED]):
        view = of(seen(states=states), job=JOB | {"operators": [python]})["hours"]
        assert (view.state_rows, view.state_bytes) == (None, 65_000)


def test_state_that_may_belong_to_several_operators_belongs_to_none() -> None:
    one = {"name": "one", "inputs": ["flights"], "python": "job:one"}
    hours = {"name": "hours", "inputs": ["one"], "python": "job:hours"}

    views = of(seen(states=[SAVED]), late={OperatorUid("hours or one"): 7}, job=JOB | {"operators": [one, hours]})

    assert {view.state_rows for view in views.values()} == {None}
    assert {view.late_rows for view in views.values()} == {None}


@pytest.mark.parametrize("uid", ["flights", "hours", "report"])
def test_nothing_is_known_before_the_first_batch(uid: str) -> None:
    view = of(ChainFigures())[uid]

    assert view == OperatorView(uid=OperatorUid(uid), rows_in=60 if uid == "report" else None)
