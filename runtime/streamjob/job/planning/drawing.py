"""Renders a plan: as text for a terminal, as JSON for programs, as a Mermaid diagram for documents."""

from __future__ import annotations

from collections.abc import Set

from pydantic import JsonValue

from streamjob.durations import format_duration
from streamjob.job.model.spec import JobSpec, Node, OperatorSpec, SinkSpec, SourceSpec, Watermark
from streamjob.job.planning.fusing import inputs_of
from streamjob.job.planning.graph import graph_of
from streamjob.job.planning.plan import ChainPlan, ChannelPlan, Plan, lossy_names


def as_json(spec: JobSpec, plan: Plan) -> dict[str, JsonValue]:
    """Return the plan and the job's graph as JSON-able values."""
    lossy = lossy_names(spec)
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
                "bounded": chain.bounded,
                "loop": list(chain.loop),
            }
            for chain in plan.chains
        ],
        "channels": [
            {
                "from": each.source,
                "to": each.target,
                "name": each.name,
                "uid": each.uid,
                "reason": each.reason,
                "feedback": each.feedback,
            }
            for each in plan.channels
        ],
        "lossy": [each.uid for each in spec.sinks if each.input in lossy],
        "graph": graph_of(spec),
    }


def as_text(spec: JobSpec, plan: Plan) -> str:
    """Return the plan as lines for people."""
    parts = [_count(len(plan.chains), "chain")]
    parts += [_count(len(plan.channels), "channel")] if plan.channels else []
    parts += [_count(spec.parallelism, "task slot"), _count(spec.max_parallelism, "state partition")]
    lines, lossy = [f"{spec.name}: {', '.join(parts)}, {_rhythm(spec.checkpointing.interval)}"], lossy_names(spec)
    for chain in plan.chains:
        looped = f", in the loop of {', '.join(chain.loop)}" if chain.loop else ""
        lines += ["", f"chain {chain.uid} ({chain.output_mode}{looped})", *_rows(chain, plan, lossy)]
    return "\n".join(lines)


def as_mermaid(spec: JobSpec, plan: Plan) -> str:
    """Return the plan as a Mermaid flowchart: chains are boxes, channels thick arrows, feedback dotted ones."""
    ids = {node.name: f"n{index}" for index, node in enumerate(spec.nodes())}
    lines, lossy = ["flowchart LR"], lossy_names(spec)
    for index, chain in enumerate(plan.chains):
        lines.append(f'  subgraph c{index}["chain {chain.uid}"]')
        lines += [f'    {ids[each.name]}[("{each.name}<br/>{each.format}")]' for each in chain.sources]
        lines += [f'    {ids[each.name]}["{each.name}"]' for each in chain.operators]
        lines += [
            f'    {ids[each.name]}[["{each.name}<br/>{each.format}, {_delivery(each, lossy)}"]]' for each in chain.sinks
        ]
        lines.append("  end")
    for chain in plan.chains:
        reasons = {channel.name: channel for channel in chain.channels}
        for operator in chain.operators:
            for name in inputs_of(operator):
                arrow = _arrow(reasons[name]) if name in reasons else "-->"
                lines.append(f"  {ids[name]} {arrow} {ids[operator.name]}")
        lines += [f"  {ids[each.input]} --> {ids[each.name]}" for each in chain.sinks]
    return "\n".join(lines)


def _arrow(channel: ChannelPlan) -> str:
    return f'-. "{channel.reason}" .->' if channel.feedback else f'== "{channel.reason}" ==>'


def _rows(chain: ChainPlan, plan: Plan, lossy: Set[str]) -> list[str]:
    rows = [
        ("feedback" if each.feedback else "channel", each.name, f"from chain {each.source}: {each.reason}")
        for each in chain.channels
    ]
    nodes: list[Node] = [*chain.sources, *chain.operators, *chain.sinks]
    rows += [(_kind(each), each.name, _summary(each, lossy)) for each in nodes]
    if readers := plan.readers(chain.uid):
        rows.append(("channel", chain.output, f"to chain{'s' * (len(readers) > 1)} {', '.join(readers)}"))
    width = max(len(name) for _, name, _ in rows)
    return [f"  {kind:<8}  {name:<{width}}  {summary}" for kind, name, summary in rows]


def _kind(node: Node) -> str:
    return {SourceSpec: "source", OperatorSpec: "operator", SinkSpec: "sink"}[type(node)]


def _summary(node: Node, lossy: Set[str]) -> str:
    if isinstance(node, SourceSpec):
        words = [
            node.format,
            "bounded" if node.bounded else "",
            "" if node.replayable else "not replayable: a restart loses the rows since the last checkpoint",
        ]
        if node.value is not None:
            words.append(f"values as {node.value.format}")
        if node.python is not None or node.columns is not None:
            words.append(f"columns by {node.python or 'SQL'}")
        if node.watermark is not None:
            words.append(_event_time(node.watermark))
        return ", ".join(filter(None, words))
    if isinstance(node, OperatorSpec):
        words = [f"{_code(node)} over {', '.join(each.name for each in node.inputs)}"]
        if node.watermark is not None:
            words.append(_event_time(node.watermark))
        return ", ".join(words)
    if isinstance(node, SinkSpec):
        form = node.format if node.function is None else f"{node.format} {node.function}"
        return f"{form}, {_delivery(node, lossy)}, from {node.input}"
    return ""


def _delivery(sink: SinkSpec, lossy: Set[str]) -> str:
    return "lossy" if sink.input in lossy else sink.delivery


def _code(operator: OperatorSpec) -> str:
    if operator.lookup is not None:
        return f"lookup in {operator.lookup.table}"
    if operator.temporal_join is not None:
        return "temporal join"
    return "SQL" if operator.sql is not None else operator.python or "code"


def _event_time(watermark: Watermark) -> str:
    idle = "" if watermark.idle_timeout is None else f", idle after {format_duration(watermark.idle_timeout)}"
    without = "" if watermark.null_event_time is None else f", {watermark.null_event_time} if it is NULL"
    return f"watermark on {watermark.column}, {format_duration(watermark.delay)} late{idle}{without}"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _rhythm(interval: float | None) -> str:
    return "no periodic checkpoints" if interval is None else f"a checkpoint every {format_duration(interval)}"
