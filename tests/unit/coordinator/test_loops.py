"""Loops under checkpoints: what goes round is in the checkpoint, and a loop ends as a whole once it has come to rest.

The chains are a, which reads a source, the loop of b and c after it, and d, which reads the loop's output. Source:
Carbone et al., Lightweight Asynchronous Snapshots (2015), algorithm 2.
"""

from __future__ import annotations

import pytest
from tests.unit.coordinator.graph import Graph

from streamjob.ids import BatchId, ChainUid, CheckpointId
from streamjob.protocol.emissions.channels import EntryKind
from streamjob.protocol.emissions.cuts import Emissions, EmissionSealed, IllegalEmission

A, B, C, D = (ChainUid(name) for name in "abcd")


def loop() -> Graph:
    """Return a loop in which one row is on its way from c to b, and b has read it not yet."""
    graph = Graph("ab bc cb cd", feedback="cb")
    graph.emit("a", "a0")
    graph.emit("b", "b0", a=1)
    graph.emit("c", "c0", b=1)
    graph.read("d", c=1)
    return graph


def kinds(graph: Graph, chain: str) -> list[str]:
    return [entry.kind.value for entry in graph.log[chain]]


def names(graph: Graph) -> list[str]:
    """Return the segments that the checkpoint has of the way back."""
    return [segment.name for entry in graph.cuts["c"].fed_back[B].entries for segment in entry.segments]


def test_a_back_edge_takes_no_part_in_the_alignment() -> None:
    graph = loop()
    graph.trigger(1)
    graph.read("b", a=2)

    assert set(graph.cuts) == {"a", "b"}
    assert kinds(graph, "b")[-1] == "barrier"


def test_what_comes_back_between_the_cut_and_the_returning_barrier_belongs_to_the_checkpoint() -> None:
    graph = loop()
    graph.trigger(1)
    graph.read("b", a=2)
    graph.emit("c", "c1", b=1)
    graph.emit("b", "b1", c=1)
    graph.emit("c", "c2", b=2)

    assert "c" in graph.cuts
    assert names(graph) == ["c0", "c1", "c2"]
    fed_back = graph.cuts["c"].fed_back[B]
    assert fed_back.consumed == graph.cuts["b"].consumed[C] == 0
    assert graph.cuts["b"].in_flight == {A: ()}


def test_the_barrier_goes_round_once_and_stops() -> None:
    graph = loop()
    graph.trigger(1)
    graph.read("b", a=2)
    graph.read("c", b=2)
    graph.read("b", c=2)
    graph.read("d", c=2)

    assert [kinds(graph, chain).count("barrier") for chain in "abc"] == [1, 1, 1]
    assert set(graph.cuts) == {"a", "b", "c", "d"}


def test_what_a_checkpoint_needs_of_the_way_back_stays_though_it_is_read() -> None:
    graph = loop()
    graph.trigger(1)
    graph.read("b", a=2)
    graph.read("b", c=1)
    graph.commit("b")
    graph.commit("d")
    assert "c" not in graph.dropped

    graph.read("c", b=2)
    assert names(graph) == ["c0"]
    assert graph.dropped["c"] == 1


def test_what_a_failed_checkpoint_needed_is_dropped() -> None:
    graph = loop()
    graph.trigger(1)
    graph.read("b", a=2)
    graph.read("b", c=1)
    graph.commit("b")
    graph.commit("d")
    graph.abort(1)

    assert graph.dropped["c"] == 1


def test_a_switch_takes_what_is_on_its_way_back_from_where_its_reader_was_cut() -> None:
    graph = loop()
    graph.trigger(1)
    graph.read("b", a=2)
    graph.emit("c", "c1", b=1)
    graph.read("b", c=1)
    graph.switch(1)

    assert names(graph) == ["c0", "c1"]
    assert [graph.cuts[chain].unaligned for chain in "abcd"] == [False, False, True, True]


def test_an_unaligned_checkpoint_takes_all_that_is_on_its_way() -> None:
    graph = loop()
    graph.emit("b", "b1", c=0)
    graph.trigger(1, unaligned=True)

    assert names(graph) == ["c0"]
    assert [segment.name for entry in graph.cuts["c"].in_flight[B] for segment in entry.segments] == ["b1"]


def test_nobody_waits_for_room_on_the_way_back() -> None:
    graph = Graph("ab bb", feedback="bb")
    graph.emit("b", *(f"b{number}" for number in range(100)))

    assert graph.job.backlog(B).records == 0
    assert graph.job.backlog(B, B).records == 100
    assert graph.job.stored_bytes(B) == 1000


def test_a_loop_ends_once_its_input_has_and_nothing_is_on_its_way() -> None:
    graph = loop()
    graph.end("a")
    graph.read("b", a=2)
    assert not graph.job.has_ended(B)

    graph.read("b", c=1)
    assert graph.job.has_ended(B)
    assert graph.job.has_ended(C)
    assert kinds(graph, "b")[-1] == kinds(graph, "c")[-1] == "end"
    graph.trigger(1)
    assert graph.cuts["b"].ended
    assert graph.cuts["c"].ended
    assert not graph.cuts["c"].fed_back[B].entries


def test_a_loop_does_not_end_while_a_batch_runs() -> None:
    graph = loop()
    graph.end("a")
    graph.job.begin(C, BatchId(1))
    graph.read("b", a=2, c=1)
    assert not graph.job.has_ended(B)

    graph.read("c", b=1)
    assert graph.job.has_ended(B)


def test_a_loop_does_not_end_while_a_barrier_goes_through_it() -> None:
    graph = loop()
    graph.read("b", c=1)
    graph.trigger(1)
    graph.end("a")
    graph.read("b", a=2)
    graph.read("b", a=3)
    assert set(graph.cuts) == {"a", "b"}
    assert not graph.job.has_ended(B)

    graph.read("c", b=2)
    assert graph.job.has_ended(B)
    assert not graph.cuts["c"].ended


def test_a_failed_checkpoint_lets_a_loop_end() -> None:
    graph = loop()
    graph.read("b", c=1)
    graph.trigger(1)
    graph.end("a")
    graph.read("b", a=2)
    graph.read("b", a=3)
    graph.abort(1)

    assert graph.job.has_ended(C)


def test_what_is_on_its_way_back_is_in_a_snapshot_that_stops_the_job() -> None:
    graph = loop()
    graph.end("a")
    graph.read("b", a=2)
    graph.trigger(1, unaligned=True, seal=True)

    with pytest.raises(EmissionSealed):
        graph.read("b", c=1)
    assert names(graph) == ["c0"]


def test_a_stopping_snapshot_keeps_a_loop_from_ending_until_it_has_failed() -> None:
    graph = loop()
    graph.read("b", c=1)
    graph.end("a")
    graph.trigger(1, seal=True)
    graph.read("b", a=2)
    graph.read("c", b=2)
    assert set(graph.cuts) >= {"a", "b", "c"}
    assert not graph.job.has_ended(B)

    graph.abort(1)
    assert graph.job.has_ended(B)


def test_a_drained_loop_goes_on_behind_the_end_of_what_it_has_read() -> None:
    graph = loop()
    graph.job.end(A, drained=True)
    graph.read("b", a=2, c=1)
    assert graph.job.is_drained(B)

    graph.trigger(1, seal=True)
    (end,) = graph.cuts["c"].fed_back[B].entries
    assert (end.index, end.kind, end.segments) == (1, EntryKind.DATA, ())
    assert not graph.cuts["c"].ended


def test_a_chain_of_a_loop_does_not_end_by_itself() -> None:
    graph = loop()
    graph.end("a")

    with pytest.raises(IllegalEmission, match="chain b ends before it has consumed the end of its inputs"):
        graph.end("b")


def test_a_restored_loop_with_nothing_left_to_do_ends_at_once() -> None:
    job = Emissions([A, B], [(A, B), (B, B)], feedback=[(B, B)])
    job.restore(A, BatchId(1))
    job.restore(B, BatchId(1), {A: 2, B: 0})
    job.restore_log(A, (), 2, True, CheckpointId(1))
    job.restore_log(B, (), 0, False, CheckpointId(1))
    job.open()

    assert job.has_ended(B)


@pytest.mark.parametrize(
    ("channels", "feedback", "what"),
    [
        ([(A, B), (B, A)], [], "the channels between a, b form a cycle: no barrier could align there"),
        ([(A, B)], [(A, B)], "the feedback channel a -> b closes no cycle"),
        ([(A, B)], [(B, A)], "there is no channel b -> a that could be feedback"),
    ],
)
def test_a_cycle_needs_feedback_and_feedback_a_cycle(
    channels: list[tuple[ChainUid, ChainUid]], feedback: list[tuple[ChainUid, ChainUid]], what: str
) -> None:
    with pytest.raises(ValueError, match=what):
        Emissions([A, B], channels, feedback=feedback)
