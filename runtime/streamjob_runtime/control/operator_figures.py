"""Figures of a chain's sources, operators and sinks, as far as Spark reports them; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamjob.client.models import OperatorView
from streamjob.ids import OperatorUid
from streamjob.job.planning.plan import ChainPlan
from streamjob.stored.state_owners import owners
from streamjob_runtime.monitoring.chain_meter import ChainFigures


def operator_figures(
    plan: ChainPlan,
    figures: ChainFigures,
    *,
    late: Mapping[OperatorUid, int],
    written: Mapping[OperatorUid, int | None],
    graph: Mapping[str, Any],
) -> tuple[OperatorView, ...]:
    """Return the figures of a chain's parts, in the order of `plan.uids()`.

    Args:
        written: the rows that each of its sinks has written; None if a sink does not count them.
        graph: the job's graph, which assigns state to operators.
    """
    read, seen = figures.read, figures.times is not None
    in_sinks = {} if figures.times is None or not plan.sinks else figures.times.sinks
    inputs = {source.name: source.uid for source in plan.sources} | {each.name: each.uid for each in plan.channels}
    sources = [
        OperatorView(uid=source.uid, rows_out=read.get(source.uid, 0 if seen else None)) for source in plan.sources
    ]
    state = _state(plan, figures, late, graph)
    operators = []
    for operator in plan.operators:
        names = [each.name for each in operator.inputs]
        known = seen and all(name in inputs for name in names)
        operators.append(
            OperatorView(
                uid=operator.uid,
                rows_in=sum(read.get(inputs[name], 0) for name in names) if known else None,
                rows_out=figures.records_out if seen and operator.name == plan.output else None,
                **state.get(operator.uid, {}),
            )
        )
    sinks = [
        OperatorView(uid=sink.uid, rows_in=written.get(sink.uid), seconds=in_sinks.get(sink.uid)) for sink in plan.sinks
    ]
    return (*sources, *operators, *sinks)


def _state(
    plan: ChainPlan, figures: ChainFigures, late: Mapping[OperatorUid, int], graph: Mapping[str, Any]
) -> dict[OperatorUid, dict[str, Any]]:
    """Return the figures of state by operator; state that may belong to several operators is left out."""
    found: dict[OperatorUid, dict[str, Any]] = {}
    for uids, state in zip(
        owners(graph, plan.uids(), [each.name for each in figures.states]), figures.states, strict=True
    ):
        if len(uids) == 1:
            of = found.setdefault(uids[0], {"state_rows": 0, "state_bytes": 0, "seconds": 0.0})
            known = of["state_rows"] is not None and state.rows is not None
            of["state_rows"] = of["state_rows"] + state.rows if known else None
            of["state_bytes"] += state.size
            of["seconds"] += state.task_ms / 1000
    for uid, rows in late.items():
        if uid in plan.uids():
            found.setdefault(uid, {})["late_rows"] = rows
    return found
