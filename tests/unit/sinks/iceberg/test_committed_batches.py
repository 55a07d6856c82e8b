"""A table's record of a sink's publications."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob.ids import Epoch
from streamjob_runtime.sinks.errors import UnreadableRecord
from streamjob_runtime.sinks.iceberg.committed_batches import (
    LIVES_KEPT,
    CommittedBatches,
    property_of,
    read_committed,
)
from streamjob_runtime.sinks.identity import identity_of
from streamjob_runtime.sinks.lakes.lives import Life, life_of

SINK = identity_of("default", "job", "report")
LIFE = "3-00000000000000aa"
BATCHES = st.lists(st.tuples(st.sampled_from([LIFE, "4-00000000000000bb", "5-00000000000000cc"]), st.integers(1, 20)))


@pytest.mark.parametrize("name", ["3-aa", "x-00000000000000aa", "3-00000000000000aa-1", "probe", "-00000000000000aa"])
def test_what_is_no_life_is_told(name: str) -> None:
    assert life_of(name) is None


def test_a_life_is_known_by_its_name() -> None:
    assert life_of(LIFE) == Life(Epoch(3), "00000000000000aa")
    assert str(life_of(LIFE)) == LIFE


def test_a_table_that_says_nothing_is_told_from_one_that_says_that_nothing_is_published() -> None:
    assert read_committed(SINK, {}, [], "table db.t") is None
    assert (
        read_committed(SINK, {property_of(SINK): CommittedBatches().to_property()}, [], "table db.t")
        == CommittedBatches()
    )


@given(BATCHES)
def test_all_batches_up_to_the_last_one_of_a_life_are_published(batches: list[tuple[str, int]]) -> None:
    stored = CommittedBatches().with_batches(batches).to_property()
    read = read_committed(SINK, {property_of(SINK): stored}, [], "table db.t")

    assert read is not None
    for life in (LIFE, "4-00000000000000bb", "5-00000000000000cc"):
        last = max([number for each, number in batches if each == life], default=0)
        assert [read.covers(life, number) for number in range(1, 22)] == [number <= last for number in range(1, 22)]


def test_snapshots_say_it_where_the_property_does_not() -> None:
    ours = {"streamjob.sink-id": SINK, "streamjob.batch": f"{LIFE}/7"}
    theirs = {"streamjob.sink-id": "other", "streamjob.batch": f"{LIFE}/9"}
    alone = read_committed(SINK, {}, [{}, ours, theirs], "table db.t")
    older = CommittedBatches().with_batches([(LIFE, 5)]).to_property()
    both = read_committed(SINK, {property_of(SINK): older}, [ours], "table db.t")

    for read in (alone, both):
        assert read is not None
        assert read.covers(LIFE, 7)
        assert not read.covers(LIFE, 8)


def test_the_property_does_not_grow_forever_and_forgets_what_published_longest_ago() -> None:
    published = CommittedBatches()
    for number in range(LIVES_KEPT + 5):
        published = published.with_batches([(f"{number}-00000000000000aa", 1)]).with_swept(["0-00000000000000aa"])

    assert len(published.numbers) == LIVES_KEPT
    assert not published.covers("4-00000000000000aa", 1)
    assert published.covers("5-00000000000000aa", 1)
    assert published.swept == frozenset()


def test_lives_without_published_batches_need_no_note_that_they_were_swept() -> None:
    published = CommittedBatches().with_batches([(LIFE, 1)]).with_swept([LIFE, "9-00000000000000dd"])

    assert published.swept == {LIFE}
    assert read_committed(SINK, {property_of(SINK): published.to_property()}, [], "table db.t") == published


@pytest.mark.parametrize(
    "text", ["", "[]", '{"formatVersion":1,"publi', '{"formatVersion":2,"published":{}}', '{"formatVersion":1}']
)
def test_a_property_that_is_cut_or_of_another_version_is_refused(text: str) -> None:
    with pytest.raises(UnreadableRecord, match=property_of(SINK)):
        read_committed(SINK, {property_of(SINK): text}, [], "table db.t")
