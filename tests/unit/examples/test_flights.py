"""The parts of the demo that need no Spark."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
from tests.unit.examples.flights import FLIGHTS, modules_by_name

from streamjob.ids import Attempt, CheckpointId, Epoch, LogSeq, OperatorUid, Owner
from streamjob.job.loading.load import load_job
from streamjob.snapshot.manifest import Manifest, SourceState
from streamjob.snapshot.record import LogRecord, RecordKind


@pytest.fixture(scope="module")
def module() -> Iterator[ModuleType]:
    """Give access to the example's modules by name, as its scripts have."""
    with modules_by_name():
        yield importlib


@pytest.fixture
def record(tmp_path: Path):  # type: ignore[no-untyped-def]
    """Write records of a log below `tmp_path`."""

    def write(
        seq: int,
        kind: RecordKind,
        epoch: int,
        checkpoint: int | None = None,
        manifest: str | None = None,
        folder: Path = tmp_path,
    ) -> LogRecord:
        written = LogRecord(
            seq=LogSeq(seq),
            kind=kind,
            epoch=Epoch(epoch),
            owner=Owner("o"),
            attempt=Attempt(0),
            id=CheckpointId(checkpoint) if checkpoint is not None else None,
            manifest=manifest,
            time=0.0,
        )
        (folder / f"{seq:020d}.json").write_text(written.model_dump_json(by_alias=True))
        return written

    return write


def test_both_files_describe_the_same_job() -> None:
    in_sql, in_python = load_job(FLIGHTS / "job.yaml").spec, load_job(FLIGHTS / "job.py").spec
    operators = [
        [(each.name, each.uid, each.inputs, each.output_mode) for each in spec.operators]
        for spec in (in_sql, in_python)
    ]

    assert operators[0] == operators[1]
    assert in_sql.model_copy(update={"operators": ()}) == in_python.model_copy(update={"operators": ()})


def test_a_comparison_finds_missing_surplus_and_repeated_rows(module: ModuleType) -> None:
    compare = module.import_module("compare").compare
    expected = Counter({("EWR", 1): 1, ("JFK", None): 1, ("LGA", 2): 1})
    found = Counter({("EWR", 1): 2, ("JFK", None): 1, ("LGA", 3): 1})

    comparison = compare(found, expected)

    assert not comparison.identical
    assert comparison.missing == Counter({("LGA", 2): 1})
    assert comparison.surplus == Counter({("EWR", 1): 1, ("LGA", 3): 1})
    assert compare(expected, expected).identical


def test_a_life_restores_the_highest_completion_below_its_claim(  # type: ignore[no-untyped-def]
    module: ModuleType, tmp_path: Path, record
) -> None:
    watch = module.import_module("watch")
    record(0, RecordKind.CLAIM, 1)
    record(1, RecordKind.CHECKPOINT, 1, checkpoint=1)
    second = record(2, RecordKind.CHECKPOINT, 1, checkpoint=2)
    claim = record(3, RecordKind.CLAIM, 2)
    third = record(4, RecordKind.CHECKPOINT, 2, checkpoint=3)
    records = watch.read_log(tmp_path)

    assert watch.last_claim(records) == claim
    assert watch.restored_from(records, claim) == second
    assert watch.completions_of(records, claim) == [third]


def test_a_first_life_restores_nothing(module: ModuleType, tmp_path: Path, record) -> None:  # type: ignore[no-untyped-def]
    watch = module.import_module("watch")
    claim = record(0, RecordKind.CLAIM, 1)

    assert watch.restored_from(watch.read_log(tmp_path), claim) is None
    assert watch.read_log(tmp_path / "missing") == []


def test_the_same_seed_kills_at_the_same_moments(module: ModuleType) -> None:
    plan_kills = module.import_module("demo").plan_kills

    assert plan_kills(3, seed=7) == plan_kills(3, seed=7)
    assert plan_kills(3, seed=7) != plan_kills(3, seed=8)
    assert all(kill.checkpoints >= 1 for kill in plan_kills(50, seed=7))


def manifest(position: int) -> str:
    """Return the manifest of a checkpoint that has read its source up to a position."""
    return Manifest(
        job="flights",
        namespace="default",
        id=CheckpointId(1),
        epoch=Epoch(1),
        kind="checkpoint",
        triggered=0.0,
        completed=0.0,
        graph={},
        sources=(SourceState(uid=OperatorUid("s"), position={"logOffset": position}),),
    ).model_dump_json(by_alias=True)


def test_only_checkpoints_that_cover_new_input_count_as_progress(  # type: ignore[no-untyped-def]
    module: ModuleType, tmp_path: Path, record
) -> None:
    """A checkpoint may complete before the first batch has: killing the job then would prove little."""
    log = tmp_path / "log"
    log.mkdir()
    write = partial(record, folder=log)
    write(0, RecordKind.CLAIM, 1)
    write(1, RecordKind.CHECKPOINT, 1, checkpoint=1, manifest="m4")
    follower = module.import_module("watch").Follower(tmp_path)
    for batch in (4, 9):
        (tmp_path / f"m{batch}").write_text(manifest(batch))
    write(2, RecordKind.CLAIM, 2)
    write(3, RecordKind.CHECKPOINT, 2, checkpoint=2, manifest="m4")
    follower.look()
    before = follower.progress
    write(4, RecordKind.CHECKPOINT, 2, checkpoint=3, manifest="m9")
    write(5, RecordKind.CHECKPOINT, 2, checkpoint=4, manifest="m9")
    follower.look()

    assert follower.restored.id == 1
    assert before == []
    assert follower.progress == [3]
    assert list(follower.positions) == [2, 3, 4]


def test_a_life_is_followed_beyond_the_moment_when_the_log_forgets_its_claim(  # type: ignore[no-untyped-def]
    module: ModuleType, tmp_path: Path, record
) -> None:
    log = tmp_path / "log"
    log.mkdir()
    write = partial(record, folder=log)
    for batch in (1, 2, 3):
        (tmp_path / f"m{batch}").write_text(manifest(batch))
    write(7, RecordKind.CHECKPOINT, 1, checkpoint=1, manifest="m1")
    follower = module.import_module("watch").Follower(tmp_path)
    write(8, RecordKind.CLAIM, 2)
    write(9, RecordKind.CHECKPOINT, 2, checkpoint=2, manifest="m2")
    follower.look()
    for gone in (7, 8):
        next(log.glob(f"*{gone}.json")).unlink()
    write(10, RecordKind.CHECKPOINT, 2, checkpoint=3, manifest="m3")
    follower.look()

    assert follower.restored.id == 1
    assert follower.progress == [2, 3]
