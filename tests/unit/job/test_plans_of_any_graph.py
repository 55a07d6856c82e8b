"""Whatever the graph: a plan keeps the rules of fusing, and no plan that keeps them has fewer channels."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from streamjob.job.model.spec import JobSpec, OperatorSpec
from streamjob.job.planning.fusing import Edge, inputs_of
from streamjob.job.planning.plan import Plan, plan

APPEND = frozenset({"append"})
QUERIES = {
    "SELECT * FROM {0}": APPEND | {"update", "complete"},
    "SELECT * FROM {0} x JOIN {0} y ON x.k = y.k": APPEND | {"update"},
    "SELECT * FROM {0} LIMIT 5": APPEND | {"complete"},
    "SELECT * FROM {0} x LEFT JOIN {0} y ON x.k = y.k": APPEND,
    "SELECT k, count(*) FROM {0} GROUP BY k": APPEND,
}


@st.composite
def jobs(draw: st.DrawFn) -> JobSpec:
    sources = [
        {"name": f"s{index}", "format": "csv", "bounded": draw(st.booleans())}
        for index in range(draw(st.integers(1, 4)))
    ]
    readable = [str(each["name"]) for each in sources]
    read: set[str] = set()
    operators = []
    for index in range(draw(st.integers(0, 6))):
        # Mostly unread parts: if most parts had two readers, channels would stand everywhere for that reason alone.
        unread = [each for each in readable if each not in read]
        offered = draw(st.sampled_from([unread, unread, unread, readable])) or readable
        inputs = draw(st.lists(st.sampled_from(offered), min_size=1, max_size=3, unique=True))
        read.update(inputs)
        name = f"o{index}"
        mode = draw(st.sampled_from(["append", "append", "append", "update", "complete"]))
        query = draw(st.sampled_from([None, *QUERIES]))
        operators.append(
            {
                "name": name,
                "inputs": inputs,
                "outputMode": mode,
                "chain": draw(st.sampled_from([True] * 7 + [False])),
                **({"python": "m:f"} if query is None else {"sql": query.format(inputs[0])}),
            }
        )
        if mode == "append":
            readable.append(name)
    parts = [*sources, *operators]
    written = [str(each["name"]) for each in parts if each["name"] not in read]
    written += draw(st.lists(st.sampled_from([str(each["name"]) for each in parts]), max_size=2))
    sinks = [{"name": f"out{index}", "input": name, "format": "noop"} for index, name in enumerate(written)]
    shuffled = draw(st.permutations(operators))
    return JobSpec.model_validate({"name": "any", "sources": sources, "operators": shuffled, "sinks": sinks})


def edges_of(spec: JobSpec) -> list[Edge]:
    return [(name, operator.name) for operator in spec.operators for name in inputs_of(operator)]


def channels_of(spec: JobSpec, planned: Plan) -> set[Edge]:
    home = {each.name: chain.uid for chain in planned.chains for each in (*chain.sources, *chain.operators)}
    return {(read, reader) for read, reader in edges_of(spec) if home[read] != home[reader]}


def members_of(spec: JobSpec, channels: Collection[Edge]) -> dict[str, set[str]]:
    """Return what is fused into each source or operator whose rows leave their chain."""
    fused = [edge for edge in edges_of(spec) if edge not in channels]
    chains = {}
    for last in set(spec.inputs()) - {read for read, _ in fused}:
        members, grown = {last}, True
        while grown:
            more = {read for read, reader in fused if reader in members} - members
            members |= more
            grown = bool(more)
        chains[last] = members
    return chains


def broken(spec: JobSpec, channels: Collection[Edge]) -> Iterator[str]:
    """Yield the rules that a choice of channels breaks."""
    parts = spec.inputs()
    for read, reader in edges_of(spec):
        if (read, reader) in channels:
            continue
        readers = [other for name, other in edges_of(spec) if name == read]
        if len(readers) + sum(sink.input == read for sink in spec.sinks) > 1:
            yield f"{read} has other readers than {reader}"
        if not all(part.chain for part in (parts[read], parts[reader]) if isinstance(part, OperatorSpec)):
            yield f"{read} or {reader} has chain: false"
    for last, members in members_of(spec, channels).items():
        sources = [each for each in spec.sources if each.name in members]
        reads_channels = any(reader in members for _, reader in channels)
        if any(each.bounded for each in sources) and (reads_channels or not all(each.bounded for each in sources)):
            yield f"a bounded source in {last} is not alone"
        part = parts[last]
        mode = part.output_mode if isinstance(part, OperatorSpec) else "append"
        for operator in spec.operators:
            if operator.name in members - {last} and mode not in modes_of(operator):
                yield f"{operator.name} is not the same in {last}"


def modes_of(operator: OperatorSpec) -> frozenset[str]:
    return next((QUERIES[query] for query in QUERIES if query.format(*inputs_of(operator)) == operator.sql), APPEND)


@given(jobs())
@settings(deadline=None)
def test_everything_is_in_one_chain_and_chains_are_trees_with_one_output(spec: JobSpec) -> None:
    planned = plan(spec)

    assert sorted(uid for chain in planned.chains for uid in chain.uids()) == sorted(each.uid for each in spec.nodes())
    for chain in planned.chains:
        inside = {each.name for each in (*chain.sources, *chain.operators)}
        done = {each.name for each in chain.sources} | {each.name for each in chain.channels}
        for operator in chain.operators:
            assert done.issuperset(inputs_of(operator))
            done.add(operator.name)
        for name in inside - {chain.output}:
            assert [each.name for each in spec.operators if name in inputs_of(each)] == [
                each.name for each in chain.operators if name in inputs_of(each)
            ]
            assert sum(name in inputs_of(each) for each in chain.operators) == 1
        assert {sink.input for sink in chain.sinks} <= {chain.output}
        assert str(chain.uid) == spec.inputs()[chain.output].uid


@given(jobs())
@settings(deadline=None)
def test_channels_lead_from_earlier_chains_to_later_ones_and_carry_all_that_is_read_across(spec: JobSpec) -> None:
    planned = plan(spec)
    order = [chain.uid for chain in planned.chains]

    assert all(order.index(each.source) < order.index(each.target) for each in planned.channels)
    assert len({(each.source, each.target) for each in planned.channels}) == len(planned.channels)
    for chain in planned.chains:
        inside = {each.name for each in (*chain.sources, *chain.operators)}
        read = {name for operator in chain.operators for name in inputs_of(operator)} - inside
        assert {each.name for each in chain.channels} == read
        for channel in chain.channels:
            assert channel.target == chain.uid
            assert planned.chain(channel.source).output == channel.name
            assert channel.uid == spec.inputs()[channel.name].uid
            assert chain.uid in planned.readers(channel.source)
            assert channel.reason


@given(jobs())
@settings(deadline=None)
def test_a_chain_ends_if_all_sources_do_whose_rows_reach_it(spec: JobSpec) -> None:
    planned = plan(spec)

    for chain in planned.chains:
        names, grown = {chain.output}, True
        while grown:
            more = {read for read, reader in edges_of(spec) if reader in names} - names
            names |= more
            grown = bool(more)
        assert chain.bounded == all(each.bounded for each in spec.sources if each.name in names)


@given(jobs())
@settings(deadline=None)
def test_a_plan_keeps_the_rules_and_no_channel_can_be_left_out(spec: JobSpec) -> None:
    planned = plan(spec)
    channels = channels_of(spec, planned)
    event(f"{len(planned.channels)} channels")

    assert list(broken(spec, channels)) == []
    for channel in planned.channels:
        readers = {each.name for each in planned.chain(channel.target).operators}
        without = {(name, reader) for name, reader in channels if name != channel.name or reader not in readers}
        assert list(broken(spec, without)), f"{channel} is not needed"


@given(jobs())
@settings(deadline=None, max_examples=50)
def test_no_plan_has_fewer_channels(spec: JobSpec) -> None:
    edges = edges_of(spec)
    found = channels_of(spec, plan(spec))

    for fewer in range(len(found) if len(edges) <= 10 else 0):
        for channels in combinations(edges, fewer):
            assert list(broken(spec, channels)), f"{channels} would do"
