"""In any graph and any order of events: cuts are consistent, barriers hold, and alignment comes to its end."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.watched_emissions import in_flight_of
from tests.properties.graph_of_chains import RandomJob, Shape


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    chains = draw(st.integers(2, 6))
    pairs = [(source, target) for target in range(chains) for source in range(target)]
    edges = frozenset(draw(st.lists(st.sampled_from(pairs), max_size=8)))
    with_source = frozenset(draw(st.lists(st.integers(0, chains - 1), max_size=2)))
    return Shape(chains, edges, with_source)


@st.composite
def looped_shapes(draw: st.DrawFn) -> Shape:
    """A line of chains with more edges, some of them back; what is in a loop reads no native source."""
    chains = draw(st.integers(2, 6))
    pairs = [(source, target) for target in range(chains) for source in range(target)]
    line = [(number, number + 1) for number in range(chains - 1)]
    edges = frozenset([*line, *draw(st.lists(st.sampled_from(pairs), max_size=4))])
    back = [(source, target) for target in range(1, chains) for source in range(target, chains)]
    feedback = frozenset(draw(st.lists(st.sampled_from(back), min_size=1, max_size=3)))
    shape = Shape(chains, edges, feedback=feedback)
    with_source = draw(st.lists(st.integers(0, chains - 1), max_size=2))
    return Shape(chains, edges, frozenset(each for each in with_source if not shape.loop(each)), feedback)


EVENTS = st.lists(
    st.tuples(st.integers(0, 19), st.integers(0, 5), st.integers(0, 4), st.integers(0, 2)), min_size=30, max_size=150
)


def happen(job: RandomJob, event: tuple[int, int, int, int]) -> None:
    """Let one thing happen: mostly batches, seldom a crash."""
    what, which, reads, emits = event
    chain = job.names[which % len(job.names)]
    match what:
        case 0:
            job.trigger(unaligned=reads == 4, seal=emits == 2 and reads == 3)
        case 1:
            job.trigger(unaligned=reads > 2, seal=False)
        case 2:
            job.switch()
        case 3:
            job.abort()
        case 4 | 5:
            job.complete()
        case 6 if reads == 4:
            job.crash()
        case 7 if reads == 4 or job.draining:
            job.end(chain, for_good=emits == 2)
        case 7 if reads == 3 and emits == 0:
            job.drain()
        case 8 if reads == 4:
            job.begin(chain)
        case 8 | 9 | 10:
            job.commit(chain)
        case _:
            job.run_batch(chain, reads, emits)


def lived(shape: Shape, events: list[tuple[int, int, int, int]]) -> RandomJob:
    """Return a job behind some events."""
    job = RandomJob(shape)
    for event in events:
        happen(job, event)
    return job


def end_all(job: RandomJob, *, for_good: bool = True) -> None:
    """Let all chains read to the end."""
    for _ in range(3 * len(job.names) + 3):
        for chain in job.names:
            job.begin(chain)
        for chain in job.names:
            job.end(chain, for_good=for_good)
            job.run_batch(chain, 1000, 0)
            job.commit(chain)
        job.complete()
    assert job.ended


@settings(max_examples=300, deadline=None)
@given(shape=st.one_of(shapes(), looped_shapes()), events=EVENTS)
def test_every_entry_before_a_cut_is_consumed_or_in_flight_exactly_once(
    shape: Shape, events: list[tuple[int, int, int, int]]
) -> None:
    """The observer of the emissions checks this and the frontiers after every event."""
    lived(shape, events)


@settings(max_examples=200, deadline=None)
@given(shape=st.one_of(shapes(), looped_shapes()), events=EVENTS, seal=st.booleans())
def test_an_aligned_checkpoint_cuts_every_chain_if_all_get_their_turn(
    shape: Shape, events: list[tuple[int, int, int, int]], seal: bool
) -> None:
    """Bounded streams included: barriers ignore the bound, and a blocked producer is unblocked by its readers."""
    job = lived(shape, events)
    if job.sealed or job.draining:
        job.crash()
    job.abort()
    completions = job.completions
    job.trigger(unaligned=False, seal=seal)
    job.run_fairly(3 * len(job.names) + 3)
    assert job.under_way is not None
    assert set(job.cuts) == set(job.names)
    job.complete()
    assert job.completions == completions + 1


@settings(max_examples=100, deadline=None)
@given(shape=st.one_of(shapes(), looped_shapes()), events=EVENTS)
def test_all_chains_come_to_their_end_if_their_sources_do(
    shape: Shape, events: list[tuple[int, int, int, int]]
) -> None:
    """No barrier and no bound keeps the end of input from arriving."""
    job = lived(shape, events)
    if job.sealed or job.draining:
        job.crash()
    end_all(job)

    job.trigger(unaligned=False, seal=False)
    job.complete()
    assert job.completed is not None
    assert all(cut.ended for cut in job.completed.cuts.values())


@settings(max_examples=100, deadline=None)
@given(shape=st.one_of(shapes(), looped_shapes()), events=EVENTS, unaligned=st.booleans())
def test_the_streams_of_drained_chains_go_on_behind_the_snapshot_and_end_for_good_later(
    shape: Shape, events: list[tuple[int, int, int, int]], unaligned: bool
) -> None:
    job = lived(shape, events)
    if job.sealed:
        job.crash()
    job.drain()
    end_all(job, for_good=False)
    job.trigger(unaligned=unaligned, seal=True)
    job.complete()

    assert job.sealed
    assert job.completed is not None
    cuts = job.completed.cuts
    assert {name for name, cut in cuts.items() if cut.ended} == {
        n for n, known in job.job.observer.chains.items() if not known.drained
    }
    assert not any(
        entry.segments if producer in job.loop[reader] else entry
        for producer, reader in job.job.channels
        for entry in in_flight_of(cuts, producer, reader)
    )
    job.crash()
    job.run_fairly(3)
    end_all(job)
    job.trigger(unaligned=unaligned, seal=False)
    job.complete()
    assert all(cut.ended for cut in job.completed.cuts.values())
