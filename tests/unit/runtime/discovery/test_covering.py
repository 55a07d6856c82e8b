"""Objects go only when each checkpoint from which the job may restart has read them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from streamjob.ids import CheckpointId, Epoch, OperatorUid
from streamjob.snapshot.manifest import Manifest, SourceState
from streamjob_runtime.discovery.covering import Covered

FILES = OperatorUid("files")


def manifest(number: int, entry: int | None, kind: str = "checkpoint") -> Manifest:
    position: JsonValue = None if entry is None else {"files": entry}
    return Manifest.model_validate(
        {
            "job": "job",
            "namespace": "default",
            "id": number,
            "epoch": Epoch(1),
            "kind": kind,
            "triggered": 0.0,
            "completed": 0.0,
            "graph": {},
            "sources": [
                SourceState(uid=FILES, position=position),
                SourceState(uid=OperatorUid("k"), position={"t": {}}),
            ],
        }
    )


def ids(*numbers: int) -> list[CheckpointId]:
    return [CheckpointId(each) for each in numbers]


def test_the_oldest_retained_checkpoint_decides() -> None:
    covered = Covered()

    assert covered.completed(manifest(1, 3), ids(1)) == {FILES: 3}
    assert covered.completed(manifest(2, 5), ids(1, 2)) == {FILES: 3}
    assert covered.completed(manifest(3, 9), ids(2, 3)) == {FILES: 5}


def test_nothing_is_known_while_a_checkpoint_of_an_earlier_epoch_is_retained() -> None:
    covered = Covered()

    assert covered.completed(manifest(7, 9), ids(5, 6, 7)) == {}
    assert covered.completed(manifest(8, 12), ids(6, 7, 8)) == {}
    assert covered.completed(manifest(9, 13), ids(7, 8, 9)) == {FILES: 9}


def test_a_checkpoint_before_the_first_batch_needs_everything() -> None:
    covered = Covered()

    covered.completed(manifest(1, None), ids(1))

    assert covered.completed(manifest(2, 4), ids(1, 2)) == {FILES: -1}


def test_a_savepoint_alone_lets_nothing_go() -> None:
    covered = Covered()

    assert covered.completed(manifest(1, 4, "savepoint"), ids()) == {}
    assert covered.completed(manifest(2, 4), ids(2)) == {FILES: 4}
    assert covered.completed(manifest(3, 8, "savepoint"), ids(2)) == {FILES: 4}


@dataclass(frozen=True)
class Taken:
    """A checkpoint in the model: the objects of each entry that it has read."""

    id: int
    entries: tuple[frozenset[int], ...]


@given(st.data())
def test_whatever_a_retained_checkpoint_has_not_read_stays(data: st.DataObject) -> None:
    """Also behind forks, which put other objects into entries of the same numbers."""
    arrived = 0
    retained: list[Taken] = []
    last = 0
    for _ in range(data.draw(st.integers(1, 4), "epochs")):
        # From any retained checkpoint, or from none.
        start = data.draw(st.sampled_from([None, *retained]), "start")
        entries: tuple[frozenset[int], ...] = start.entries if start else ()
        covered = Covered()
        for _ in range(data.draw(st.integers(0, 6), "completions")):
            for _ in range(data.draw(st.integers(0, 2), "batches")):
                arrived += data.draw(st.integers(0, 2), "arrived")
                unread = set(range(arrived)) - set().union(*entries)
                read = data.draw(st.sets(st.sampled_from(sorted(unread))) if unread else st.just(set()), "read")
                entries = (*entries, frozenset(read))
            last += 1
            is_savepoint = data.draw(st.booleans(), "savepoint")
            if not is_savepoint:
                retained.append(Taken(last, entries))
            position = len(entries) - 1 if entries else None
            found = covered.completed(manifest(last, position), [CheckpointId(each.id) for each in retained])
            gone = set().union(*entries[: found.get(FILES, -1) + 1])
            for each in retained:
                assert gone <= set().union(*each.entries)
            retained = retained[-data.draw(st.integers(1, 3), "num_retained") :]
