"""What is uploaded, and how, is decided without touching a file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.upload import HeldFile, known_files, plan_upload

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
    assert plan.twins == {"offsets/2": "offsets/1"}


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
    places = [*(r.path for r in plan.reused), *(f.path for f in plan.alone), *(f.path for f in packed), *plan.twins]
    assert sorted(places) == sorted(file.path for file in files)
    assert all(sum(file.size for file in pack) <= 256 for pack in plan.packs)
    assert all(file.size < 100 for file in packed)
