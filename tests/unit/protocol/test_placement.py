"""Each state store of an epoch has one executor, which learns from the driver what it consists of."""

from __future__ import annotations

import pytest

from streamjob.ids import ChainUid, Epoch
from streamjob.protocol.placement import Owners, StateStore, StoreNotOpened, StoreRefused, by_store, place, store_of
from streamjob.snapshot.manifest import FileRef

COUNTS = ChainUid("counts")
DIRECTORY = "/3/counts/checkpoint/state/0/1"


def ref(path: str) -> FileRef:
    return FileRef(path=path, object="shared/3/x", length=1, sha256="0" * 64)


def owners(*files: str) -> Owners:
    return Owners(Epoch(3), {COUNTS: by_store(map(ref, files))})


@pytest.mark.parametrize(
    ("directory", "path", "partition"),
    [
        (DIRECTORY, "state/0/1", 1),
        ("/3/counts/checkpoint/state/2/17/left-keyToNumValues", "state/2/17/left-keyToNumValues", 17),
    ],
)
def test_a_directory_names_a_state_store(directory: str, path: str, partition: int) -> None:
    assert StateStore.at(directory) == StateStore(Epoch(3), COUNTS, path, partition)


@pytest.mark.parametrize("directory", ["/3/counts/checkpoint/state/0", "/3/counts/checkpoint/commits", "/x", ""])
def test_any_other_directory_is_refused(directory: str) -> None:
    with pytest.raises(StoreRefused, match="no state store"):
        StateStore.at(directory)


@pytest.mark.parametrize(
    ("path", "store"),
    [
        ("state/0/1/5_a.changelog", "state/0/1"),
        ("state/0/1/SSTs/7-b.sst", "state/0/1"),
        ("state/0/1/logs/7-b.log", "state/0/1"),
        ("state/0/12/left-keyToNumValues/5_a.zip", "state/0/12/left-keyToNumValues"),
        ("state/0/12/left-keyToNumValues/SSTs/7-b.sst", "state/0/12/left-keyToNumValues"),
    ],
)
def test_a_file_belongs_to_one_store(path: str, store: str) -> None:
    assert store_of(path) == store


def test_a_file_that_is_no_state_belongs_to_no_store() -> None:
    with pytest.raises(ValueError, match="offsets/3"):
        store_of("offsets/3")


def test_an_executor_that_opens_a_store_brings_its_files() -> None:
    mine, other = "state/0/1/5_a.changelog", "state/0/2/5_b.changelog"

    assert owners(mine, other).adopt(StateStore.at(DIRECTORY), "1") == (ref(mine),)


def test_a_store_that_the_snapshot_does_not_have_begins_empty() -> None:
    assert owners().adopt(StateStore.at(DIRECTORY), "1") == ()


def test_an_executor_may_ask_again_for_what_it_could_not_bring() -> None:
    asked = owners("state/0/1/5_a.changelog")

    assert asked.adopt(StateStore.at(DIRECTORY), "1") == asked.adopt(StateStore.at(DIRECTORY), "1") != ()


def test_a_store_has_one_executor() -> None:
    asked = owners()
    asked.adopt(StateStore.at(DIRECTORY), "1")

    with pytest.raises(StoreRefused, match="is on executor 1, and executor 2 asks for it"):
        asked.adopt(StateStore.at(DIRECTORY), "2")


def test_a_zombie_of_an_earlier_epoch_is_refused() -> None:
    with pytest.raises(StoreRefused, match="Epoch 2 is over"):
        owners().adopt(StateStore.at("/2/counts/checkpoint/state/0/1"), "1")


def test_a_cut_is_split_by_owner() -> None:
    asked = owners()
    for partition, executor in enumerate("121"):
        asked.adopted(StateStore.at(f"/3/counts/checkpoint/state/0/{partition}"), executor)

    assert asked.split(COUNTS, ["state/0/0", "state/0/1", "state/0/2"]) == {
        "1": ("state/0/0", "state/0/2"),
        "2": ("state/0/1",),
    }
    assert {each: counts.stores for each, counts in asked.counts().items()} == {"1": 2, "2": 1}


def test_a_store_whose_files_are_still_on_the_way_is_not_part_of_a_cut() -> None:
    asked = owners()
    asked.adopt(StateStore.at(DIRECTORY), "1")

    with pytest.raises(StoreNotOpened, match="state/0/1"):
        asked.split(COUNTS, ["state/0/1"])


def test_an_executor_is_missed_as_soon_as_it_asks_for_a_store() -> None:
    asked = owners()
    asked.adopt(StateStore.at(DIRECTORY), "1")

    assert asked.chains_on("1") == {COUNTS}
    assert asked.chains_on("2") == frozenset()


def test_partitions_go_to_the_executors_in_turns() -> None:
    assert place(4, {"1": 1, "2": 1}) == ("1", "2", "1", "2")


def test_an_executor_with_more_cores_gets_more_partitions() -> None:
    assert sorted(place(6, {"1": 2, "2": 1})) == ["1", "1", "1", "1", "2", "2"]


def test_a_partition_goes_to_who_holds_its_files() -> None:
    assert place(4, {"1": 1, "2": 1}, {0: ["2"], 3: ["1"]}) == ("2", "1", "2", "1")


def test_one_executor_does_not_get_all_partitions_because_it_holds_them_all() -> None:
    everywhere = {partition: ["1"] for partition in range(4)}

    assert sorted(place(4, {"1": 1, "2": 1}, everywhere)) == ["1", "1", "2", "2"]


def test_a_holder_that_is_gone_does_not_count() -> None:
    assert place(2, {"2": 1}, {0: ["1"], 1: ["1", "2"]}) == ("2", "2")


def test_what_is_open_stays_where_it_is_whatever_the_shares_are() -> None:
    assert place(4, {"1": 1, "2": 1, "3": 1}, fixed={0: "1", 1: "1", 2: "1"}) == ("1", "1", "1", "2")


def test_the_owners_of_an_operator_are_those_of_its_own_stores() -> None:
    asked = owners()
    asked.adopt(StateStore.at("/3/counts/checkpoint/state/0/1/left"), "1")
    asked.adopt(StateStore.at("/3/counts/checkpoint/state/1/0"), "2")

    assert asked.of_operator(COUNTS, 0) == {1: "1"}
    assert asked.of_operator(COUNTS, 1) == {0: "2"}
