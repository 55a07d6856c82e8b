"""The decision about uploads and packs does not touch any file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.checkpointing.upload.packing import (
    LARGEST_PIECE,
    LEAST_PIECE,
    WHOLE_BELOW,
    HeldFile,
    known_files,
    pieces,
    plan_upload,
)

SHA = "a" * 64
OTHER = "b" * 64


def ref(path: str, length: int, sha256: str = SHA) -> FileRef:
    return FileRef(path=path, object="shared/aa/1-x", offset=7, length=length, sha256=sha256)


def test_a_state_file_of_an_earlier_checkpoint_is_reused_by_its_name() -> None:
    earlier = ref("state/0/0/4_id.changelog", 10)

    plan = plan_upload([HeldFile("state/0/0/4_id.changelog", 10)], known_files([earlier]))

    assert plan.reused == (earlier,)
    assert plan.objects == 0


def test_a_state_file_of_another_size_is_not_the_same_file() -> None:
    plan = plan_upload([HeldFile("state/0/0/4_id.changelog", 11)], known_files([ref("state/0/0/4_id.changelog", 10)]))

    assert not plan.reused
    assert plan.size == 11


def test_an_offset_log_entry_with_another_content_is_not_reused_by_its_name() -> None:
    plan = plan_upload([HeldFile("offsets/7", 10, OTHER)], known_files([ref("offsets/7", 10)]))

    assert not plan.reused


def test_a_schema_is_reused_by_its_content_under_its_own_path() -> None:
    known = known_files([ref("state/0/0/_metadata/schema", 10)])

    plan = plan_upload([HeldFile("state/1/0/_metadata/schema", 10, SHA)], known)

    assert plan.reused == (ref("state/1/0/_metadata/schema", 10),)


def test_files_of_equal_content_go_up_once() -> None:
    plan = plan_upload([HeldFile("offsets/1", 3, SHA), HeldFile("offsets/2", 3, SHA)], {})

    assert plan.size == 3
    assert plan.twins == {("offsets/2", 0): ("offsets/1", 0)}


def test_a_file_as_large_as_the_limit_goes_up_alone() -> None:
    large, small = HeldFile("state/0/0/2_a.changelog", 100), HeldFile("state/0/0/3_b.changelog", 99)

    plan = plan_upload([large, small], {}, pack_below=100, pack_target=1000)

    assert plan.alone == (large,)
    assert plan.packs == ((small,),)


def test_files_that_live_long_are_packed_apart_from_short_lived_ones() -> None:
    schema = HeldFile("state/0/0/_metadata/schema", 5, SHA)
    sst = HeldFile("state/0/0/SSTs/000008-id.sst", 6)
    changelog = HeldFile("state/0/0/3_b.changelog", 7)
    offsets = HeldFile("offsets/2", 8, OTHER)

    plan = plan_upload([offsets, schema, changelog, sst], {})

    assert plan.packs == ((schema, sst), (offsets, changelog))


held = st.builds(
    HeldFile,
    path=st.integers(0, 10**9).map(lambda n: f"state/0/{n % 4}/{n}_id.changelog"),
    size=st.integers(0, 300),
)


@given(st.lists(held, max_size=40, unique_by=lambda file: file.path), st.integers(0, 40))
def test_every_file_has_one_place_and_no_pack_outgrows_its_target(files: list[HeldFile], known: int) -> None:
    plan = plan_upload(files, known_files(ref(f.path, f.size) for f in files[:known]), pack_below=100, pack_target=256)

    packed = [file for pack in plan.packs for file in pack]
    twins = [path for path, _ in plan.twins]
    places = [*(r.path for r in plan.reused), *(f.path for f in plan.alone), *(f.path for f in packed), *twins]
    assert sorted(places) == sorted(file.path for file in files)
    assert all(sum(file.size for file in pack) <= 256 for pack in plan.packs)
    assert all(file.size < 100 for file in packed)


@given(st.integers(0, 3_000_000))
def test_pieces_make_up_the_file_and_none_is_larger_than_a_packs_limit(size: int) -> None:
    found = list(pieces(size))

    assert [at for at, _ in found] == [sum(length for _, length in found[:n]) for n in range(len(found))]
    assert sum(length for _, length in found) == size
    assert all(length <= LARGEST_PIECE for _, length in found)
    assert len(found) <= size // LARGEST_PIECE + 6


@given(st.lists(st.integers(1, 60_000), min_size=1, max_size=200))
def test_of_a_file_that_grows_by_appending_a_byte_goes_up_five_times_besides_the_last_ones(growth: list[int]) -> None:
    size, uploaded = WHOLE_BELOW, 0
    known: set[tuple[int, int]] = set()
    for added in growth:
        size += added
        found = set(pieces(size))
        uploaded += sum(length for at, length in found - known)
        known = found

    assert uploaded <= 5 * size + len(growth) * LEAST_PIECE


def test_a_piece_is_known_by_its_content_wherever_the_file_is_now() -> None:
    old = FileRef(path="sources/0/9.compact", object="o", length=LARGEST_PIECE, sha256=SHA, at=LARGEST_PIECE)
    new = HeldFile("sources/0/19.compact", LARGEST_PIECE, SHA, at=LARGEST_PIECE)

    plan = plan_upload([new], known_files([old]))

    assert plan.reused == (old.model_copy(update={"path": "sources/0/19.compact"}),)


def test_whole_pieces_of_a_log_are_packed_with_what_lasts_and_its_end_with_what_does_not() -> None:
    first, end = (
        HeldFile("sources/0/9.compact", size, sha, at) for size, sha, at in ((65536, SHA, 0), (9, OTHER, 65536))
    )
    whole = HeldFile("sources/1/9.compact", 30_000, "c" * 64)

    assert plan_upload([end, whole, first], {}).packs == ((first,), (end, whole))
