"""What the controller reads and deletes in the stores of jobs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.operator.edge.fake_cluster import FakeCluster
from tests.unit.stored.job import JOB, Job

from streamjob.errors import InvalidInput, Superseded
from streamjob.ids import CheckpointId, Epoch, Key, OperatorUid
from streamjob.protocol.claiming import Marker
from streamjob.snapshot import keys
from streamjob.snapshot.record import RecordKind
from streamjob.store import LocalStore
from streamjob.store.base import Store
from streamjob_operator.cluster.kinds import SECRET
from streamjob_operator.disposal import NotDisposable
from streamjob_operator.resources.base import Reference
from streamjob_operator.resources.parts import Storage
from streamjob_operator.storing import NotInReach, Snapshots

LOCATION = "s3://bucket/snapshots"


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    job = Job(tmp_path / "bucket" / "snapshots")
    for number in (1, 2):
        job.complete(number, *job.upload(state=b"s%d" % number))
    return job


class Bench:
    """Snapshots over directories that stand for buckets; notes with which variables stores were opened."""

    def __init__(self, root: Path, *, ambient: bool = True) -> None:
        self.cluster = FakeCluster()
        self.opened: list[tuple[str, Mapping[str, str]]] = []
        self._root = root
        self.snapshots = Snapshots(self.cluster, self.open, ambient=ambient)

    def open(self, uri: str, environment: Mapping[str, str]) -> Store:
        self.opened.append((uri, environment))
        return LocalStore(self._root / uri.removeprefix("s3://").rstrip("/"))

    def dispose(self, attempt: int = 9) -> int:
        return asyncio.run(
            self.snapshots.dispose(JOB.namespace, JOB.name, LOCATION, Storage(), attempt=attempt, now=1.0)
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_what_needs_credentials_that_nobody_named_is_not_even_opened(job: Job, tmp_path: Path) -> None:
    bench = Bench(tmp_path, ambient=False)
    before = job.objects()

    for attempt in (
        lambda: asyncio.run(bench.snapshots.log(JOB.namespace, JOB.name, LOCATION, Storage())),
        lambda: asyncio.run(bench.snapshots.manifest(JOB.namespace, f"{LOCATION}/x/manifest.json", Storage())),
        lambda: asyncio.run(bench.snapshots.delete_savepoint(JOB.namespace, f"{LOCATION}/x/manifest.json", Storage())),
        bench.dispose,
    ):
        with pytest.raises(NotInReach, match="credentialsSecretRef"):
            attempt()

    assert bench.opened == []
    assert job.objects() == before


def test_the_log_tells_who_claimed_it_last_and_what_was_completed(job: Job, bench: Bench) -> None:
    job.claim(attempt=4)

    log = asyncio.run(bench.snapshots.log(JOB.namespace, JOB.name, LOCATION, Storage()))

    assert (log.attempt, log.epoch) == (4, 2)
    assert log.newest is not None
    assert (log.newest.id, log.newest.attempt, log.newest.epoch) == (2, 1, 1)
    assert log.newest.path == f"{LOCATION}/default/departures/checkpoints/1-2/manifest.json"
    assert not log.finished


def test_a_job_that_has_finished_is_known_by_its_log(job: Job, bench: Bench) -> None:
    job.complete(3, kind=RecordKind.FINAL)

    assert asyncio.run(bench.snapshots.log(JOB.namespace, JOB.name, LOCATION, Storage())).finished


def test_a_location_without_a_log_is_an_empty_log(bench: Bench) -> None:
    assert asyncio.run(bench.snapshots.log("a", "b", LOCATION, Storage())).empty


@pytest.mark.parametrize("location", ["file:///data/snapshots", "/data/snapshots"])
def test_the_controllers_own_file_system_is_never_read(bench: Bench, location: str) -> None:
    with pytest.raises(NotInReach):
        asyncio.run(bench.snapshots.log("a", "b", location, Storage()))
    with pytest.raises(NotInReach):
        asyncio.run(bench.snapshots.delete_savepoint("a", f"{location}/manifest.json", Storage()))
    assert bench.opened == []


def test_a_store_is_opened_with_the_credentials_that_the_job_names(bench: Bench) -> None:
    encoded = {
        key: base64.b64encode(value).decode()
        for key, value in {"AWS_ACCESS_KEY_ID": b"me", "AWS_SECRET_ACCESS_KEY": b"secret\n", "OTHER": b"x"}.items()
    }
    secret = {"metadata": {"namespace": "a", "name": "s3"}, "data": encoded}
    asyncio.run(bench.cluster.create(SECRET, secret))
    storage = Storage(endpoint="http://s3:7070", path_style_access=True, credentials_secret_ref=Reference(name="s3"))

    asyncio.run(bench.snapshots.log("a", "b", LOCATION, storage))

    assert bench.opened[0][1] == {
        "AWS_ENDPOINT_URL": "http://s3:7070",
        "STREAMJOB_S3_PATH_STYLE": "true",
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }


def test_a_secret_that_is_missing_or_lacks_a_key_is_named(bench: Bench) -> None:
    storage = Storage(credentials_secret_ref=Reference(name="s3"))
    with pytest.raises(InvalidInput, match="no Secret s3 in namespace a"):
        asyncio.run(bench.snapshots.log("a", "b", LOCATION, storage))

    asyncio.run(bench.cluster.create(SECRET, {"metadata": {"namespace": "a", "name": "s3"}, "data": {}}))
    with pytest.raises(InvalidInput, match="lacks AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        asyncio.run(bench.snapshots.log("a", "b", LOCATION, storage))


def test_disposal_leaves_one_claim_behind(job: Job, bench: Bench) -> None:
    job.store.put(keys.staged_object(OperatorUid("report"), Epoch(1), "ab"), b"rows that wait")
    bench.dispose()

    assert [key.partition("/")[0] for key in job.objects()] == ["log"]
    log = asyncio.run(bench.snapshots.log(JOB.namespace, JOB.name, LOCATION, Storage()))
    assert (log.attempt, log.newest) == (9, None)


def test_a_driver_that_wakes_up_after_disposal_completes_nothing(job: Job, bench: Bench) -> None:
    bench.dispose()

    with pytest.raises(Superseded):
        job.complete(3)


def test_disposal_may_be_repeated(job: Job, bench: Bench) -> None:
    bench.dispose()
    bench.dispose()

    assert len(job.objects()) == 1


def test_a_later_driver_is_not_robbed_by_a_late_disposal(job: Job, bench: Bench) -> None:
    job.claim(attempt=12)
    before = job.objects()

    with pytest.raises(Superseded):
        bench.dispose(attempt=9)
    assert job.objects() == before


def test_disposal_spares_what_another_job_has_claimed(job: Job, bench: Bench) -> None:
    manifest = keys.manifest(Epoch(1), CheckpointId(1))
    marker = Key(keys.claim_marker(manifest))
    job.store.put(marker, Marker(kind="claim", job="other", namespace="default").encoded())
    needed = job.own_object(1)

    bench.dispose()

    assert needed.exists()
    assert {manifest, marker} <= job.objects()
    assert keys.manifest(Epoch(1), CheckpointId(2)) not in job.objects()


def test_savepoints_outlive_the_disposal_of_their_job(job: Job, bench: Bench) -> None:
    directory = job.savepoint(3, b"state")
    bench.dispose()

    assert (directory / "manifest.json").exists()


def delete(bench: Bench, directory: Path) -> int:
    path = f"{LOCATION}/savepoints/{directory.name}/manifest.json"
    return asyncio.run(bench.snapshots.delete_savepoint("default", path, Storage()))


def test_a_savepoint_is_deleted_with_its_files(job: Job, bench: Bench) -> None:
    directory = job.savepoint(3, b"state")

    delete(bench, directory)

    assert [path for path in directory.rglob("*") if path.is_file()] == []
    assert delete(bench, directory) == 0


def test_an_interrupted_deletion_of_a_savepoint_is_brought_to_its_end(job: Job, bench: Bench) -> None:
    directory = job.savepoint(3, b"state")
    (directory / "claimed.json").write_bytes(Marker(kind="deletion", job="departures", namespace="default").encoded())
    (directory / "manifest.json").unlink()

    delete(bench, directory)

    assert [path for path in directory.rglob("*") if path.is_file()] == []


def test_a_savepoint_that_another_job_has_claimed_stays(job: Job, bench: Bench) -> None:
    directory = job.savepoint(3, b"state")
    (directory / "claimed.json").write_bytes(Marker(kind="claim", job="other", namespace="default").encoded())

    with pytest.raises(NotDisposable, match="another job has claimed"):
        delete(bench, directory)
    assert (directory / "manifest.json").exists()


def test_a_checkpoint_is_not_deleted_as_a_savepoint(job: Job, bench: Bench) -> None:
    path = f"{LOCATION}/default/departures/checkpoints/1-1/manifest.json"
    before = job.objects()

    with pytest.raises(NotDisposable, match="holds a checkpoint"):
        asyncio.run(bench.snapshots.delete_savepoint("default", path, Storage()))
    assert job.objects() == before


def test_a_savepoint_of_another_namespace_is_not_deleted(job: Job, bench: Bench) -> None:
    directory = job.savepoint(3, b"state", f"{LOCATION}/savepoints/departures-3-abc")
    uri = f"{LOCATION}/savepoints/{directory.name}/manifest.json"

    with pytest.raises(NotDisposable, match="of namespace default, which is not for other to delete"):
        asyncio.run(bench.snapshots.delete_savepoint("other", uri, Storage()))

    assert (directory / "manifest.json").exists()
    assert (directory / "files" / "1").exists()
