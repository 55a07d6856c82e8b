"""An object that was read is known, in the version that was read last, until it is forgotten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjob_runtime.discovery import known as module
from streamjob_runtime.discovery.known import NEVER, Known, head, record
from streamjob_runtime.discovery.objects import Classified, Found

A = Found("in/a.json", 10, 1_000, "etag")
B = Found("in/b.json", 10, 2_000, "etag")

objects = st.builds(
    Found, st.sampled_from([f"k{n}" for n in range(9)]), st.integers(0, 1), st.integers(-2, 9), st.sampled_from("vw")
)
steps = st.lists(
    st.one_of(objects, st.tuples(st.just("forget"), st.integers(-3, 10)), st.sampled_from(["write", "merge"])),
    max_size=40,
)


class Oracle:
    """What is known, in a plain dictionary."""

    def __init__(self) -> None:
        self.last: dict[str, Found] = {}
        self.horizon = NEVER

    def forget(self, before_ms: int) -> int:
        kept = {key: found for key, found in self.last.items() if found.modified_ms >= before_ms}
        forgotten = len(self.last) - len(kept)
        self.last, self.horizon = kept, max(self.horizon, before_ms)
        return forgotten

    def classify(self, listed: list[Found]) -> Classified:
        result = Classified()
        for found in listed:
            last = self.last.get(found.key)
            if last is None:
                if found.modified_ms >= self.horizon:
                    result.new.append(found)
            elif (last.size, last.version) != (found.size, found.version):
                result.replaced.append(found)
        return result


def known(*found: Found) -> Known:
    result = Known()
    for each in found:
        result.add(each)
    return result


def colliding(found: Found) -> bytes:
    """Return a record in which many keys have the first half of their hashes in common."""
    number = int(found.key[1:])
    return bytes([number % 2]) + bytes(7) + bytes([number]) + bytes(7) + record(found)[16:]


@given(steps, st.lists(objects, max_size=30), st.sampled_from([0, 3, 100]), st.sampled_from([record, colliding]))
def test_what_is_known_is_what_a_dictionary_would_tell(
    sequence: list[object], listed: list[Found], most_added: int, hashing: object
) -> None:
    known, oracle = Known(), Oracle()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MOST_ADDED", most_added)
        patch.setattr(module, "record", hashing)
        for step in sequence:
            match step:
                case Found():
                    known.add(step)
                    oracle.last[step.key] = step
                case ("forget", int(before_ms)):
                    assert known.forget(before_ms) == oracle.forget(before_ms)
                case "write":
                    known = Known.of(known.to_records())
                case _:
                    assert len(known) == len(oracle.last)
            assert known.classify(listed) == oracle.classify(listed)


@given(st.lists(objects, max_size=30), st.sampled_from([record, colliding]))
def test_of_records_of_one_key_the_last_one_counts(read: list[Found], hashing: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "record", hashing)
        found = Known.of(head() + b"".join(map(module.record, read)))

        assert found.classify(read) == known(*read).classify(read)
        assert len(found) == len({each.key for each in read})


@pytest.mark.parametrize("replaced", [replace(A, version="other"), replace(A, size=11)], ids=["version", "size"])
def test_an_object_with_another_version_or_size_was_replaced(replaced: Found) -> None:
    assert known(A).classify([replaced, B]) == Classified(new=[B], replaced=[replaced])


def test_another_time_alone_makes_no_other_version() -> None:
    assert known(A).classify([replace(A, modified_ms=3_000)]) == Classified()


def test_an_object_from_before_what_was_forgotten_is_never_new() -> None:
    found = known(A, B)
    never_read = replace(A, key="in/late.json")

    assert found.forget(2_000) == 1
    again = Known.of(found.to_records())
    assert again.classify([A, B, never_read]) == Classified()
    assert [each.key in again for each in (A, B, never_read)] == [False, True, False]


def test_an_object_that_came_back_after_it_was_forgotten_is_new() -> None:
    found = known(A)
    found.forget(2_000)
    again = replace(A, modified_ms=2_000, version="other")

    assert found.classify([again]) == Classified(new=[again])


@pytest.mark.parametrize("key", ["in/ü 東京.json", "in/\udce4.json", "in/\u2028\n\0", ""])
def test_any_key_is_known(key: str) -> None:
    assert known(replace(A, key=key)).classify([replace(A, key=key)]) == Classified()


def test_a_record_is_the_same_in_each_version_of_streamjob() -> None:
    assert (head(7) + record(A)).hex() == (
        "73747265616d6a6f62206b6e6f776e0a01000000000000000700000000000000"
        "c2de3cb00d429c9d14e0066ead77471b36793eeb267860f7e803000000000000"
    )


@pytest.mark.parametrize(
    "content",
    [b"", head()[:-1], head() + record(A)[:-1], b"x" + head()[1:], head()[:16] + b"\x02" + head()[17:]],
    ids=["empty", "half a head", "half a record", "something else", "a later format"],
)
@pytest.mark.parametrize("in_file", [True, False])
def test_other_content_is_refused(content: bytes, in_file: bool, tmp_path: Path) -> None:
    (tmp_path / "3.known").write_bytes(content)

    with pytest.raises(ValueError):
        Known.of(tmp_path / "3.known" if in_file else content)
