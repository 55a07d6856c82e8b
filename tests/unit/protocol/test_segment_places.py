"""Each segment of a channel is on one executor until nobody needs it; a restored one is brought there first."""

from __future__ import annotations

import pytest

from streamjob.ids import ChainUid, Epoch
from streamjob.protocol.segment_places import SegmentFile, SegmentPlaces, SegmentRefused, Source
from streamjob.snapshot.manifest import FileRef

A, B = ChainUid("a"), ChainUid("b")


def ref(name: str, length: int = 1) -> FileRef:
    return FileRef(path=f"channels/a/{name}", object="shared/3/x", length=length, sha256="0" * 64)


def segment(name: str, epoch: int = 3) -> SegmentFile:
    return SegmentFile(Epoch(epoch), A, name)


def restored(**lengths: int) -> SegmentPlaces:
    return SegmentPlaces(Epoch(3), {(A, name): ref(name, length) for name, length in lengths.items()})


def test_a_path_names_a_segment() -> None:
    assert SegmentFile.at("/3/a/stream/0-x.arrow") == segment("0-x.arrow")


@pytest.mark.parametrize(
    "path", ["/3/a/stream", "/3/a/checkpoint/x", "/a/stream/x", "/3/a/stream/../x.arrow", "/3/a/stream/..", ""]
)
def test_any_other_path_is_refused(path: str) -> None:
    with pytest.raises(SegmentRefused, match="no segment"):
        SegmentFile.at(path)


def test_a_segment_is_where_it_was_written_until_it_is_dropped() -> None:
    places = SegmentPlaces(Epoch(3))
    places.written(A, {"x": "1", "y": "2"})

    assert (places.owner(A, "x"), places.producers_on("1"), places.executors()) == (
        "1",
        frozenset({A}),
        frozenset({"1", "2"}),
    )
    assert places.split({A: ("x", "y")}) == {"1": {A: ("x",)}, "2": {A: ("y",)}}
    assert places.drop(A, ["x"]) == {"1": {A: ("x",)}}
    assert places.producers_on("1") == frozenset()
    with pytest.raises(SegmentRefused, match="not needed any more"):
        places.owner(A, "x")


def test_restored_segments_are_spread_by_bytes_and_slots() -> None:
    places = restored(w=60, x=30, y=30, z=30)

    places.choose({"1": 1, "2": 2}, {})

    assert {name: places.owner(A, name) for name in "wxyz"} == {"w": "2", "x": "1", "y": "2", "z": "1"}


def test_a_restored_segment_goes_to_an_executor_that_holds_it() -> None:
    places = restored(x=1, y=1)

    places.choose({"1": 1, "2": 1}, {(A, "x"): ["2"], (A, "y"): ["2", "gone"]})

    assert {places.owner(A, name) for name in "xy"} == {"2"}


def test_an_executor_brings_a_restored_segment_and_deletes_it_later_even_if_it_is_not_the_chosen_one() -> None:
    places = restored(x=1)
    places.choose({"1": 1}, {})

    assert places.bring(segment("x"), "1") == Source(ref("x"), "1")
    assert places.bring(segment("x"), "2") == Source(ref("x"), "1")
    assert places.drop(A, ["x"]) == {"1": {A: ("x",)}, "2": {A: ("x",)}}


def test_an_executor_learns_who_has_a_segment_that_is_not_in_the_store() -> None:
    places = SegmentPlaces(Epoch(3))
    places.written(A, {"x": "1"})

    assert places.bring(segment("x"), "2") == Source(None, "1")
    with pytest.raises(SegmentRefused, match="Executor 1 has lost segment x of chain 'a'"):
        places.bring(segment("x"), "1")


def test_an_executor_of_an_earlier_epoch_gets_nothing() -> None:
    places = restored(x=1)
    places.choose({"1": 1}, {})

    with pytest.raises(SegmentRefused, match="Epoch 2 is over: the job is in epoch 3"):
        places.bring(segment("x", epoch=2), "1")
