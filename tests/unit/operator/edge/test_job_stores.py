"""The controller's reads and deletions in the stores of jobs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.operator.edge.fake_cluster import FakeCluster
from tests.unit.stored.job import JOB, Job, sha256

from streamjob.errors import InvalidInput, Superseded
from streamjob.ids import CheckpointId, Epoch, Key, OperatorUid
from streamjob.protocol.log.claiming import Marker
from streamjob.protocol.log.records import JobId
from streamjob.snapshot import keys
from streamjob.snapshot.manifest import FileRef
from streamjob.snapshot.record import RecordKind
from streamjob.store import LocalStore
from streamjob.store.base import Store
from streamjob_operator.cluster.api import Refused
from streamjob_operator.cluster.kinds import SECRET, STREAM_JOB
from streamjob_operator.resources.base import Reference
from streamjob_operator.resources.parts import Storage
from streamjob_operator.storage.disposal import NotDisposable
from streamjob_operator.storage.job_stores import JobStores, NotInReach

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
    """Job stores over directories that represent buckets; records the variables with which stores were opened."""

    def __init__(self, root: Path, *, ambient: bool = True) -> None:
        self.cluster = FakeCluster()
        self.opened: list[tuple[str, Mapping[str, str]]] = []
        self._root = root
        self.snapshots = JobStores(self.cluster, self.open, ambient=ambient)

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
    job.claim_log(attempt=4)

    log = asyncio.run(bench.snapshots.log(JOB.namespace, JOB.name, LOCATION, Storage()))

    assert log.attempt == 4
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


def test_disposal_leaves_one_claim_and_its_copy_behind(job: Job, bench: Bench) -> None:
    job.store.put(keys.staged_object(OperatorUid("report"), Epoch(1), "ab"), b"rows that wait")
    bench.dispose()

    assert [key.partition("/")[0] for key in sorted(job.objects())] == ["log-copies", "log"]
    log = asyncio.run(bench.snapshots.log(JOB.namespace, JOB.name, LOCATION, Storage()))
    assert (log.attempt, log.newest) == (9, None)


def test_a_driver_that_wakes_up_after_disposal_completes_nothing(job: Job, bench: Bench) -> None:
    bench.dispose()

    with pytest.raises(Superseded):
        job.complete(3)


def test_disposal_may_be_repeated(job: Job, bench: Bench) -> None:
    bench.dispose()
    bench.dispose()

    assert len(job.objects()) == 2


def test_a_later_driver_is_not_robbed_by_a_late_disposal(job: Job, bench: Bench) -> None:
    job.claim_log(attempt=12)
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


ROOT = f"{LOCATION}/elsewhere/other/"
"""Where the job that has claimed the savepoint keeps its own snapshots."""


def claim(directory: Path, root: str = ROOT) -> bytes:
    """Have another job claim a savepoint, and return its marker."""
    marker = Marker(kind="claim", job="other", namespace="elsewhere", root=root).encoded()
    (directory / "claimed.json").write_bytes(marker)
    return marker


def claimant(tmp_path: Path) -> Job:
    return Job(tmp_path / "bucket" / "snapshots", JobId("elsewhere", "other"))


def dispose_claimant(bench: Bench) -> None:
    asyncio.run(bench.snapshots.dispose("elsewhere", "other", LOCATION, Storage(), attempt=9, now=1.0))


def file_of(directory: Path) -> FileRef:
    uri = f"{LOCATION}/savepoints/{directory.name}/files/1"
    return FileRef(path="state", object=uri, length=5, sha256=sha256(b"state"))


def assert_stays(bench: Bench, directory: Path, why: str) -> None:
    marker = (directory / "claimed.json").read_bytes()
    with pytest.raises(NotDisposable, match=why):
        delete(bench, directory)
    assert (directory / "manifest.json").exists()
    assert (directory / "files" / "1").exists()
    assert (directory / "claimed.json").read_bytes() == marker


def test_a_savepoint_goes_once_the_job_that_claimed_it_has_left_nothing(job: Job, bench: Bench) -> None:
    directory = job.savepoint(3, b"state")
    claim(directory)

    delete(bench, directory)

    assert [path for path in directory.rglob("*") if path.is_file()] == []


def test_a_savepoint_goes_once_the_job_that_claimed_it_is_disposed_of(job: Job, bench: Bench, tmp_path: Path) -> None:
    directory = job.savepoint(3, b"state")
    claim(directory)
    claimant(tmp_path).complete(1, file_of(directory))
    dispose_claimant(bench)

    delete(bench, directory)

    assert [path for path in directory.rglob("*") if path.is_file()] == []


def test_a_savepoint_goes_once_no_checkpoint_of_the_job_that_claimed_it_refers_to_it(
    job: Job, bench: Bench, tmp_path: Path
) -> None:
    directory = job.savepoint(3, b"state")
    claim(directory)
    other = claimant(tmp_path)
    other.complete(1, *other.upload(state=b"own"))

    delete(bench, directory)

    assert not (directory / "manifest.json").exists()


@pytest.mark.parametrize("kind", ["suspended", "running"])
def test_a_savepoint_stays_while_there_is_a_streamjob_that_has_claimed_it(job: Job, bench: Bench, kind: str) -> None:
    directory = job.savepoint(3, b"state")
    claim(directory)
    spec = {"suspend": kind == "suspended"}
    metadata = {"namespace": "elsewhere", "name": "other"}
    asyncio.run(bench.cluster.create(STREAM_JOB, {"metadata": metadata, "spec": spec}))

    assert_stays(bench, directory, "job elsewhere/other has claimed it .* there is a StreamJob of that name")


def test_a_savepoint_stays_while_a_job_without_a_resource_may_start_from_it(
    job: Job, bench: Bench, tmp_path: Path
) -> None:
    directory = job.savepoint(3, b"state")
    claim(directory)
    other = claimant(tmp_path)

    assert_stays(bench, directory, "has not completed anything")

    other.complete(1, file_of(directory))
    assert_stays(bench, directory, "its checkpoint 1 refers to the savepoint's files")

    other.complete(2, *other.upload(state=b"own"))
    assert_stays(bench, directory, "its checkpoint 1 refers")

    other.claim_log(attempt=2)
    assert_stays(bench, directory, "has not completed anything")


def test_a_savepoint_stays_for_a_job_that_comes_back_after_its_disposal(job: Job, bench: Bench, tmp_path: Path) -> None:
    directory = job.savepoint(3, b"state")
    claim(directory)
    other = claimant(tmp_path)
    dispose_claimant(bench)
    other.claim_log(attempt=10)

    assert_stays(bench, directory, "has not completed anything")


def test_a_savepoint_stays_for_a_start_that_meets_the_marker_while_it_is_voided(
    job: Job, bench: Bench, tmp_path: Path
) -> None:
    directory = job.savepoint(3, b"state")
    marker = claim(directory)
    other = claimant(tmp_path)
    dispose_claimant(bench)
    put = LocalStore.put_if_absent
    began: list[Key] = []

    def put_behind_a_start(store: LocalStore, key: Key, content: bytes) -> bool:
        if key == "claimed.json" and not began:
            began.append(key)
            other.claim_log(attempt=10)
        return put(store, key, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalStore, "put_if_absent", put_behind_a_start)
        with pytest.raises(NotDisposable, match="has not completed anything"):
            delete(bench, directory)

    assert began
    assert (directory / "manifest.json").exists()
    assert (directory / "claimed.json").read_bytes() == marker


def test_a_controller_that_died_behind_the_voiding_looks_again_and_gives_the_claim_back(
    job: Job, bench: Bench, tmp_path: Path
) -> None:
    directory = job.savepoint(3, b"state")
    claim(directory)
    marker = Marker.model_validate_json((directory / "claimed.json").read_bytes())
    voided = Marker(kind="deletion", job="departures", namespace="default", voided=marker)
    (directory / "claimed.json").write_bytes(voided.encoded())
    claimant(tmp_path)

    with pytest.raises(NotDisposable, match="has not completed anything"):
        delete(bench, directory)

    assert Marker.model_validate_json((directory / "claimed.json").read_bytes()) == marker


@pytest.mark.parametrize("root", ["file:///mnt/snapshots/elsewhere/other/", ""])
def test_a_savepoint_stays_while_the_log_of_the_job_that_claimed_it_is_out_of_sight(
    job: Job, bench: Bench, root: str
) -> None:
    directory = job.savepoint(3, b"state")
    claim(directory, root)

    assert_stays(bench, directory, "is not to be seen")


def test_a_savepoint_stays_while_nobody_may_say_whether_its_claimant_is_there(job: Job, bench: Bench) -> None:
    directory = job.savepoint(3, b"state")
    claim(directory)
    bench.cluster.faults["list"] = [Refused("GET was answered with 403: not yours", "not yours")]

    assert_stays(bench, directory, "cannot be asked: not yours")


def test_a_savepoint_whose_marker_cannot_be_read_stays(job: Job, bench: Bench) -> None:
    directory = job.savepoint(3, b"state")
    (directory / "claimed.json").write_bytes(b"{}")

    assert_stays(bench, directory, "is not a valid marker")


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
