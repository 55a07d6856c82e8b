"""Whatever executors there are and whatever they hold: state is spread evenly, and moves as little as that allows."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streamjob.protocol.placement import place

EXECUTORS = st.dictionaries(st.sampled_from([str(number) for number in range(1, 9)]), st.integers(1, 5), min_size=1)
HOLDERS = st.dictionaries(
    st.integers(0, 30), st.lists(st.sampled_from([str(number) for number in range(1, 12)]), max_size=3)
)


@given(partitions=st.integers(1, 30), slots=EXECUTORS, holders=HOLDERS, offset=st.integers(0, 10))
def test_each_partition_is_on_one_live_executor_and_none_has_more_than_its_share(
    partitions: int, slots: dict[str, int], holders: dict[int, list[str]], offset: int
) -> None:
    placed = place(partitions, slots, holders, offset)

    assert len(placed) == partitions
    counts = Counter(placed)
    total = sum(slots.values())
    for executor, cores in slots.items():
        assert partitions * cores // total <= counts[executor] <= -(-partitions * cores // total)


@given(partitions=st.integers(1, 30), slots=EXECUTORS, offset=st.integers(0, 10))
def test_nothing_moves_if_the_same_executors_hold_what_they_had(
    partitions: int, slots: dict[str, int], offset: int
) -> None:
    before = place(partitions, slots, offset=offset)

    again = place(partitions, slots, {partition: [executor] for partition, executor in enumerate(before)}, offset)

    assert again == before


@given(partitions=st.integers(1, 30), count=st.integers(2, 6), data=st.data())
def test_a_lost_executor_moves_little_more_than_its_own_partitions(
    partitions: int, count: int, data: st.DataObject
) -> None:
    slots = {str(number): 1 for number in range(count)}
    before = place(partitions, slots)
    lost = data.draw(st.sampled_from(sorted(slots)))
    holders = {partition: [executor] for partition, executor in enumerate(before) if executor != lost}
    left = {executor: cores for executor, cores in slots.items() if executor != lost}

    after = place(partitions, left, holders)

    moved = sum(was != now for was, now in zip(before, after, strict=True) if was != lost)
    # Shares differ by one at most, so each survivor gives up one at most.
    assert moved <= len(left)
