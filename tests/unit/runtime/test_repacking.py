"""The packs that a checkpoint rewrites: few are left, little is copied, and every file stays readable."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob.snapshot.manifest import FileRef
from streamjob_runtime.checkpointing.upload.packing import HeldFile, known_files, plan_upload
from streamjob_runtime.checkpointing.upload.repacking import FAN, TIERS, packs_of, packs_to_rewrite, tier_of

TARGET = 8192
SMALL = 256
LOWEST = TARGET // 2 // FAN ** (TIERS - 1)
"""Packs with fewer living bytes are of the lowest tier."""


@dataclass
class History:
    """Checkpoints of one chain, as they would be uploaded; `stored` has the files of each object."""

    stored: dict[str, tuple[str, ...]] = field(default_factory=dict)
    refs: tuple[FileRef, ...] = ()
    uploaded: int = 0
    copied: int = 0
    last_copied: int = 0
    last_objects: int = 0

    def checkpoint(self, files: dict[str, int]) -> None:
        """Take the checkpoint of these files, sizes by path; it is completed."""
        before = {ref.path for ref in self.refs}
        held = [HeldFile(path, size) for path, size in files.items()]
        plan = plan_upload(held, known_files(self.refs), pack_below=SMALL, pack_target=TARGET)
        refs = list(plan.reused)
        for group in (*((file,) for file in plan.alone), *plan.packs):
            name, offset = f"object-{len(self.stored)}", 0
            self.stored[name] = tuple(file.path for file in group)
            for file in group:
                refs.append(
                    FileRef(path=file.path, object=name, offset=offset, length=file.size, sha256=f"{file.path:0>64}")
                )
                offset += file.size
        self.last_copied = sum(file.size for pack in plan.packs for file in pack if file.path in before)
        self.last_objects = plan.objects
        self.copied += self.last_copied
        self.uploaded += plan.size - self.last_copied
        self.refs = tuple(refs)
        self.check(files)

    def check(self, files: dict[str, int]) -> None:
        assert sorted((ref.path, ref.length) for ref in self.refs) == sorted(files.items())
        for ref in self.refs:
            assert ref.path in self.stored[ref.object], "a file is not where the manifest says"

    def packs(self) -> dict[str, int]:
        return packs_of(self.refs, SMALL)


def most_packs(packs: dict[str, int]) -> int:
    """How many packs there may be once there is no backlog: see `repacking`."""
    return (FAN - 1) * TIERS + sum(living >= TARGET // 2 for living in packs.values())


class Job:
    """A job whose small files come and go: most die young, some stay for long."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._lifetime = random.choice([1, 3, 20, 200])
        self._rate = random.choice([1, 5, 20])
        self._made = 0
        self.files: dict[str, int] = {}

    def run(self) -> None:
        self.files = {path: size for path, size in self.files.items() if self._random.random() > 1 / self._lifetime}
        for _ in range(self._random.randint(0, self._rate)):
            self._made += 1
            folder = self._random.choice(["", "SSTs/"])
            self.files[f"state/0/0/{folder}{self._made}_id"] = self._random.choice([0, 7, 60, SMALL - 1, SMALL, 5000])


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32))
def test_however_long_a_job_runs_its_checkpoints_refer_to_few_packs_and_copy_little(seed: int) -> None:
    job, history = Job(Random(seed)), History()
    for number in range(1, 151):
        job.run()
        history.checkpoint(dict(job.files))

        packs = history.packs()
        worked_to_the_limit = history.last_copied > TARGET // 2
        assert worked_to_the_limit or len(packs) <= most_packs(packs) + history.last_objects
        assert history.last_copied <= TARGET
        assert history.copied <= 2 * TIERS * history.uploaded + LOWEST * number


@given(st.lists(st.integers(0, TARGET), max_size=300))
def test_what_has_piled_up_is_worked_off_though_nothing_changes(sizes: list[int]) -> None:
    packs = {str(number): size for number, size in enumerate(sizes)}
    steps = copied = 0
    while doomed := packs_to_rewrite(packs, TARGET):
        assert len(doomed) > 1
        living = sum(packs.pop(name) for name in doomed)
        packs[f"merged-{steps}"] = living
        copied += living
        steps += 1
        assert living <= TARGET

    assert len(packs) <= most_packs(packs)
    assert copied <= (TIERS + 1) * sum(sizes)


def test_a_full_tier_is_merged_and_one_that_is_not_stays() -> None:
    lowest = {f"a{number}": 1 for number in range(FAN)}
    above = {f"b{number}": LOWEST for number in range(FAN - 1)}

    assert packs_to_rewrite({**lowest, **above}, TARGET) == frozenset(lowest)


def test_packs_of_which_half_is_alive_are_left_alone() -> None:
    assert packs_to_rewrite({str(number): TARGET // 2 for number in range(100)}, TARGET) == frozenset()


def test_a_checkpoint_copies_no_more_than_one_pack() -> None:
    packs = {f"{number:02}": TARGET // 3 for number in range(FAN)}

    assert packs_to_rewrite(packs, TARGET) == {"00", "01", "02"}


def test_tiers_grow_by_the_same_factor() -> None:
    assert [
        tier_of(size, TARGET) for size in (0, LOWEST - 1, LOWEST, LOWEST * FAN - 1, LOWEST * FAN, TARGET // 2 - 1)
    ] == [*(0, 0, 1, 1, 2, 2)]


def test_an_object_with_a_large_file_in_it_is_no_pack() -> None:
    refs = [
        FileRef(path=path, object=name, offset=offset, length=length, sha256="a" * 64)
        for path, name, offset, length in (
            ("a", "x", 0, SMALL),
            ("b", "y", 0, 10),
            ("c", "y", 10, 20),
            ("d", "y", 10, 20),
        )
    ]

    assert packs_of(refs, SMALL) == {"y": 30}


def test_living_files_of_packs_that_are_given_up_go_into_the_pack_of_what_lasts() -> None:
    old = [
        FileRef(path=f"state/0/0/{n}_a.changelog", object=f"old-{n}", length=5, sha256=f"{n:064}") for n in range(FAN)
    ]
    held = [*(HeldFile(ref.path, ref.length) for ref in old), HeldFile("state/0/0/SSTs/new.sst", 7)]

    plan = plan_upload(held, known_files(old))

    assert not plan.reused
    (pack,) = plan.packs
    assert [file.path for file in pack] == [*(ref.path for ref in old), "state/0/0/SSTs/new.sst"]
    assert [file.sha256 for file in pack[:FAN]] == [ref.sha256 for ref in old]


def test_files_of_one_place_that_are_packed_again_have_one_place_again() -> None:
    old = [FileRef(path=f"f/{n}", object=f"old-{n % FAN}", length=5, sha256=f"{n % FAN:064}") for n in range(2 * FAN)]

    plan = plan_upload([HeldFile(ref.path, ref.length, ref.sha256) for ref in old], known_files(old))

    assert plan.size == FAN * 5
    assert plan.twins == {(f"f/{n + FAN}", 0): (f"f/{n}", 0) for n in range(FAN)}
