"""Shows a plan: as text for a terminal, as JSON for programs, as a Mermaid diagram for documents."""

from __future__ import annotations

from pydantic import JsonValue

from streamjob.durations import format_duration
from streamjob.job.graph import graph_of
from streamjob.job.plan import ChainPlan, Plan
from streamjob.job.spec import JobSpec, Node, OperatorSpec, SinkSpec, SourceSpec


def as_json(spec: JobSpec, plan: Plan) -> dict[str, JsonValue]:
    """Return the plan and the job's graph as JSON-able values."""
    return {
        "job": spec.name,
        "chains": [
            {
                "uid": chain.uid,
                "sources": [each.uid for each in chain.sources],
                "operators": [each.uid for each in chain.operators],
                "sinks": [each.uid for each in chain.sinks],
                "output": chain.output,
                "outputMode": chain.output_mode,
            }
            for chain in plan.chains
        ],
        "channels": [{"from": each.source, "to": each.target} for each in plan.channels],
        "graph": graph_of(spec),
    }


def as_text(spec: JobSpec, plan: Plan) -> str:
    """Return the plan as lines for people."""
    interval = format_duration(spec.checkpointing.interval)
    size = f"{_count(spec.parallelism, 'task slot')}, {_count(spec.max_parallelism, 'state partition')}"
    lines = [f"{spec.name}: {_count(len(plan.chains), 'chain')}, {size}, a checkpoint every {interval}"]
    for chain in plan.chains:
        lines += ["", f"chain {chain.uid} ({chain.output_mode})", *_rows(chain)]
    return "\n".join(lines)


def as_mermaid(spec: JobSpec, plan: Plan) -> str:
    """Return the plan as a Mermaid flowchart."""
    ids = {node.name: f"n{index}" for index, node in enumerate(spec.nodes())}
    lines = ["flowchart LR"]
    lines += [f'  {ids[each.name]}[("{each.name}<br/>{each.format}")]' for each in spec.sources]
    for index, chain in enumerate(plan.chains):
        lines.append(f'  subgraph c{index}["chain {chain.uid}"]')
        lines += [f'    {ids[each.name]}["{each.name}"]' for each in chain.operators]
        lines.append("  end")
    lines += [f'  {ids[each.name]}[["{each.name}<br/>{each.format}, {each.delivery}"]]' for each in spec.sinks]
    lines += [f"  {ids[edge.name]} --> {ids[each.name]}" for each in spec.operators for edge in each.inputs]
    lines += [f"  {ids[each.input]} --> {ids[each.name]}" for each in spec.sinks]
    return "\n".join(lines)


def _rows(chain: ChainPlan) -> list[str]:
    nodes: list[Node] = [*chain.sources, *chain.operators, *chain.sinks]
    width = max(len(each.name) for each in nodes)
    return [f"  {_kind(each):<8}  {each.name:<{width}}  {_summary(each)}" for each in nodes]


def _kind(node: Node) -> str:
    return {SourceSpec: "source", OperatorSpec: "operator", SinkSpec: "sink"}[type(node)]


def _summary(node: Node) -> str:
    if isinstance(node, SourceSpec):
        words = [node.format, "bounded" if node.bounded else ""]
        if node.watermark is not None:
            words.append(f"watermark on {node.watermark.column}, {format_duration(node.watermark.delay)} late")
        return ", ".join(filter(None, words))
    if isinstance(node, OperatorSpec):
        code = "SQL" if node.sql is not None else node.python
        return f"{code} over {', '.join(each.name for each in node.inputs)}"
    if isinstance(node, SinkSpec):
        return f"{node.format}, {node.delivery}, from {node.input}"
    return ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
