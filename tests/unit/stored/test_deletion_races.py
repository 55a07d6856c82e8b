"""A deletion by hand that others come between: a successor that claims the log, or a store that fails, at any step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.stored.job import Job

from streamjob.errors import Superseded
from streamjob.ids import CheckpointId, Epoch, Key, Owner
from streamjob.protocol.manifests.stored_manifests import decode_manifest
from streamjob.snapshot import keys
from streamjob.store import LocalStore, ObjectInfo, StoreError, StoreUnavailable
from streamjob.stored.deletion import delete_snapshot
from streamjob.stored.locations import JobLocation
from streamjob.stored.reading import JobSnapshots, read_job
from streamjob.stored.verify import verify

STEPS = 40
"""More than a deletion has."""


class Interrupted(LocalStore):
    """A store that lets something happen before one of its calls."""

    def __init__(self, root: Path, step: int, happens: Callable[[], None]) -> None:
        super().__init__(root)
        self._left = step
        self._happens = happens
        self.reached = False

    def _before(self) -> None:
        if self._left == 0:
            self.reached = True
            self._happens()
        self._left -= 1

    def get(self, key: Key) -> bytes:
        self._before()
        return super().get(key)

    def put_if_absent(self, key: Key, content: bytes) -> bool:
        self._before()
        return super().put_if_absent(key, content)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        self._before()
        return super().list(prefix, start_after)

    def delete(self, keys: Iterable[Key]) -> None:
        self._before()
        super().delete(keys)


@dataclass
class Attempted:
    """A deletion of checkpoint 2 and what is older, with something between its steps."""

    ended: BaseException | None
    after: JobSnapshots
    reached: bool


def attempt(job: Job, step: int, happens: Callable[[], None]) -> Attempted:
    before = read_job(JobLocation(job.job, job.store))
    store = Interrupted(job.path("").resolve(), step, happens)
    there: Any = JobSnapshots(JobLocation(job.job, store), before.view, before.snapshots)
    ended: BaseException | None = None
    try:
        delete_snapshot(there, CheckpointId(2), fence=True, with_older=True, owner=Owner("by hand"), now=job.time)
    except (Superseded, StoreError) as error:
        ended = error
    return Attempted(ended, read_job(JobLocation(job.job, job.store)), store.reached)


def every_step(tmp_path: Path, happens: Callable[[Job], None]) -> Iterator[tuple[Attempted, Job]]:
    """Yield the outcomes with the interruption at each step in turn, until a deletion has no such step."""
    for step in itertools.count():
        job = Job(tmp_path / str(step))
        common = job.upload(state=b"c" * 100)
        for number in (1, 2, 3):
            job.complete(number, *common, *job.upload(own=b"s%d" % number))
        outcome = attempt(job, step, lambda job=job: happens(job))  # type: ignore[misc]
        if not outcome.reached:
            assert 5 < step < STEPS
            return
        yield outcome, job


def succeed(job: Job) -> None:
    """Claim the log, restore from checkpoint 3 and complete another one on its files."""
    job.claim_log()
    name = keys.manifest(Epoch(1), CheckpointId(3))
    files = decode_manifest(name, job.store.get(name)).chains[0].files
    job.complete(4, *files, *job.upload(more=b"new"))


def test_a_successor_at_any_step_finds_its_checkpoint_whole(tmp_path: Path) -> None:
    endings = set()
    for outcome, _ in every_step(tmp_path, succeed):
        newest = outcome.after.named(None)
        endings.add(type(outcome.ended))
        assert newest.id == 4
        assert verify([newest, outcome.after.named(CheckpointId(3))]).whole

    assert endings == {type(None), Superseded}


def test_a_store_that_fails_at_any_step_leaves_whole_what_has_a_manifest(tmp_path: Path) -> None:
    def fail(job: Job) -> None:
        raise StoreUnavailable("away")

    for outcome, job in every_step(tmp_path, fail):
        assert outcome.after.named(None).id == 3
        assert verify(outcome.after.snapshots).whole
        succeed(job)
        assert verify(read_job(JobLocation(job.job, job.store)).snapshots).whole


def test_a_deletion_that_lost_the_log_before_it_checked_deletes_nothing(tmp_path: Path) -> None:
    for outcome, _ in every_step(tmp_path, succeed):
        if isinstance(outcome.ended, Superseded):
            assert [each.id for each in outcome.after.snapshots if not each.gone] == [1, 2, 3, 4]
            assert verify(outcome.after.snapshots).whole
